package compose

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/schema"
	"github.com/compose-spec/compose-go/v2/types"
)

// covered reports whether the table says what becomes of a path, by itself or
// through something above it that is not applied.
func covered(path string) bool {
	parts := strings.Split(path, ".")
	for i := range parts {
		if a, ok := verdicts[strings.Join(parts[:i+1], ".")]; ok && (a.How != Applied || i+1 == len(parts)) {
			return true
		}
	}
	return false
}

// A later version of the library that knows more attributes fails this, so that
// none is dropped in silence.
func TestEveryAttributeOfTheSpecificationHasAVerdict(t *testing.T) {
	known := map[string]bool{}
	for _, p := range schema.AttributePaths() {
		path := strings.Join(p.Parts(), ".")
		known[path] = true
		if !covered(path) {
			t.Errorf("%s: say whether it is applied, refused or noted", path)
		}
	}
	seen := map[string]bool{}
	for _, a := range attributes {
		if !known[a.Path] {
			t.Errorf("%s is in the table and not in the specification", a.Path)
		}
		if seen[a.Path] {
			t.Errorf("%s is in the table twice", a.Path)
		}
		seen[a.Path] = true
		if (a.How == Applied) != (a.Why == "") {
			t.Errorf("%s is %s because %q", a.Path, a.How, a.Why)
		}
	}
}

// outsideSchema are fields of the library's types that the specification's schema
// does not let through, or that the library fills in itself.
var outsideSchema = []string{
	"services.*.name", "services.*.net", "services.*.log_driver", "services.*.log_opt", "services.*.volume_driver",
	"services.*.dockerfile", "services.*.ulimits.*.single", "services.*.build.ulimits.*.single", "environment",
	"services.*.deploy.resources.limits.devices", "services.*.deploy.resources.limits.generic_resources",
	"services.*.deploy.resources.reservations.pids",
	"configs.*.driver", "configs.*.driver_opts", "secrets.*.content",
}

// Fields of the library's own types, where it may be ahead of its schema.
func TestEveryFieldOfTheLibraryHasAVerdict(t *testing.T) {
	var visit func(ty reflect.Type, path string, depth int)
	visit = func(ty reflect.Type, path string, depth int) {
		switch ty.Kind() {
		case reflect.Pointer:
			visit(ty.Elem(), path, depth)
		case reflect.Map:
			visit(ty.Elem(), path+".*", depth)
		case reflect.Slice:
			visit(ty.Elem(), path+".[]", depth)
		case reflect.Struct:
			if depth > 12 {
				t.Fatalf("%s is nested too deep", path)
			}
			for f := range ty.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				if !f.IsExported() || name == "-" || strings.HasPrefix(name, "#") || f.Name == "Extensions" {
					continue
				}
				if f.Anonymous {
					visit(f.Type, path, depth+1)
					continue
				}
				if name == "" {
					name = strings.ToLower(f.Name)
				}
				next := strings.TrimPrefix(path+"."+name, ".")
				if slices.Contains(outsideSchema, next) {
					continue
				}
				if f.Type.Kind() != reflect.Struct && f.Type.Kind() != reflect.Map && f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Pointer {
					if !covered(next) {
						t.Errorf("%s: say whether it is applied, refused or noted", next)
					}
					continue
				}
				if !covered(next) {
					t.Errorf("%s: say whether it is applied, refused or noted", next)
				} else if a := verdicts[next]; a.How == Applied && holdsStruct(f.Type) {
					visit(f.Type, next, depth+1)
				}
			}
		}
	}
	visit(reflect.TypeFor[types.Project](), "", 0)
}

func holdsStruct(ty reflect.Type) bool {
	switch ty.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return holdsStruct(ty.Elem())
	}
	return ty.Kind() == reflect.Struct
}
