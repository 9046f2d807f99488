// Package document reads what people write of a host's managed layer: resources
// one by one, or a Compose file. It also writes a resource as people edit it.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/validate"
	"github.com/steadyfleet/steady/internal/strictdoc"
)

// Resource is one resource of the managed layer of a host.
type Resource struct {
	Host string
	container.ID
	Spec json.RawMessage // canonical
	// Where says where it stands, as file:line:column; empty for a Compose file.
	Where string
}

// Words name it with its host.
func (r *Resource) Words() string { return r.ID.String() + " on " + r.Host }

// Problem is one finding, with its file, line and column.
type Problem = strictdoc.Problem

// maxDocuments bounds the documents of one file.
const maxDocuments = 2000

// Read reads a file of one or more YAML or JSON documents, each a resource with
// kind, name and spec, and host unless one is given. Durations may be written as
// text, such as 10s, and sizes too, such as 512m.
func Read(file string, data []byte, host string) ([]Resource, []Problem) {
	parts := split(data)
	if len(parts) > maxDocuments {
		return nil, []Problem{{File: file, Message: fmt.Sprintf("the file has %d documents: expected at most %d", len(parts), maxDocuments)}}
	}
	var out []Resource
	var problems []Problem
	first := map[string]string{}
	for _, part := range parts {
		r, found := read(file, part, host)
		problems = append(problems, found...)
		if r == nil {
			continue
		}
		if at, twice := first[r.Words()]; twice {
			problems = append(problems, Problem{File: file, Message: fmt.Sprintf("%s at %s is declared at %s as well: expected once", r.Words(), r.Where, at)})
		}
		first[r.Words()] = r.Where
		out = append(out, *r)
	}
	if len(parts) == 0 {
		problems = append(problems, Problem{File: file, Message: "the file declares nothing: expected resources with kind, name and spec, or a Compose file"})
	}
	return out, problems
}

// IsCompose reports whether data is a Compose file rather than resources.
func IsCompose(data []byte) bool {
	d, _ := strictdoc.Parse("", data)
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

var schema = sync.OnceValue(func() *strictdoc.Schema { return strictdoc.MustSchema([]byte(schemaJSON)) })

const schemaJSON = `{
  "type": "object", "additionalProperties": false, "required": ["kind", "name", "spec"],
  "properties": {
    "kind": {"type": "string", "description": "one of Network, Volume, Image, Workspace, Snapshot and Route"},
    "host": {"type": "string", "description": "the name of a host"},
    "name": {"type": "string", "description": "a name"},
    "spec": {"type": "object", "description": "the resource"}
  }
}`

func read(file string, data []byte, host string) (*Resource, []Problem) {
	d, problems := strictdoc.Parse(file, data)
	if d == nil || strictdoc.Fatal(problems) {
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
	if empty(kind) == nil {
		return nil, at(fmt.Sprintf("kind %q is not known: expected one of %s", in.Kind, strings.Join(container.Kinds, ", ")), "kind")
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
	spec, problems := canonical(kind, in.Name, in.Spec, func(path []string, words string, key bool) Problem {
		path = append([]string{"spec"}, path...)
		if key {
			return d.AtKey(path, words)
		}
		return d.At(path, words)
	})
	if len(problems) > 0 {
		return nil, problems
	}
	r := &Resource{Host: in.Host, ID: container.ID{Kind: kind, Name: in.Name}, Spec: spec}
	here := d.AtKey([]string{"kind"}, "")
	r.Where = fmt.Sprintf("%s:%d:%d", here.File, here.Line, here.Column)
	return r, nil
}

// canonical reads a spec with units and returns its canonical form.
func canonical(kind, name string, spec any, at func(path []string, words string, key bool) Problem) (json.RawMessage, []Problem) {
	into := empty(kind)
	wrong := stray(spec, reflect.TypeOf(into), nil)
	if wrong == nil {
		spec, wrong = plain(spec, into)
	}
	if wrong != nil {
		return nil, []Problem{at(wrong.path, wrong.words, wrong.key)}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, []Problem{at(nil, err.Error(), false)}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(into) == nil {
		setName(into, name)
		var problems []Problem
		for _, p := range validate.Spec(into) {
			problems = append(problems, at(p.Path, p.Words, false))
		}
		if len(problems) > 0 {
			return nil, problems
		}
	}
	_, out, err := managed.ReadSpec(kind, name, raw)
	if err != nil {
		return nil, []Problem{at(nil, err.Error(), false)}
	}
	return out, nil
}

// empty returns a new resource of a kind, or nil.
func empty(kind string) any {
	switch kind {
	case container.KindNetwork:
		return new(container.Network)
	case container.KindVolume:
		return new(container.Volume)
	case container.KindImage:
		return new(container.Image)
	case container.KindWorkspace:
		return new(container.Workspace)
	case container.KindSnapshot:
		return new(container.Snapshot)
	case container.KindRoute:
		return new(container.Route)
	}
	return nil
}

// setName completes a resource that leaves out its name, for checking alone.
func setName(into any, name string) {
	switch r := into.(type) {
	case *container.Network:
		r.Name = name
	case *container.Volume:
		r.Name = name
	case *container.Image:
		r.Name = name
	case *container.Workspace:
		r.Name = name
	case *container.Snapshot:
		r.Name = name
	case *container.Route:
		r.Name = name
	}
}

// Of makes the document of a resource that the program itself put together.
func Of(host, kind, name string, resource any) (Resource, error) {
	raw, err := json.Marshal(resource)
	if err != nil {
		return Resource{}, err
	}
	_, spec, err := managed.ReadSpec(kind, name, raw)
	if err != nil {
		return Resource{}, fmt.Errorf("%s/%s: %w", kind, name, err)
	}
	return Resource{Host: host, ID: container.ID{Kind: kind, Name: name}, Spec: spec}, nil
}
