package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// objects lists those of a document. One that cannot be read is an *unread, and the others are
// read: it is reported as an object whose only member is the reason, and refused for edits.
func (d *Driver) objects(doc any) (map[string]any, error) {
	for i, step := range d.at {
		m, is := realMap(doc)
		if u := (*unread)(nil); !is && errors.As(asError(doc), &u) {
			return nil, u
		}
		if !is || m[step] == nil {
			return nil, fmt.Errorf("nothing stands at %s", strings.Join(d.at[:i+1], "/"))
		}
		doc = m[step]
	}
	if u, is := doc.(*unread); is {
		return nil, u
	}
	out := map[string]any{}
	if d.o.Identity == "" {
		m, is := realMap(doc)
		if !is {
			return nil, fmt.Errorf("no map stands at %q", d.o.At)
		}
		for id, v := range m { // order-free: each by itself
			if nodeconfig.CheckID(id) != nil {
				out[shortName(id)] = &unread{reason: fmt.Sprintf("the name of an object has to be 1 to %d bytes of text in one line", nodeconfig.MaxID)}
			} else {
				out[id] = object(v)
			}
		}
		return out, nil
	}
	list, is := doc.([]any)
	if !is {
		return nil, fmt.Errorf("no list stands at %q", d.o.At)
	}
	for i, v := range list {
		m, _ := v.(map[string]any)
		id, named := nameOf(m[d.o.Identity])
		switch u, is := v.(*unread); {
		case is:
			out[fmt.Sprintf("element %d", i)] = u
		case !named || nodeconfig.CheckID(id) != nil:
			out[fmt.Sprintf("element %d", i)] = &unread{reason: fmt.Sprintf("it has no member %q that names it", d.o.Identity)}
		case out[id] != nil:
			out[id] = &unread{reason: fmt.Sprintf("%q stands at %q twice", id, d.o.At)}
		default:
			out[id] = object(m)
		}
	}
	return out, nil
}

// object is a value as one. Null is one with no fields.
func object(v any) any {
	if v == nil {
		return map[string]any{}
	}
	if u := unreadIn(v); u != nil {
		return u
	}
	m, is := v.(map[string]any)
	if !is {
		return &unread{reason: "it is a " + kindOf(v) + " and no object"}
	}
	if _, err := nodeconfig.Canonical(config(m)); err != nil {
		return &unread{reason: err.Error()}
	}
	return m
}

// unreadable is the type of an object that cannot be read.
const unreadable = nodeconfig.TypePrefix + "unreadable"

// config is an object as it is reported.
func config(o any) json.RawMessage {
	if u, is := o.(*unread); is {
		o = map[string]any{unreadable: u.Error()}
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic("file: what a format reads is data: " + err.Error())
	}
	return raw
}

func asError(v any) error {
	err, _ := v.(error)
	return err
}

// shortName is a text as a name of an object.
func shortName(s string) string {
	return strconv.QuoteToASCII(s[:min(len(s), nodeconfig.MaxID/8)])
}

// withObject is a document with an object among those at a path, or without it.
func withObject(doc any, at []string, identity, id string, to map[string]any) (any, error) {
	if len(at) > 0 {
		m, _ := realMap(doc)
		in, there := m[at[0]]
		if !there {
			return nil, fmt.Errorf("nothing stands at %s", at[0])
		}
		next, err := withObject(in, at[1:], identity, id, to)
		out := maps.Clone(m)
		out[at[0]] = next
		return nodeconfig.MapOf(out), err
	}
	if list, is := doc.([]any); is && identity != "" {
		i := slices.IndexFunc(list, func(v any) bool {
			m, _ := v.(map[string]any)
			name, is := nameOf(m[identity])
			return is && name == id
		})
		out := slices.Clone(list)
		switch {
		case i < 0 && to != nil:
			return append(out, to), nil
		case i >= 0 && to == nil:
			return slices.Delete(out, i, i+1), nil
		case i >= 0:
			out[i] = to
		}
		return out, nil
	}
	m, is := realMap(doc)
	if !is {
		return nil, errors.New("no map stands there")
	}
	out := maps.Clone(m)
	switch was, there := out[id]; {
	case to == nil:
		delete(out, id)
	case !there || was != nil || len(to) > 0:
		out[id] = to
	}
	return nodeconfig.MapOf(out), nil
}

// named is the member that names an object in a list: as it is there, and of the kind that all
// others have for a new one.
func (d *Driver) named(c *content, id string) any {
	if m, is := c.objects[id].(map[string]any); is {
		return m[d.o.Identity]
	}
	numbers := len(c.objects) > 0
	for _, o := range c.objects { // order-free: all of them
		m, _ := o.(map[string]any)
		_, is := m[d.o.Identity].(json.Number)
		numbers = numbers && is
	}
	if _, err := strconv.ParseInt(id, 10, 64); numbers && err == nil && json.Valid([]byte(id)) {
		return json.Number(id)
	}
	return id
}

// nameOf is the name that a text or a number gives an object.
func nameOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return string(v), true
	}
	return "", false
}
