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
		m, is := nodeconfig.RealMap(doc)
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
	nameless := map[string]*unread{}
	if d.o.Identity == "" {
		m, is := nodeconfig.RealMap(doc)
		if !is {
			return nil, fmt.Errorf("no map stands at %q", d.o.At)
		}
		for id, v := range m { // order-free: each by itself
			if nodeconfig.CheckID(id) != nil {
				nameless[strconv.QuoteToASCII(id)] = &unread{Reason: fmt.Sprintf("the name of an object has to be 1 to %d bytes of text in one line", nodeconfig.MaxID)}
			} else {
				out[id] = object(v)
			}
		}
		return withNameless(out, nameless), nil
	}
	list, is := doc.([]any)
	if !is {
		return nil, fmt.Errorf("no list stands at %q", d.o.At)
	}
	for i, v := range list {
		m, _ := v.(map[string]any)
		id, named := d.identity().name(m)
		switch u, is := v.(*unread); {
		case is:
			nameless[fmt.Sprintf("element %d", i)] = u
		case !named || nodeconfig.CheckID(id) != nil:
			nameless[fmt.Sprintf("element %d", i)] = &unread{Reason: fmt.Sprintf("it has no member %q that names it", d.o.Identity)}
		case out[id] != nil:
			out[id] = &unread{Reason: fmt.Sprintf("%q stands at %q twice", id, d.o.At)}
		default:
			out[id] = object(m)
		}
	}
	return withNameless(out, nameless), nil
}

// withNameless adds what has no name of its own, each by one that no other has.
func withNameless(out map[string]any, nameless map[string]*unread) map[string]any {
	for _, name := range slices.Sorted(maps.Keys(nameless)) {
		short := name[:min(len(name), nodeconfig.MaxID/2)]
		free := short
		for n := 2; out[free] != nil; n++ {
			free = fmt.Sprintf("%s (%d)", short, n)
		}
		out[free] = nameless[name]
	}
	return out
}

// object is a value as one. Null is one with no fields.
func object(v any) any {
	if v == nil {
		return map[string]any{}
	}
	if u := nodeconfig.UnreadIn(v); u != nil {
		return u
	}
	m, is := v.(map[string]any)
	if !is {
		return &unread{Reason: "it is a " + kindOf(v) + " and no object"}
	}
	if _, err := nodeconfig.Canonical(config(m)); err != nil {
		return &unread{Reason: err.Error()}
	}
	return m
}

// config is an object as it is reported.
func config(o any) json.RawMessage {
	if u, is := o.(*unread); is {
		o = map[string]any{nodeconfig.Unreadable: u.Error()}
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

// withObject is a document with an object among those at a path, or without it.
func withObject(doc any, at []string, named identity, id string, to map[string]any) (any, error) {
	if len(at) > 0 {
		m, _ := nodeconfig.RealMap(doc)
		in, there := m[at[0]]
		if !there {
			return nil, fmt.Errorf("nothing stands at %s", at[0])
		}
		next, err := withObject(in, at[1:], named, id, to)
		out := maps.Clone(m)
		out[at[0]] = next
		return nodeconfig.MapOf(out), err
	}
	if list, is := doc.([]any); is && named != "" {
		i := slices.IndexFunc(list, func(v any) bool {
			name, is := named.name(v)
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
	m, is := nodeconfig.RealMap(doc)
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

// implied is what names an object in a list whose config does not say it: a number if the name is
// one, or else the text.
func implied(id string) any {
	if n := json.Number(id); json.Valid([]byte(id)) && nodeconfig.Spelling(n) == id && strings.Trim(id, "-.0123456789e") == "" {
		return n
	}
	return id
}

// named is the member that names an object in a list. The text "10" is not the number: where others
// are named by texts it has to be said.
func (d *Driver) named(c *content, id string) (any, error) {
	name := implied(id)
	if _, number := name.(json.Number); !number {
		return name, nil
	}
	for _, o := range c.objects { // order-free: any of them refuses
		m, _ := o.(map[string]any)
		if text, is := m[d.o.Identity].(string); is {
			return nil, &fieldError{[]string{d.o.Identity}, fmt.Errorf("objects of the list are named by texts such as %q: write %q for the text, or %s for the number", text, id, id)}
		}
	}
	return name, nil
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
