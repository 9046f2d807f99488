package file

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

func (f tomlFormat) edit(raw []byte, at []string, named identity, id string, to map[string]any) ([]byte, error) {
	doc, err := f.parse(raw)
	if err != nil {
		return nil, err
	}
	text := strings.TrimPrefix(string(raw), byteOrderMark)
	eol := lineBreak(raw)
	t := &tomlEdit{cuts: cuts{text: text, eol: eol}, list: statementsOf(text), below: map[string][]int{}, at: at,
		splicer: splicer{raw: text, eol: eol, unit: "  ", syntax: tomlSyntax{eol}}}
	for i, s := range t.list {
		for n := range len(s.path) + 1 {
			prefix := joined(s.path[:n])
			t.below[prefix] = append(t.below[prefix], i)
		}
	}
	after, err := withObject(doc, at, named, id, to)
	if err != nil {
		return nil, err
	}
	was, _ := nodeconfig.RealMap(doc)
	now, _ := nodeconfig.RealMap(after)
	if err := t.table(nil, was, now); err != nil {
		return nil, err
	}
	return []byte(string(raw[:len(raw)-len(text)]) + t.result()), nil
}

// tomlEdit is a document whose statements change.
type tomlEdit struct {
	cuts
	splicer
	list  []statement
	below map[string][]int // indices of statements, by each path that they stand under
	at    []string         // where the objects stand
}

// first is the index of the first statement under a path that f takes, -1 if there is none.
func (t *tomlEdit) first(path []string, f func(*statement) bool) int {
	for _, i := range t.below[joined(path)] {
		if under(t.list[i].path, path) && f(&t.list[i]) {
			return i
		}
	}
	return -1
}

// assigned is the index of the statement that gives a path its value.
func (t *tomlEdit) assigned(path []string) int {
	return t.first(path, func(s *statement) bool { return !s.header() && len(s.path) == len(path) })
}

// table changes those members of a table that differ.
func (t *tomlEdit) table(path []string, was, to map[string]any) error {
	var added []string
	for _, k := range slices.Sorted(maps.Keys(maps.Collect(both(was, to)))) {
		v, kept := to[k]
		old, there := was[k]
		if there && kept && same(old, v) {
			continue
		}
		add, err := t.member(append(slices.Clone(path), k), old, v, there, kept)
		if err != nil {
			return within(k, err)
		}
		if add {
			added = append(added, k)
		}
	}
	return t.add(path, added, to)
}

// member changes one member of a table, and reports whether it has to be added.
func (t *tomlEdit) member(path []string, old, v any, there, kept bool) (add bool, err error) {
	if i := t.assigned(path); there && kept && i >= 0 {
		p := t.list[i].value
		text, err := t.value(p, old, v, false)
		t.remove(p.start, p.end)
		t.insert(p.start, text)
		return false, err
	}
	if !there {
		return true, nil
	}
	m, wasMap := nodeconfig.RealMap(old)
	now, isMap := nodeconfig.RealMap(v)
	if kept && wasMap && isMap {
		return false, t.inner(path, m, now)
	}
	list, wasList := old.([]any)
	next, isList := v.([]any)
	if kept && wasList && isList && len(next) > 0 && !slices.ContainsFunc(next, func(e any) bool { _, is := nodeconfig.RealMap(e); return !is }) {
		return false, t.elements(path, list, next)
	}
	t.drop(path)
	return kept, nil
}

// inner changes a table within another, and leaves it there when it gets empty.
func (t *tomlEdit) inner(path []string, was, to map[string]any) error {
	if err := t.table(path, was, to); err != nil || len(to) > 0 {
		return err
	}
	if t.first(path, func(s *statement) bool { return s.header() && len(s.path) == len(path) }) >= 0 {
		return nil
	}
	s := &t.list[t.first(path, func(*statement) bool { return true })]
	if !s.header() && under(path, s.table) && len(path) > len(s.table) {
		t.insert(s.lead, t.indentOf(s)+dotted(path[len(s.table):])+" = {}"+t.cuts.eol)
		return nil
	}
	header := t.indentOf(s) + "[" + dotted(t.names(path)) + "]" + t.cuts.eol
	if t.apart(s.lead) {
		header += t.cuts.eol
	}
	t.insert(s.lead, header)
	return nil
}

// indentOf is the white space before a statement.
func (t *tomlEdit) indentOf(s *statement) string {
	line := t.text[s.begin:s.end]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// names is a path without the indices of elements.
func (t *tomlEdit) names(path []string) []string {
	var out []string
	for i, step := range path {
		if n, err := strconv.Atoi(step); err == nil && i > 0 {
			if n >= 0 && t.first(path[:i+1], func(s *statement) bool { return s.list && len(s.path) == i+1 }) >= 0 {
				continue
			}
		}
		out = append(out, step)
	}
	return out
}

// drop takes away the statements under a path, with the comments that describe them. Empty
// lines around them become one.
func (t *tomlEdit) drop(path []string) {
	for i := 0; i < len(t.list); i++ {
		if !under(t.list[i].path, path) {
			continue
		}
		from, header := i, false
		for ; i < len(t.list) && under(t.list[i].path, path); i++ {
			header = header || t.list[i].header()
		}
		begin, end, next := t.list[from].lead, t.list[i-1].end, len(t.text)
		if i < len(t.list) {
			next = t.list[i].lead
		}
		if header {
			end = t.trailing(end, next)
		}
		if t.apart(begin) {
			end = blankAfter(t.text, end)
		}
		if end == len(t.text) {
			begin = len(strings.TrimRight(t.text[:begin], " \t\r\n"))
			if begin > 0 {
				begin += len(lineBreak([]byte(t.text[begin:])))
			}
		}
		t.remove(begin, min(end, len(t.text)))
	}
}

// apart reports whether a place is where the text begins or an empty line ends.
func (t *tomlEdit) apart(at int) bool {
	before := t.text[:at]
	return at == 0 || strings.HasSuffix(before, "\n\n") || strings.HasSuffix(before, "\n\r\n")
}

// trailing is the end of the comments that stand right below a place.
func (t *tomlEdit) trailing(end, next int) int {
	for end < next {
		line, _, _ := strings.Cut(t.text[end:next], "\n")
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			break
		}
		end = min(next, end+len(line)+1)
	}
	return end
}

// blankAfter is the end of the empty lines that begin at a place.
func blankAfter(text string, at int) int {
	for at < len(text) {
		line, _, more := strings.Cut(text[at:], "\n")
		if strings.TrimSpace(line) != "" || !more {
			break
		}
		at += len(line) + 1
	}
	return at
}

// elements changes an array of tables. An element that moves takes its text along.
func (t *tomlEdit) elements(path []string, was, to []any) error {
	from, element := align(was, to), func(i int) []string { return append(slices.Clone(path), strconv.Itoa(i)) }
	last := -1
	stays := make([]bool, len(was))
	for _, i := range from {
		if i > last {
			stays[i], last = true, i
		}
	}
	for i := range was {
		if !stays[i] {
			t.drop(element(i))
		}
	}
	place := t.after(path)
	for j := len(to) - 1; j >= 0; j-- {
		i, now := from[j], to[j]
		m, _ := nodeconfig.RealMap(now)
		if i >= 0 && stays[i] {
			old, _ := nodeconfig.RealMap(was[i])
			if err := t.table(element(i), old, m); err != nil {
				return within(strconv.Itoa(j), err)
			}
			place = t.list[t.first(element(i), (*statement).header)].lead
			continue
		}
		text, err := t.block(path, m, true, t.siblings(path))
		if err != nil {
			return within(strconv.Itoa(j), err)
		}
		if i >= 0 && same(was[i], now) {
			text = t.moved(element(i))
		}
		t.come = slices.Insert(t.come, 0, insertion{place, true, t.spaced(place, text)}) // before those that came for later elements
	}
	return nil
}

// moved is the text of the statements under a path.
func (t *tomlEdit) moved(path []string) (text string) {
	for i, s := range t.list {
		if under(s.path, path) {
			from := s.lead
			if i > 0 && under(t.list[i-1].path, path) {
				from = t.list[i-1].end
			}
			text += t.text[from:s.end]
		}
	}
	if !strings.HasSuffix(text, "\n") {
		text += t.cuts.eol
	}
	return text
}

func both(a, b map[string]any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		for _, m := range []map[string]any{a, b} {
			for k, v := range m { // order-free: its user sorts
				if !yield(k, v) {
					return
				}
			}
		}
	}
}
