package file

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// unread is in the place of a value that parses and that the normal form cannot have, with the
// reason and its line.
type unread struct {
	reason string
	line   int
}

func (u *unread) Error() string {
	if u.line == 0 {
		return u.reason
	}
	return fmt.Sprintf("line %d: %s", u.line, u.reason)
}

// unreadIn returns one within a value, or nil.
func unreadIn(v any) *unread {
	switch v := v.(type) {
	case *unread:
		return v
	case map[string]any:
		var first *unread
		for _, e := range v { // order-free: the first in the file
			if u := unreadIn(e); u != nil && (first == nil || u.line < first.line) {
				first = u
			}
		}
		return first
	case []any:
		for _, e := range v {
			if u := unreadIn(e); u != nil {
				return u
			}
		}
	}
	return nil
}

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
		return is && (a == b || spelling(a) == spelling(b))
	case *unread:
		b, is := b.(*unread)
		return is && a.reason == b.reason
	}
	return a == b
}

// spelling is a number in its normal form.
func spelling(n json.Number) string {
	out, err := nodeconfig.Canonical(fmt.Appendf(nil, `{"":%s}`, n))
	if err != nil {
		return string(n)
	}
	return string(out)
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

// align returns, for each element of to, which one of old it is or came of, and -1 for those
// that are new. Equal elements come first, in order where that can be; then those that have
// most in common; then, between two that stay, those at one place.
func align(old, to []any) []int {
	from := common(old, to)
	used := map[int]bool{}
	for _, i := range from {
		used[i] = true
	}
	take := func(j int, fits func(i int) bool) {
		for i := range old {
			if from[j] < 0 && !used[i] && fits(i) {
				from[j], used[i] = i, true
			}
		}
	}
	for j := range to {
		take(j, func(i int) bool { return same(old[i], to[j]) })
	}
	for j := range to {
		if len(old)*len(to) > maxAligned {
			break
		}
		best := 0
		for i := range old {
			if !used[i] {
				best = max(best, likeness(old[i], to[j]))
			}
		}
		if best > 0 {
			take(j, func(i int) bool { return likeness(old[i], to[j]) == best })
		}
	}
	for j := range to {
		after := -1
		if j > 0 {
			after = from[j-1]
		}
		next := len(old)
		for _, i := range from[j:] {
			if i > after {
				next = i
				break
			}
		}
		if j == 0 || after >= 0 {
			take(j, func(i int) bool { return i == after+1 && i < next })
		}
	}
	return from
}

// names are members by which elements of a list are told apart.
var names = []string{"id", "name", "key", "alias"}

// likeness of two values that differ; zero is none.
func likeness(a, b any) int {
	n := 0
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for k, v := range a { // order-free: a sum
			if w, there := b[k]; there {
				n++
				if same(v, w) {
					n += 2
					if slices.Contains(names, k) {
						n += 100
					}
				}
			}
		}
	case []any:
		b, _ := b.([]any)
		for _, v := range a {
			if slices.ContainsFunc(b, func(w any) bool { return same(v, w) }) {
				n++
			}
		}
	}
	return n
}

// maxAligned bounds the pairs of elements that are compared for a common sequence.
const maxAligned = 1 << 20

// common pairs the equal elements of a longest common sequence.
func common(old, to []any) []int {
	from := make([]int, len(to))
	for j := range from {
		from[j] = -1
	}
	head := 0
	for head < min(len(old), len(to)) && same(old[head], to[head]) {
		from[head] = head
		head++
	}
	n, m := len(old), len(to)
	for n > head && m > head && same(old[n-1], to[m-1]) {
		n, m = n-1, m-1
		from[m] = n
	}
	if (n-head)*(m-head) > maxAligned {
		return from
	}
	longest := make([][]int, n+1)
	for i := range longest {
		longest[i] = make([]int, m+1)
	}
	equal := func(i, j int) bool { return same(old[i], to[j]) }
	for i := n - 1; i >= head; i-- {
		for j := m - 1; j >= head; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if equal(i, j) {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	for i, j := head, head; i < n && j < m; {
		switch {
		case equal(i, j):
			from[j] = i
			i, j = i+1, j+1
		case longest[i+1][j] >= longest[i][j+1]:
			i++
		default:
			j++
		}
	}
	return from
}
