package strictyaml

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/prose"
)

// Schema is a compiled JSON Schema 2020-12. Its descriptions tell
// people what was expected.
type Schema struct {
	compiled *jsonschema.Schema
	source   any
}

// MustSchema compiles a schema that is part of the program.
func MustSchema(source []byte) *Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		panic("strictyaml: the schema is not JSON: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	const url = "mem:///schema.json"
	if err := c.AddResource(url, doc); err != nil {
		panic("strictyaml: " + err.Error())
	}
	compiled, err := c.Compile(url)
	if err != nil {
		panic("strictyaml: " + err.Error())
	}
	return &Schema{compiled: compiled, source: doc}
}

// Check validates the document and gives one problem per finding. It leaves out
// propertyNames, whose place the validator does not report reliably: who decodes
// the document checks names.
func (d *Doc) Check(s *Schema) []Problem {
	// The validator takes numbers as encoding/json gives them.
	var ve *jsonschema.ValidationError
	switch err := s.compiled.Validate(d.tree); {
	case err == nil:
		return nil
	case !errors.As(err, &ve):
		return []Problem{{File: d.file, Line: 1, Column: 1, Message: "the document could not be checked: " + err.Error()}}
	}
	var out []Problem
	if s.correct(d, ve, &out); len(out) > 0 {
		return append(out, d.Check(s)...)
	}
	s.collect(d, ve, &out)
	return out
}

// correct reports each key that was most likely mistyped, and reads the document
// as it was most likely meant: what follows from the slip is no finding of its own.
func (s *Schema) correct(d *Doc, e *jsonschema.ValidationError, out *[]Problem) {
	for _, c := range e.Causes {
		s.correct(d, c, out)
	}
	k, ok := e.ErrorKind.(*kind.AdditionalProperties)
	if !ok {
		return
	}
	for _, typed := range k.Properties {
		path := append(slices.Clone(e.InstanceLocation), typed)
		near := prose.Nearest(typed, s.keysAt(e.SchemaURL))
		at := d.AtKey(path, fmt.Sprintf("unknown key %q%s", typed, prose.DidYouMean(typed, near)))
		if len(near) == 1 && d.rename(path, near[0]) {
			*out = append(*out, at)
		}
	}
}

func (s *Schema) collect(d *Doc, e *jsonschema.ValidationError, out *[]Problem) {
	if _, ok := e.ErrorKind.(*kind.PropertyNames); ok {
		return
	}
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			s.collect(d, c, out)
		}
		return
	}
	path := slices.Clone(e.InstanceLocation)
	what := "the document"
	if len(path) > 0 {
		what = path[len(path)-1]
		if _, v := d.find(path[:len(path)-1]); v.Kind == yaml.SequenceNode {
			what = "the item"
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, p := range k.Properties {
			*out = append(*out, d.AtKey(append(slices.Clone(path), p),
				fmt.Sprintf("unknown key %q: expected %s", p, cmp.Or(strings.Join(s.keysAt(e.SchemaURL), ", "), "no key here"))))
		}
	case *kind.Required:
		for _, p := range k.Missing {
			*out = append(*out, d.At(path, fmt.Sprintf("%s is missing: expected %s", p, s.expected(e.SchemaURL, "properties", p))))
		}
	default:
		*out = append(*out, d.At(path, s.message(d, e, what, path)))
	}
}

func (s *Schema) message(d *Doc, e *jsonschema.ValidationError, what string, path []string) string {
	_, node := d.find(path)
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s is %s: expected %s", what, valueName(node), s.expected(e.SchemaURL))
	case *kind.Pattern:
		return fmt.Sprintf("%s is %q: expected %s", what, k.Got, s.expected(e.SchemaURL))
	case *kind.Enum:
		return fmt.Sprintf("%s is %s: expected %s", what, quote(k.Got), s.expected(e.SchemaURL))
	case *kind.Const:
		return fmt.Sprintf("%s is %s: expected %s", what, quote(k.Got), quote(k.Want))
	case *kind.Minimum:
		got, _ := k.Got.Float64()
		want, _ := k.Want.Float64()
		return fmt.Sprintf("%s is %g: expected %g or more", what, got, want)
	case *kind.Maximum:
		got, _ := k.Got.Float64()
		want, _ := k.Want.Float64()
		return fmt.Sprintf("%s is %g: expected %g or less", what, got, want)
	case *kind.MinItems:
		return fmt.Sprintf("%s has %d entries: expected at least %d", what, k.Got, k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("%s has %d characters: expected at least %d", what, k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("%s has %d characters: expected at most %d", what, k.Got, k.Want)
	}
	return fmt.Sprintf("%s breaks the rule %s of the schema", what, strings.Join(e.ErrorKind.KeywordPath(), "/"))
}

// valueName shows a short scalar itself.
func valueName(n *yaml.Node) string {
	const most = 40
	if n.Kind != yaml.ScalarNode || len(n.Value) > most {
		return kindName(n)
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return quote(n.Value)
	case "!!int", "!!float", "!!bool":
		return n.Value
	}
	return kindName(n)
}

func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// lookup follows the fragment of a schema location, and then parts.
func (s *Schema) lookup(location string, parts ...string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	at := s.source
	for _, step := range append(strings.Split(strings.Trim(fragment, "/"), "/"), parts...) {
		if step == "" {
			continue
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		default:
			return nil
		}
	}
	m, _ := at.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return s.lookup(ref)
	}
	return m
}

func (s *Schema) keysAt(location string) []string {
	props, _ := s.lookup(location)["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(props))
}

// expected describes what the schema at the location accepts.
func (s *Schema) expected(location string, parts ...string) string {
	m := s.lookup(location, parts...)
	if v, ok := m["const"]; ok {
		return quote(v)
	}
	if list, ok := m["enum"].([]any); ok {
		words := make([]string, 0, len(list))
		for _, v := range list {
			words = append(words, fmt.Sprint(v))
		}
		return "one of " + strings.Join(words, ", ")
	}
	switch m["type"] {
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	case "integer":
		return "a whole number"
	case "boolean":
		return "true or false"
	}
	if d, ok := m["description"].(string); ok {
		return d
	}
	return "text"
}
