package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// Resource is one resource of the managed layer of a host.
type Resource struct {
	Host string
	spec.ID
	Spec json.RawMessage // canonical
	// Where says where it stands, as file:line:column; empty for a Compose file.
	Where string
}

// FullName name it with its host.
func (r *Resource) FullName() string { return r.ID.String() + " on " + r.Host }

// Problem is one finding, with its file, line and column.
type Problem = strictyaml.Problem

const maxDocuments = 2000

// Read reads a file of one or more YAML or JSON documents, each a resource with
// kind, name and spec, and host unless one is given. Durations may be written as
// text, such as 10s, and sizes too, such as 512m. Resources are of the kinds; nil is
// spec.Known.
func Read(kinds *spec.Table, file string, data []byte, host string) ([]Resource, []Problem) {
	parts := split(data)
	if len(parts) > maxDocuments {
		return nil, []Problem{{File: file, Message: fmt.Sprintf("the file has %d documents: expected at most %d", len(parts), maxDocuments)}}
	}
	var out []Resource
	var problems []Problem
	first := map[string]string{}
	for _, part := range parts {
		r, found := read(kinds, file, part, host)
		problems = append(problems, found...)
		if r == nil {
			continue
		}
		if at, twice := first[r.FullName()]; twice {
			problems = append(problems, Problem{File: file, Message: fmt.Sprintf("%s at %s is declared at %s as well: expected once", r.FullName(), r.Where, at)})
		}
		first[r.FullName()] = r.Where
		out = append(out, *r)
	}
	if len(parts) == 0 {
		problems = append(problems, Problem{File: file, Message: "the file declares nothing: expected resources with kind, name and spec, or a Compose file"})
	}
	return out, problems
}

// IsCompose reports whether data is a Compose file rather than resources.
func IsCompose(data []byte) bool {
	d, _ := strictyaml.Parse("", data)
	return d != nil && !d.Has("kind") && (d.Has("services") || d.Has("include"))
}

// split cuts a file into its documents. Each keeps its lines, so that findings
// have the lines of the file.
func split(data []byte) [][]byte {
	var parts [][]byte
	var now bytes.Buffer
	said := false
	flush := func(line int) {
		if said {
			parts = append(parts, bytes.Clone(now.Bytes()))
		}
		said = false
		now.Reset()
		now.WriteString(strings.Repeat("\n", line))
	}
	for i, line := range bytes.SplitAfter(data, []byte("\n")) {
		text := strings.TrimRight(string(line), " \t\r\n")
		if text == "---" || strings.HasPrefix(text, "--- #") {
			flush(i + 1)
			continue
		}
		said = said || text != "" && !strings.HasPrefix(strings.TrimLeft(text, " \t"), "#")
		now.Write(line)
	}
	flush(0)
	return parts
}

var schema = sync.OnceValue(func() *strictyaml.Schema { return strictyaml.MustSchema([]byte(schemaJSON)) })

const schemaJSON = `{
  "type": "object", "additionalProperties": false, "required": ["kind", "name", "spec"],
  "properties": {
    "kind": {"type": "string", "description": "a kind of resource"},
    "host": {"type": "string", "description": "the name of a host"},
    "name": {"type": "string", "description": "a name"},
    "spec": {"type": "object", "description": "the resource"}
  }
}`

func read(kinds *spec.Table, file string, data []byte, host string) (*Resource, []Problem) {
	d, problems := strictyaml.Parse(file, data)
	if d == nil || strictyaml.Fatal(problems) {
		return nil, problems
	}
	if problems := d.Check(schema()); len(problems) > 0 {
		return nil, problems
	}
	var in struct {
		Kind, Host, Name string
		Spec             any
	}
	if err := d.DecodeKnown(&in); err != nil {
		return nil, []Problem{{File: file, Message: err.Error()}}
	}
	at := func(message string, path ...string) []Problem { return []Problem{d.At(path, message)} }
	kind := strings.ToLower(in.Kind)
	k := kinds.Kind(kind)
	if k == nil {
		return nil, at(fmt.Sprintf("kind %q is not known: expected one of %s", in.Kind, strings.Join(kinds.Names(), ", ")), "kind")
	}
	if err := fleet.CheckName(in.Name); err != nil {
		return nil, at(err.Error(), "name")
	}
	switch {
	case in.Host == "" && host == "":
		return nil, at("no host is named: expected host here, or HOST as argument", "kind")
	case in.Host != "" && host != "" && in.Host != host:
		return nil, at(fmt.Sprintf("the resource is for host %s: expected %s, the argument", in.Host, host), "host")
	case in.Host == "":
		in.Host = host
	}
	if err := fleet.CheckName(in.Host); err != nil {
		return nil, at(err.Error(), "host")
	}
	value, problems := canonical(kinds, k, in.Name, in.Spec, func(path []string, words string, key bool) Problem {
		path = append([]string{"spec"}, path...)
		if key {
			return d.AtKey(path, words)
		}
		return d.At(path, words)
	})
	if len(problems) > 0 {
		return nil, problems
	}
	r := &Resource{Host: in.Host, ID: spec.ID{Kind: kind, Name: in.Name}, Spec: value}
	here := d.AtKey([]string{"kind"}, "")
	r.Where = fmt.Sprintf("%s:%d:%d", here.File, here.Line, here.Column)
	return r, nil
}

// canonical reads a spec with units and returns its canonical form.
func canonical(kinds *spec.Table, k *spec.Kind, name string, value any, at func(path []string, words string, key bool) Problem) (json.RawMessage, []Problem) {
	into := k.New("")
	wrong := unknownKey(value, reflect.TypeOf(into), nil)
	if wrong == nil {
		value, wrong = normalize(value, into)
	}
	if wrong != nil {
		return nil, []Problem{at(wrong.path, wrong.words, wrong.key)}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, []Problem{at(nil, err.Error(), false)}
	}
	_, out, err := kinds.Read(k.Name, name, raw)
	var found spec.Problems
	if errors.As(err, &found) {
		var problems []Problem
		for _, p := range found {
			problems = append(problems, at(p.Path, p.Message, false))
		}
		return nil, problems
	}
	if err != nil {
		return nil, []Problem{at(nil, err.Error(), false)}
	}
	return out, nil
}

// Of makes the document of a resource that the program itself put together.
func Of(host, kind, name string, resource any) (Resource, error) {
	raw, err := json.Marshal(resource)
	if err != nil {
		return Resource{}, err
	}
	_, value, err := spec.Known.Read(kind, name, raw)
	if err != nil {
		return Resource{}, fmt.Errorf("%s/%s: %w", kind, name, err)
	}
	return Resource{Host: host, ID: spec.ID{Kind: kind, Name: name}, Spec: value}, nil
}

// Write returns a resource as a document that Read accepts.
func Write(kinds *spec.Table, r *Resource) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(r.Spec))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", r.FullName(), err)
	}
	delete(fields, "name")
	k := kinds.Kind(r.Kind)
	if k == nil {
		return nil, fmt.Errorf("%s is of a kind that this version does not know", r.FullName())
	}
	raw, err := json.Marshal(prune(humanize(fields, k.New(""))))
	if err != nil {
		return nil, err
	}
	var plain any // JSON is YAML, and only its decoder keeps integers whole
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	if plain == nil {
		plain = map[string]any{}
	}
	body, err := yaml.Marshal(map[string]any{"spec": plain})
	if err != nil {
		return nil, err
	}
	kind := strings.ToUpper(r.Kind[:1]) + r.Kind[1:]
	return fmt.Appendf(nil, "kind: %s\nhost: %s\nname: %s\n%s", kind, r.Host, quoted(r.Name), body), nil
}

// quoted writes a name so that it stays one: 1 and true are names too.
func quoted(name string) string {
	raw, err := yaml.Marshal(name)
	if err != nil {
		return name
	}
	return strings.TrimSpace(string(raw))
}

// prune leaves out what says nothing.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for key, in := range m { // in place, one by one
		if in = prune(in); in == nil {
			delete(m, key)
		} else if sub, ok := in.(map[string]any); ok && len(sub) == 0 && key != "pull" && key != "build" {
			delete(m, key)
		}
	}
	return m
}

// Order sorts resources so that each comes behind what it needs, host by host.
func Order(list []Resource) []Resource {
	hosts := map[string][]Resource{}
	var names []string
	for _, r := range list {
		if hosts[r.Host] == nil {
			names = append(names, r.Host)
		}
		hosts[r.Host] = append(hosts[r.Host], r)
	}
	slices.Sort(names)
	out := make([]Resource, 0, len(list))
	for _, name := range names {
		out = append(out, order(hosts[name])...)
	}
	return out
}

// order sorts the resources of one host.
func order(list []Resource) []Resource {
	at := map[spec.ID]*Resource{}
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	out := make([]Resource, 0, len(list))
	for _, id := range spec.Ordered(Set(list)) {
		if r := at[id]; r != nil {
			out = append(out, *r)
		}
	}
	return out
}

// Set joins resources of one host.
func Set(list []Resource) *spec.Set {
	all := new(spec.Set)
	for _, r := range list {
		s, _, err := spec.Known.Read(r.Kind, r.Name, r.Spec)
		if err != nil {
			continue // it was read before
		}
		all.Add(s)
	}
	all.Normalize()
	return all
}
