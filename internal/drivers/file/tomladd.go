package file

import (
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// add writes new members of a table: those that have a header where their siblings have one,
// and all others as keys.
func (t *tomlEdit) add(path, keys []string, to map[string]any) error {
	if len(keys) == 0 {
		return nil
	}
	var text string
	place, prefix, indent := t.placeOf(path)
	for _, k := range keys {
		m, isMap := nodeconfig.RealMap(to[k])
		if isMap && t.tabular(path) {
			block, err := t.block(append(slices.Clone(path), k), m, false, t.siblings(path))
			if err != nil {
				return within(k, err)
			}
			at := t.after(path)
			t.insert(at, t.spaced(at, block))
			continue
		}
		v, err := t.fresh("", to[k], "", false)
		if err != nil {
			return within(k, err)
		}
		text += indent + dotted(append(slices.Clone(prefix), k)) + " = " + v + t.cuts.eol
	}
	if text == "" {
		return nil
	}
	if len(path) == 0 && place < len(t.text) && !slices.ContainsFunc(t.list, func(s statement) bool { return !s.header() && len(s.table) == 0 }) {
		text += t.cuts.eol
	}
	if place < 0 { // its tables have headers, and it has none
		i := t.first(path, func(*statement) bool { return true })
		if place = len(t.text); i >= 0 {
			place = t.list[i].lead
			indent = t.indentOf(&t.list[i])
		}
		text = indent + "[" + dotted(t.names(path)) + "]" + t.cuts.eol + text + t.cuts.eol
	}
	t.insert(place, text)
	return nil
}

// placeOf is where the keys of a table end, what stands before the names of new ones, and
// with what indentation; -1 if there is no such place.
func (t *tomlEdit) placeOf(path []string) (place int, prefix []string, indent string) {
	place = -1
	for i := range t.list {
		s := &t.list[i]
		switch {
		case s.header() && slices.Equal(s.path, path):
			place, indent = s.end, t.indentOf(s)
			for ; i+1 < len(t.list) && !t.list[i+1].header(); i++ {
				place, indent = t.list[i+1].end, t.indentOf(&t.list[i+1])
			}
			return place, nil, indent
		case !s.header() && under(s.path, path) && under(path, s.table):
			place, prefix, indent = s.end, path[len(s.table):], t.indentOf(s)
		}
	}
	if place < 0 && len(path) == 0 {
		place = len(t.text)
		if len(t.list) > 0 {
			place = t.list[0].lead
		}
	}
	return place, prefix, indent
}

// tabular reports whether new tables in a table have a header: where others have, and where
// the objects stand.
func (t *tomlEdit) tabular(path []string) bool {
	keys := t.first(path, func(s *statement) bool {
		return !s.header() && len(s.path) > len(path) && under(path, s.table) && s.value.open == '{' || !s.header() && len(s.path) > len(path)+1 && under(path, s.table)
	})
	headers := t.first(path, func(s *statement) bool { return s.header() && len(s.path) > len(path) })
	return headers >= 0 || keys < 0 && slices.Equal(path, t.at)
}

// after is the end of all that stands under a path, where a header may come.
func (t *tomlEdit) after(path []string) int {
	place, seen := len(t.text), false
	for i := range t.list {
		s := &t.list[i]
		if under(s.path, path) && (!s.header() || len(s.path) >= len(path)) {
			place, seen = s.end, true
		} else if seen && !s.header() && place == t.list[i-1].end {
			place = s.end // a header may not come between keys
		}
	}
	if !seen {
		return len(t.text)
	}
	return place
}

// indents are those of a table's header and its keys.
type indents struct{ header, keys string }

// siblings is how the tables under a path are indented.
func (t *tomlEdit) siblings(path []string) (in indents) {
	for i := range t.list {
		s := &t.list[i]
		if !s.header() || !under(s.path, path) || len(s.path) != len(path)+1 {
			continue
		}
		in = indents{t.indentOf(s), t.indentOf(s)}
		if i+1 < len(t.list) && !t.list[i+1].header() {
			in.keys = t.indentOf(&t.list[i+1])
		}
	}
	return in
}

// spaced is a block with an empty line before it and, where something follows at once, after.
func (t *tomlEdit) spaced(at int, block string) string {
	if !t.apart(at) {
		block = t.cuts.eol + block
	}
	if line, _, _ := strings.Cut(t.text[at:], "\n"); strings.TrimSpace(line) != "" {
		block += t.cuts.eol
	}
	return block
}

// block is a table with those below it.
func (t *tomlEdit) block(path []string, m map[string]any, list bool, in indents) (string, error) {
	open, end := "[", "]"
	if list {
		open, end = "[[", "]]"
	}
	text, below := in.header+open+dotted(t.names(path))+end+t.cuts.eol, ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if sub, is := nodeconfig.RealMap(m[k]); is {
			b, err := t.block(append(slices.Clone(path), k), sub, false, in)
			if err != nil {
				return "", within(k, err)
			}
			below += t.cuts.eol + b
			continue
		}
		v, err := t.fresh("", m[k], "", false)
		if err != nil {
			return "", within(k, err)
		}
		text += in.keys + dotted([]string{k}) + " = " + v + t.cuts.eol
	}
	return text + below, nil
}
