package compose

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestReferenceOfAttributes holds docs/reference/compose.md equal to what becomes of
// each attribute.
func TestReferenceOfAttributes(t *testing.T) {
	const path = "../../../docs/reference/compose.md"
	list := slices.Clone(attributes)
	slices.SortFunc(list, func(x, y Attribute) int { return cmp.Compare(x.Path, y.Path) })
	var b strings.Builder
	b.WriteString("# Attributes of Compose files\n\nThis page is made from the code; a test holds it equal. `*` stands for a name, `[]` for each entry of a list. " +
		"[containers.md](../containers.md) says how a bundle names its Compose files.\n")
	for _, how := range []struct {
		how   How
		title string
	}{{Applied, "Applied: they end in what runs on the host"}, {Noted, "Noted: a warning of the build"}, {Refused, "Refused: an error of the build, with what to do instead"}} {
		fmt.Fprintf(&b, "\n## %s\n\n", how.title)
		if how.how == Applied {
			for _, a := range list {
				if a.How == how.how {
					fmt.Fprintf(&b, "- `%s`\n", a.Path)
				}
			}
			continue
		}
		b.WriteString("| attribute | why |\n|---|---|\n")
		for _, a := range list {
			if a.How == how.how {
				fmt.Fprintf(&b, "| `%s` | %s |\n", a.Path, strings.ReplaceAll(a.Why, "|", `\|`))
			}
		}
	}
	b.WriteString("\n## x-steady: what Compose has no word for\n\nA duration is one such as 30s, 10m or 24h.\n\n| key | meaning |\n|---|---|\n")
	steadyKeys(t, "x-steady.", reflect.TypeFor[topSteady](), &b)
	steadyKeys(t, "services.*.x-steady.", reflect.TypeFor[serviceSteady](), &b)
	if *rewrite {
		testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != b.String() {
		t.Errorf("%s is not what the code says (%v); run this test with -rewrite", path, err)
	}
}

// steadyKeys writes a row for each key of an extension; one without a meaning is a fault.
func steadyKeys(t *testing.T, at string, in reflect.Type, b *strings.Builder) {
	t.Helper()
	for i := range in.NumField() {
		f := in.Field(i)
		key, doc := at+f.Tag.Get("json"), f.Tag.Get("doc")
		if doc == "" {
			t.Errorf("%s has no meaning", key)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", key, doc)
		below, of := key+".", f.Type
		switch of.Kind() {
		case reflect.Map:
			below, of = key+".*.", of.Elem()
		case reflect.Slice:
			below, of = key+".[].", of.Elem()
		case reflect.Pointer:
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of != reflect.TypeFor[fleet.DurationText]() {
			steadyKeys(t, below, of, b)
		}
	}
}

// TestDefaultsOfTheExtension: the durations say what is taken where they are left out.
func TestDefaultsOfTheExtension(t *testing.T) {
	update := reflect.TypeFor[serviceSteady]().Field(2).Type
	for _, d := range []struct {
		in    reflect.Type
		field string
		want  clock.Duration
	}{{update, "Monitor", replace.DefaultMonitor}, {update, "HealthWait", replace.DefaultHealthWait}, {reflect.TypeFor[routeDecl](), "HeaderWait", router.DefaultHeaderTimeout}} {
		f, _ := d.in.FieldByName(d.field)
		if !strings.HasSuffix(f.Tag.Get("doc"), "; default "+d.want.String()) {
			t.Errorf("%s says %q, and left out it is %s", d.field, f.Tag.Get("doc"), d.want)
		}
	}
}
