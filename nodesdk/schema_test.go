package nodesdk_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/steadyfleet/steady/nodesdk"
)

var rewrite = flag.Bool("rewrite", false, "write schema.json again from the types of messages")

// TestSchema: the committed schema is that of the types, and messages are valid by it.
func TestSchema(t *testing.T) {
	g := generator{defs: map[string]any{}, docs: docs(t)}
	root := g.of(reflect.TypeFor[nodesdk.Message]())
	root["$schema"], root["$id"] = "https://json-schema.org/draft/2020-12/schema", "https://steadyfleet.dev/schema/node-v1.json"
	root["title"], root["$defs"] = "A message between a node and its server", g.defs
	want, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *rewrite {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, nodesdk.Schema()) {
		t.Fatal("schema.json is not that of the types: go test ./nodesdk -run TestSchema -rewrite")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("node.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("node.json")
	if err != nil {
		t.Fatal(err)
	}
	for raw, valid := range map[string]bool{
		`{"type":"request","id":1,"request":{"apply":{"op":1,"term":1,"kind":"flow","id":"a","config":{"x":1}}},"new":1}`: true,
		`{"type":"challenge","challenge":{"versions":[1],"fleet":"f","nonce":"AAAA","term":1}}`:                           true,
		`{"id":1}`: false,
		`{"type":"request","request":{"apply":{"op":-1,"term":1,"kind":"flow","id":"a"}}}`:   false,
		`{"type":"answer","answer":{"applied":{"op":1,"outcome":"perhaps","generation":1}}}`: false,
		`{"type":"welcome","welcome":{"session":"1","term":1}}`:                              false,
		`{"type":"answer","answer":{"applied":{"op":1,"outcome":"applied","generation":1}}}`: true,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != valid {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// generator makes schemas of types, with their comments.
type generator struct {
	defs map[string]any
	docs map[string]string // of Type and Type.Field
}

var outcomes = []nodesdk.Outcome{nodesdk.OutcomeApplied, nodesdk.OutcomeAlready, nodesdk.OutcomeConflict, nodesdk.OutcomeInvalid, nodesdk.OutcomeFailed, nodesdk.OutcomeUnknown}

func (g *generator) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": "object"}
	case t == reflect.TypeFor[nodesdk.Outcome]():
		return map[string]any{"enum": outcomes}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": g.of(t.Elem())}
	case reflect.Struct:
		if _, there := g.defs[t.Name()]; !there {
			g.defs[t.Name()] = nil // it may refer to itself
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	panic("no schema for " + t.String())
}

func (g *generator) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options != "omitempty" {
			required = append(required, name)
		}
		p := g.of(f.Type)
		if doc := g.docs[t.Name()+"."+f.Name]; doc != "" {
			p["description"] = doc
		}
		properties[name] = p
	}
	out := map[string]any{"type": "object", "properties": properties, "description": g.docs[t.Name()]}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// docs are the comments of types and fields in messages.go.
func docs(t *testing.T) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	text := func(groups ...*ast.CommentGroup) string {
		all := ""
		for _, g := range groups {
			all += " " + g.Text()
		}
		return strings.Join(strings.Fields(all), " ")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		d, is := n.(*ast.GenDecl)
		if !is {
			return true
		}
		for _, s := range d.Specs {
			if ts, is := s.(*ast.TypeSpec); is {
				out[ts.Name.Name] = text(d.Doc, ts.Doc)
				if st, is := ts.Type.(*ast.StructType); is {
					for _, field := range st.Fields.List {
						for _, name := range field.Names {
							out[ts.Name.Name+"."+name.Name] = text(field.Doc, field.Comment)
						}
					}
				}
			}
		}
		return true
	})
	return out
}
