package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// schema is the part of a JSON Schema that the description uses.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               `json:"type"` // a name, or several
	Enum        []any             `json:"enum"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	Additional  json.RawMessage   `json:"additionalProperties"`
	Description string            `json:"description"`
}

// described is the part of an OpenAPI description that types are made of.
type described struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type describedRoute struct {
	method, path string
	ID           string                  `json:"operationId"`
	Summary      string                  `json:"summary"`
	Parameters   []struct{ Name string } `json:"parameters"`
	Responses    map[string]struct {
		Content map[string]struct {
			Schema schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// routes lists the operations by their id.
func (d *described) routes() (list []describedRoute) {
	for path, methods := range d.Paths { // order-free: sorted below
		for method, body := range methods {
			r := describedRoute{method: strings.ToUpper(method), path: path}
			if json.Unmarshal(body, &r) == nil && r.ID != "" {
				list = append(list, r)
			}
		}
	}
	slices.SortFunc(list, func(a, b describedRoute) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// answer is the type of what an operation answers when it succeeds.
func (r *describedRoute) answer() string {
	for _, status := range slices.Sorted(maps.Keys(r.Responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		if s := r.Responses[status].Content["application/json"].Schema; s.Ref != "" || s.Type != nil {
			return s.inTypeScript("  ")
		}
		if status == "204" {
			return "void"
		}
	}
	return "unknown"
}

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// inTypeScript writes a schema as a type.
func (s *schema) inTypeScript(indent string) string {
	if s.Ref != "" {
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	var names []string
	switch t := s.Type.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, n := range t {
			names = append(names, n.(string))
		}
	}
	var alternatives []string
	for _, n := range names {
		alternatives = append(alternatives, s.single(n, indent))
	}
	return cmp.Or(strings.Join(alternatives, " | "), "unknown")
}

func (s *schema) single(name, indent string) string {
	switch {
	case len(s.Enum) > 0 && name == "string":
		var words []string
		for _, e := range s.Enum {
			words = append(words, fmt.Sprintf("%q", e))
		}
		return strings.Join(words, " | ")
	case name == "integer":
		return "number"
	case name == "array" && s.Items != nil:
		t := s.Items.inTypeScript(indent)
		if strings.ContainsAny(t, " |") {
			t = "(" + t + ")"
		}
		return t + "[]"
	case name == "object" && s.Properties != nil:
		return s.members(indent)
	case name == "object":
		value := schema{}
		if json.Unmarshal(s.Additional, &value) != nil {
			return "unknown"
		}
		return "Record<string, " + value.inTypeScript(indent) + ">"
	}
	return name
}

func (s *schema) members(indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if name == "$schema" {
			continue
		}
		key, optional := name, "?"
		if !identifier.MatchString(name) {
			key = fmt.Sprintf("%q", name)
		}
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, key, optional, p.inTypeScript(indent+"  "))
	}
	return b.String() + indent + "}"
}

// describedOf is the description that a running server serves.
func describedOf(t *testing.T) (d described) {
	w := newWorld(t)
	var raw bytes.Buffer
	if status := w.get(w.server, operator.RouteOpenAPI, &raw); status != 200 {
		t.Fatalf("%d %s", status, raw.String())
	}
	testkit.Must(t, json.Unmarshal(raw.Bytes(), &d))
	return d
}

// TestTypesOfTheUI holds the types that the web UI is checked against equal to the
// description that a running server serves.
func TestTypesOfTheUI(t *testing.T) {
	const path = "../web/ui/src/api.ts"
	d := describedOf(t)
	var b strings.Builder
	b.WriteString("// Made from the description of the operator API (OpenAPI); go test ./internal/api -run TestTypesOfTheUI -rewrite makes it again.\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		if s.Properties != nil {
			fmt.Fprintf(&b, "\nexport interface %s %s\n", name, s.members(""))
		} else {
			fmt.Fprintf(&b, "\nexport type %s = %s;\n", name, s.inTypeScript(""))
		}
	}
	routes := d.routes()
	if len(routes) < 40 {
		t.Fatalf("only %d routes are described", len(routes))
	}
	b.WriteString("\n// Answers are what each operation answers, by its id.\nexport interface Answers {\n")
	for _, r := range routes {
		fmt.Fprintf(&b, "  %q: %s;\n", r.ID, r.answer())
	}
	b.WriteString("}\n\n// Route is an operation: method, path, whether it answers about records of the past, and, of verbs on\n// hosts and rollouts, what it is for.\nexport type Route = readonly [method: string, path: string, past?: boolean, purpose?: string];\n\n// routes are the operations by their id.\nexport const routes: Record<keyof Answers, Route> = {\n")
	for _, r := range routes {
		row := []string{strconv.Quote(r.method), strconv.Quote(r.path)}
		past := slices.ContainsFunc(r.Parameters, func(p struct{ Name string }) bool { return p.Name == "at" })
		verb := r.method == "POST" && (strings.Contains(r.path, "{host}") || strings.Contains(r.path, "{rollout}"))
		if past || verb { // every byte is loaded by every browser
			row = append(row, strconv.FormatBool(past))
		}
		if verb {
			row = append(row, strconv.Quote(r.Summary))
		}
		fmt.Fprintf(&b, "  %q: [%s],\n", r.ID, strings.Join(row, ", "))
	}
	b.WriteString("};\n")
	if *rewrite {
		testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != b.String() {
		t.Errorf("%s is not what a server describes (%v); run this test with -rewrite, and build the UI", path, err)
	}
}
