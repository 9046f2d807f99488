package file

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

type unread = nodeconfig.Unread

// same compares by value and kind: the integer 1, the float 1.0 and the text "1" are three
// values, and so are null and what is absent.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for k, v := range a { // order-free: each by itself
			if w, there := b[k]; !there || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, same)
	case json.Number:
		b, is := b.(json.Number)
		return is && nodeconfig.Spelling(a) == nodeconfig.Spelling(b)
	case *unread:
		b, is := b.(*unread)
		return is && a.Reason == b.Reason
	}
	return a == b
}

// lost names a place where a text, or another value of the same kind, would take the place of
// one that has a type which JSON has not: a reference would become the name of what it refers
// to. Who wants that says the type, or removes the value first.
func lost(path []string, old, to any) error {
	if name, below, typed := nodeconfig.TypeOf(old); typed && name != nodeconfig.PlainMap {
		if toName, toBelow, still := nodeconfig.TypeOf(to); still {
			if toName == name {
				return lost(path, below, toBelow)
			}
			return nil
		}
		if loses(old, to) {
			return &lostError{path: path, name: name, to: to}
		}
		return nil
	}
	switch old := old.(type) {
	case map[string]any:
		to, _ := to.(map[string]any)
		for k, v := range old { // order-free: any of them refuses
			if w, there := to[k]; there {
				if err := lost(append(slices.Clip(path), k), v, w); err != nil {
					return err
				}
			}
		}
	case []any:
		to, _ := to.([]any)
		return lostInList(path, old, to)
	}
	return nil
}

func lostInList(path []string, old, to []any) error {
	from := align(old, to)
	gone := map[int]bool{}
	for i := range old {
		gone[i] = true
	}
	for j, i := range from {
		if i < 0 {
			continue
		}
		delete(gone, i)
		if err := lost(append(slices.Clip(path), strconv.Itoa(i)), old[i], to[j]); err != nil {
			return err
		}
	}
	for i := range old {
		for j := range to {
			if gone[i] && from[j] < 0 && loses(old[i], to[j]) {
				return lost(append(slices.Clip(path), strconv.Itoa(i)), old[i], to[j])
			}
		}
	}
	return nil
}

// loses reports whether a value without type is of the kind of the typed one.
func loses(old, to any) bool {
	name, below, typed := nodeconfig.TypeOf(old)
	if _, _, still := nodeconfig.TypeOf(to); still || !typed || name == nodeconfig.PlainMap {
		return false
	}
	return kindOf(below) == kindOf(to)
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "list"
	case string:
		return "text"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

// lostError is the refusal of an edit that loses a type.
type lostError struct {
	path []string
	name string
	to   any
}

func (e *lostError) Error() string {
	form, err := json.Marshal(map[string]any{e.name: e.to})
	if err != nil {
		form = []byte(`{"` + e.name + `": …}`)
	}
	return fmt.Sprintf("the file has a value of type %s there, which this edit would lose: write %s to keep it, or remove the field first", e.name, form)
}
