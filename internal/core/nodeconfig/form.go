package nodeconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// SecretRef is the member of an object that stands for a secret which the node has: its
// value is the secret's name there. KeyedPrefix begins the digest, under a key that the
// node keeps, that stands in the place of a secret in what the node reports.
const (
	SecretRef   = "$secret"
	KeyedPrefix = "hmac:"
)

// Config is what the node of a leg is to have: the shared fields with the leg's own over
// them.
func (d *Definition) Config(l *Leg) json.RawMessage {
	if len(d.Shared) == 0 {
		return l.Config
	}
	shared, err := Decode(d.Shared)
	if err != nil {
		return l.Config
	}
	own, err := Decode(l.Config)
	if err != nil {
		return l.Config
	}
	return encode(overlay(shared, own))
}

// overlay is a with the members of b over it. One that is null there is null.
func overlay(a, b any) any {
	under, isObject := a.(map[string]any)
	over, both := b.(map[string]any)
	if !isObject || !both || single(under) || single(over) {
		return b
	}
	out := maps.Clone(under)
	for k, v := range over { // order-free: each by itself
		if old, there := out[k]; there {
			v = overlay(old, v)
		}
		out[k] = v
	}
	return out
}

// Form returns a config in normal form, a field for each value at the end of a path. An
// element of a list that Sets names is found by its identity and not by its place. Null,
// an empty text, an empty object and an empty list are values, each another one, and what is
// absent has no field. A config that cannot be read is one field.
func (r *Rules) Form(config json.RawMessage) diff.Form {
	form := diff.Form{}
	v, err := Decode(config)
	if err != nil {
		form[""] = string(config)
		return form
	}
	r.walk(nil, v, func(path []string, v any) { form[join(path)] = distinct(v) })
	return form
}

// walk calls leaf for every value at the end of a path.
func (r *Rules) walk(path []string, v any, leaf func(path []string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		_, isSet := r.setKey(path) // an object in its place is another value than any list
		if len(path) > 0 && (len(v) == 0 || isSet || isPlain(v)) {
			leaf(path, v)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			r.walk(append(slices.Clip(path), k), v[k], leaf)
		}
	case []any:
		ids, is := r.identities(path, v)
		if !is {
			leaf(path, v)
			return
		}
		for i, e := range v {
			r.walk(append(slices.Clip(path), ids[i]), e, leaf)
		}
	default:
		leaf(path, v)
	}
}

// identities are those of the elements of a list that is a set, each its own.
func (r *Rules) identities(path []string, list []any) ([]string, bool) {
	key, is := r.setKey(path)
	if !is || len(list) == 0 {
		return nil, false
	}
	ids, seen := make([]string, 0, len(list)), make(map[string]bool, len(list))
	for _, e := range list {
		id := text(e)
		if !isPlain(e) && key == "" {
			return nil, false
		}
		if key != "" {
			m, isObject := e.(map[string]any)
			if !isObject || m[key] == nil {
				return nil, false
			}
			id = text(m[key])
		}
		if seen[id] {
			return nil, false
		}
		seen[id] = true
		ids = append(ids, id)
	}
	return ids, true
}

// isPlain reports whether a value is one at the end of a path.
func isPlain(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return isSecretRef(v) || isTypedScalar(v)
	case []any:
		return false
	}
	return true
}

func isSecretRef(m map[string]any) bool {
	name, is := m[SecretRef].(string)
	return is && len(m) == 1 && name != ""
}

// distinct is the text of a value, quoted where it is empty or looks like another value.
func distinct(v any) string {
	if s, is := v.(string); is && s != "" && !json.Valid([]byte(s)) {
		return s
	}
	return string(encode(v))
}

// text is a value as a step of a path.
func text(v any) string {
	if s, is := v.(string); is {
		return s
	}
	return string(encode(v))
}

var escape, unescape = strings.NewReplacer("~", "~0", "/", "~1"), strings.NewReplacer("~1", "/", "~0", "~")

func join(path []string) string {
	out := make([]string, len(path))
	for i, p := range path {
		out[i] = escape.Replace(p)
	}
	return strings.Join(out, "/")
}

func split(field string) []string {
	out := strings.Split(field, "/")
	for i, p := range out {
		out[i] = unescape.Replace(p)
	}
	return out
}

// Mix returns ours with the given fields as they are in theirs.
func (r *Rules) Mix(ours, theirs json.RawMessage, fields []string) (json.RawMessage, error) {
	a, err := Decode(ours)
	if err != nil {
		return nil, err
	}
	b, err := Decode(theirs)
	if err != nil {
		return nil, err
	}
	was, err := Decode(ours)
	if err != nil {
		return nil, err
	}
	ix := index{}
	for _, f := range fields {
		path := split(f)
		v, there := r.get(ix, nil, b, path)
		var put bool
		if a, put = r.put(ix, nil, a, path, v, there); !put || there && r.within(ix, was, path, fields) {
			return nil, fmt.Errorf("field %s cannot be set by itself", f)
		}
	}
	return encode(a), nil
}

// within reports whether a path leads into an object that is one value, which is not replaced
// as a whole.
func (r *Rules) within(ix index, config any, path, fields []string) bool {
	for i := 1; i < len(path); i++ {
		v, _ := r.get(ix, nil, config, path[:i])
		m, _ := v.(map[string]any)
		if _, there := m[path[i]]; single(m) && !there {
			return !slices.Contains(fields, join(path[:i]))
		}
	}
	return false
}

// index has the places of elements in sets, each by its list's first, so that many fields of one are found in
// time. It is of one set of rules; a list that changes is dropped from it.
type index map[*any]map[string]int

// find returns the place of an element in a set, or -1.
func (ix index) find(r *Rules, at []string, list []any, id string) int {
	if len(list) == 0 {
		return -1
	}
	places := ix[&list[0]]
	if places == nil {
		ids, _ := r.identities(at, list)
		places = make(map[string]int, len(ids))
		for i, id := range ids {
			places[id] = i
		}
		ix[&list[0]] = places
	}
	if i, there := places[id]; there {
		return i
	}
	return -1
}

func (ix index) drop(list []any) {
	if len(list) > 0 {
		delete(ix, &list[0])
	}
}

// get returns what stands at the end of a path.
func (r *Rules) get(ix index, at []string, v any, path []string) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	here := append(slices.Clip(at), path[0])
	switch v := v.(type) {
	case map[string]any:
		if e, there := v[path[0]]; there {
			return r.get(ix, here, e, path[1:])
		}
	case []any:
		if i := ix.find(r, at, v, path[0]); i >= 0 {
			return r.get(ix, here, v[i], path[1:])
		}
	}
	return nil, false
}

// put returns v with what stands at the end of a path set, or removed; false if there is no
// way there. Below what is null there is nothing yet, so an object is made in its place.
func (r *Rules) put(ix index, at []string, v any, path []string, to any, set bool) (any, bool) {
	if len(path) == 0 {
		return to, true
	}
	here := append(slices.Clip(at), path[0])
	switch v := v.(type) {
	case map[string]any:
		e, there := v[path[0]]
		switch {
		case !there && !set:
			return v, true
		case len(path) == 1 && !set:
			delete(v, path[0])
			return v, true
		case e == nil && len(path) > 1 && set:
			e = r.empty(here)
		}
		had := size(e)
		in, ok := r.put(ix, here, e, path[1:], to, set)
		v[path[0]] = in
		if !set && had > 0 && size(in) == 0 {
			delete(v, path[0]) // with its last member
		}
		return v, ok
	case []any:
		key, isSet := r.setKey(at)
		if !isSet {
			return v, !set
		}
		i := ix.find(r, at, v, path[0])
		if i < 0 && !set {
			return v, true
		}
		if i < 0 || len(path) == 1 || path[1] == key {
			ix.drop(v)
		}
		if i < 0 {
			if key == "" {
				return append(v, to), len(path) == 1
			}
			v, i = append(v, map[string]any{key: path[0]}), len(v)
		}
		if len(path) == 1 && !set || len(path) == 2 && !set && path[1] == key {
			return slices.Delete(v, i, i+1), true
		}
		in, ok := r.put(ix, here, v[i], path[1:], to, set)
		v[i] = in
		return v, ok
	}
	return v, !set // there is nothing below it to remove
}

// size is how many members something has, zero for what has none.
func size(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// empty is what is made on the way to a field.
func (r *Rules) empty(path []string) any {
	if _, is := r.setKey(path); is {
		return []any{}
	}
	return map[string]any{}
}
