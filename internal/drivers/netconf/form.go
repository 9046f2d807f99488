package netconf

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Types of leaves. Others are texts, as the device spells them.
const (
	typeNumber   = "number"
	typeBoolean  = "boolean"
	typeEmpty    = "empty"
	typeIdentity = "identity" // {NAMESPACE}NAME in JSON, a prefix in XML
)

var leafTypes = []string{typeNumber, typeBoolean, typeEmpty, typeIdentity}

// form says how data in XML are written in JSON, and back. A container is an object, an
// element that stands several times a list, and a leaf a text, unless types says otherwise.
// A name of another namespace than that of what it is in is {NAMESPACE}NAME.
type form struct {
	types map[string]string // of leaves, by path; a list's elements are a step *
	lists map[string]string // by path, with the member that names an element or nothing
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

func nameIn(n xml.Name, within string) string {
	if n.Space == within {
		return n.Local
	}
	return "{" + n.Space + "}" + n.Local
}

// named reads what nameIn wrote.
func named(s, within string) (xml.Name, error) {
	n := xml.Name{Space: within, Local: s}
	if rest, is := strings.CutPrefix(s, "{"); is {
		space, local, ok := strings.Cut(rest, "}")
		if !ok {
			return n, fmt.Errorf("the name %.80q: expected {NAMESPACE}NAME", s)
		}
		n = xml.Name{Space: space, Local: local}
	}
	if n.Local == "" || strings.ContainsFunc(n.Local, func(r rune) bool { return !nameRune(r) }) || !nameStart(rune(n.Local[0])) {
		return n, fmt.Errorf("%.80q is no name that YANG has", s)
	}
	return n, nil
}

func nameStart(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func nameRune(r rune) bool { return nameStart(r) || r == '-' || r == '.' || r >= '0' && r <= '9' }

// value is an element in JSON.
func (f *form) value(e *element, path string) (any, error) {
	if len(e.children) == 0 {
		return f.leaf(e, path)
	}
	if strings.TrimSpace(e.text) != "" {
		return nil, fmt.Errorf("%s has text between its elements", e.Local)
	}
	out := map[string]any{}
	for _, c := range e.children {
		name := nameIn(c.Name, e.Space)
		at := below(path, name)
		_, isList := f.lists[at]
		count := 0
		for _, o := range e.children {
			if o.Name == c.Name {
				count++
			}
		}
		if isList || count > 1 {
			v, err := f.value(c, below(at, "*"))
			if err != nil {
				return nil, err
			}
			list, _ := out[name].([]any)
			out[name] = append(list, v)
			continue
		}
		v, err := f.value(c, at)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// typeOf is that of the leaf at a path, whose last step may be that of a list.
func (f *form) typeOf(path string) string {
	if t := f.types[path]; t != "" {
		return t
	}
	return f.types[strings.TrimSuffix(path, "/*")]
}

func (f *form) leaf(e *element, path string) (any, error) {
	text := e.text
	switch f.typeOf(path) {
	case typeNumber, typeBoolean:
		return typed(f.typeOf(path), strings.TrimSpace(text)), nil
	case typeEmpty:
		return true, nil
	case typeIdentity:
		prefix, local, ok := strings.Cut(strings.TrimSpace(text), ":")
		if !ok {
			return "{" + e.Space + "}" + prefix, nil
		}
		space, declared := e.prefixes[prefix]
		if !declared {
			return nil, fmt.Errorf("%s has the prefix %q, which is not declared", e.Local, prefix)
		}
		return "{" + space + "}" + local, nil
	}
	return text, nil
}

// typed is a text as a number or boolean, if it is one.
func typed(kind, text string) any {
	switch {
	case kind == typeBoolean && (text == "true" || text == "false"):
		return text == "true"
	case kind == typeNumber && text != "" && json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789"):
		return json.Number(text)
	}
	return text
}

// element is a value in XML.
func (f *form) element(name xml.Name, v any, path string) (*element, error) {
	e := &element{Name: name}
	m, is := v.(map[string]any)
	if !is {
		return e, f.setLeaf(e, v, path)
	}
	names := slices.Sorted(maps.Keys(m))
	if key := f.lists[strings.TrimSuffix(path, "/*")]; key != "" { // RFC 7950 section 7.8.5
		if i := slices.Index(names, key); i > 0 {
			names = slices.Insert(slices.Delete(names, i, i+1), 0, key)
		}
	}
	for _, n := range names {
		child, err := named(n, name.Space)
		if err != nil {
			return nil, err
		}
		at := below(path, n)
		list, many := m[n].([]any)
		if !many {
			list = []any{m[n]}
		} else {
			at = below(at, "*")
		}
		for _, v := range list {
			if _, nested := v.([]any); nested {
				return nil, fmt.Errorf("%s: a list stands in a list, which YANG does not have", n)
			}
			c, err := f.element(child, v, at)
			if err != nil {
				return nil, err
			}
			e.children = append(e.children, c)
		}
	}
	return e, nil
}

func (f *form) setLeaf(e *element, v any, path string) error {
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = string(v)
	case bool:
		text = strconv.FormatBool(v)
	default:
		return errors.New("a value is no text, number or boolean")
	}
	switch f.typeOf(path) {
	case typeEmpty:
		if v != true {
			return fmt.Errorf("%s: expected true, or nothing", path)
		}
		return nil
	case typeIdentity:
		n, err := named(text, e.Space)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if n.Space != e.Space {
			e.attrs = append(e.attrs, xml.Attr{Name: xml.Name{Local: "xmlns:i"}, Value: n.Space})
			n.Local = "i:" + n.Local
		}
		text = n.Local
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return fmt.Errorf("%s has a character that XML has not", path)
	}
	e.text = text
	return nil
}

// normal writes a config as value does: leaves that are not typed are texts, and a list of
// one element is that element, unless it is known as a list.
func (f *form) normal(v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		if name, is := nodeconfig.ReferenceOf(v); is && name != "" {
			return v
		}
		if len(v) == 0 && path != "" {
			return f.normal("", path)
		}
		out := map[string]any{}
		for name, e := range v {
			at := below(path, name)
			_, known := f.lists[at]
			list, is := e.([]any)
			switch {
			case is && len(list) == 0: // XML has no list without elements
			case is && (known || len(list) > 1):
				out[name] = f.normalList(list, at)
			case is:
				out[name] = f.normal(list[0], at)
			case known:
				out[name] = f.normalList([]any{e}, at)
			default:
				out[name] = f.normal(e, at)
			}
		}
		return out
	case json.Number:
		return f.normalLeaf(string(v), path)
	case bool:
		return f.normalLeaf(strconv.FormatBool(v), path)
	case string:
		return f.normalLeaf(v, path)
	}
	return v
}

func (f *form) normalList(list []any, path string) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = f.normal(e, below(path, "*"))
	}
	return out
}

func (f *form) normalLeaf(text, path string) any {
	switch t := f.typeOf(path); t {
	case typeNumber, typeBoolean:
		return typed(t, strings.TrimSpace(text))
	case typeEmpty:
		return text == "true" || text == ""
	}
	return text
}
