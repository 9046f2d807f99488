package operator

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// HostResource is a resource with the host that it is on.
type HostResource struct {
	Host string `json:"host"`
	Resource
}

// ResourceQuery picks resources. What is empty leaves none out.
type ResourceQuery struct {
	Kind   string
	Hosts  []string // any of them
	Search string   // is a part of the host's name, a slash and the resource's name
	States []string // any of them, in the words of the kind
	// Sort is name, host, state or since, with a minus before it to turn it round.
	Sort   string
	Offset int
	Limit  int // 1 to MaxPage, 50 by default
}

func (q ResourceQuery) values() url.Values {
	v := page(map[string]string{"kind": q.Kind, "search": q.Search, "sort": q.Sort}, q.Offset, q.Limit)
	v["host"], v["state"] = q.Hosts, q.States
	return v
}

// ResourcePage returns a page of the resources of all hosts that a query picks.
func (c *Client) ResourcePage(ctx context.Context, q ResourceQuery) (p Page[HostResource], err error) {
	return p, c.get(ctx, "/resource-list", q.values(), &p)
}

// Schema returns the JSON Schema of a kind of resource, as SchemaOf makes it.
func (c *Client) Schema(ctx context.Context, kind string) (s json.RawMessage, err error) {
	return s, c.get(ctx, "/schema/"+url.PathEscape(kind), nil, &s)
}

// Schema is the part of JSON Schema 2020-12 that describes resources.
type Schema struct {
	Dialect     string            `json:"$schema,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Type        string            `json:"type"`
	Enum        []string          `json:"enum,omitempty"`
	Examples    []any             `json:"examples,omitempty"`
	Items       *Schema           `json:"items,omitempty"`
	Properties  map[string]Schema `json:"properties,omitempty"`
	Required    []string          `json:"required,omitempty"`
	// Additional is what a map holds, or false: an object has no other properties.
	Additional any `json:"additionalProperties,omitempty"`
	// Order names the properties in the order in which people are shown them.
	Order []string `json:"x-order,omitempty"`
	// Verbs are what may be asked of the kind.
	Verbs []string `json:"x-verbs,omitempty"`
}

// SchemaOf describes the form of a kind, as the server reads it: it is made of the very types.
// What the values have to be beyond it, the checks of the kind say. Nil: there is no such kind.
func SchemaOf(kind string) *Schema {
	k := spec.Known.Kind(kind)
	if k == nil {
		return nil
	}
	s := schemaOf(reflect.TypeOf(k.New("")))
	s.Dialect, s.Title, s.Verbs = "https://json-schema.org/draft/2020-12/schema", kind, k.VerbNames()
	return &s
}

var durationType = reflect.TypeFor[clock.Duration]()

// exampleOf reads an example, which is JSON or a text.
func exampleOf(text string) (v any) {
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

func schemaOf(t reflect.Type) Schema {
	if t == durationType {
		return Schema{Type: "integer", Description: "in milliseconds"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		s := Schema{Type: "object", Properties: map[string]Schema{}, Additional: false}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			of := schemaOf(f.Type)
			if doc := f.Tag.Get("doc"); doc != "" {
				of.Description = strings.TrimSuffix(doc+", "+of.Description, ", ")
			}
			if enum := f.Tag.Get("enum"); enum != "" {
				of.Enum = strings.Split(enum, ",")
			}
			if example := f.Tag.Get("example"); example != "" {
				of.Examples = []any{exampleOf(example)}
			}
			if f.Tag.Get("required") != "" {
				s.Required = append(s.Required, name)
			}
			s.Properties[name], s.Order = of, append(s.Order, name)
		}
		return s
	case reflect.Map:
		return Schema{Type: "object", Additional: schemaOf(t.Elem())}
	case reflect.Slice:
		items := schemaOf(t.Elem())
		return Schema{Type: "array", Items: &items}
	case reflect.Bool:
		return Schema{Type: "boolean"}
	case reflect.String:
		return Schema{Type: "string"}
	}
	return Schema{Type: "integer"}
}
