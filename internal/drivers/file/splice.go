package file

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// syntax writes values of JSON or TOML.
type syntax interface {
	// scalar writes a value that is no container; old is what it replaces, and may be empty.
	scalar(old string, v any) (string, error)
	// member is a key with what stands between it and its value.
	member(key []string) string
	// between stands between two items in one line.
	between() string
	// wide reports whether new containers may have a line for each item.
	wide() bool
	// braces is what stands within the braces of a new object in one line.
	braces() string
}

// splicer writes a value as another one, with the smallest change of its text.
type splicer struct {
	raw       string
	eol, unit string
	syntax    syntax
}

// value is the text of a piece after its value has changed. With lines, containers that are
// made anew have a line for each item.
func (s *splicer) value(p *piece, was, to any, lines bool) (string, error) {
	if same(was, to) {
		return s.raw[p.start:p.end], nil
	}
	if old, is := nodeconfig.RealMap(was); is && p.open == '{' {
		if m, is := nodeconfig.RealMap(to); is {
			b := s.box(p, lines)
			if err := b.members(nil, old, m); err != nil {
				return "", err
			}
			return b.text(), nil
		}
	}
	if old, is := was.([]any); is && p.open == '[' && len(old) == len(p.items) {
		if list, is := to.([]any); is {
			b := s.box(p, lines)
			if err := b.elements(old, list); err != nil {
				return "", err
			}
			return b.text(), nil
		}
	}
	return s.fresh(s.raw[p.start:p.end], to, s.indent(p.start), lines)
}

// indent is the white space with which the line of a place begins.
func (s *splicer) indent(at int) string {
	line := s.raw[strings.LastIndexByte(s.raw[:at], '\n')+1 : at]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// fresh writes a value of which nothing stands there.
func (s *splicer) fresh(old string, v any, indent string, lines bool) (string, error) {
	lines = lines && s.syntax.wide()
	var brackets string
	var parts []string
	add := func(key string, v any) error {
		text, err := s.fresh("", v, indent+s.unit, lines)
		parts = append(parts, key+text)
		return err
	}
	if m, is := nodeconfig.RealMap(v); is {
		brackets = "{}"
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if err := add(s.syntax.member([]string{k}), m[k]); err != nil {
				return "", within(k, err)
			}
		}
	} else if list, is := v.([]any); is {
		brackets = "[]"
		for i, e := range list {
			if err := add("", e); err != nil {
				return "", within(strconv.Itoa(i), err)
			}
		}
	} else {
		return s.syntax.scalar(old, v)
	}
	space := ""
	if brackets == "{}" {
		space = s.syntax.braces()
	}
	switch {
	case len(parts) == 0:
		return brackets, nil
	case lines:
		between := s.eol + indent + s.unit
		return brackets[:1] + between + strings.Join(parts, ","+between) + s.eol + indent + brackets[1:], nil
	}
	return brackets[:1] + space + strings.Join(parts, s.syntax.between()) + space + brackets[1:], nil
}

// box is a container while its items change.
type box struct {
	*splicer
	p       *piece
	lines   bool // there is a line for each item
	entries []*entry
	tail    string // from the last item to the bracket
	comma   bool   // the last item has one too
}

// entry is an item, with what stands before and after it.
type entry struct {
	key               []string
	was               *item // nil for a new one
	lead, text, after string
	gone              bool
}

func (s *splicer) box(p *piece, lines bool) *box {
	b := &box{splicer: s, p: p, lines: lines && s.syntax.wide() && len(p.items) == 0}
	from := p.head
	for i := range p.items {
		it := &p.items[i]
		lead := s.raw[from:it.begin]
		b.lines = b.lines || strings.Contains(lead, "\n")
		b.entries = append(b.entries, &entry{key: it.key, was: it, lead: lead, text: s.raw[it.begin:it.value.end], after: s.raw[it.value.end:it.end]})
		from = it.end
		b.comma = it.comma >= 0
	}
	b.tail = s.raw[from : p.end-1]
	return b
}

// members changes those below a key, which TOML can have in parts: a.b = 1, a.c = 2.
func (b *box) members(prefix []string, was, to map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(maps.Collect(both(was, to)))) {
		key := append(slices.Clone(prefix), k)
		v, kept := to[k]
		if old, there := was[k]; there && kept && same(old, v) {
			continue
		}
		i := slices.IndexFunc(b.entries, func(e *entry) bool { return !e.gone && slices.Equal(e.key, key) })
		if i >= 0 && kept {
			if err := b.change(b.entries[i], was[k], v); err != nil {
				return within(k, err)
			}
			continue
		}
		old, wasMap := nodeconfig.RealMap(was[k])
		m, isMap := nodeconfig.RealMap(v)
		if i < 0 && wasMap && isMap && len(m) > 0 && b.below(key) {
			if err := b.members(key, old, m); err != nil {
				return within(k, err)
			}
			continue
		}
		place := b.drop(key)
		if !kept {
			continue
		}
		if place < 0 {
			place = b.placeOf(prefix)
		}
		e, err := b.made(key, v)
		if err != nil {
			return within(k, err)
		}
		b.entries = slices.Insert(b.entries, place, e)
	}
	return nil
}

func (b *box) below(key []string) bool {
	return slices.ContainsFunc(b.entries, func(e *entry) bool { return !e.gone && under(e.key, key) })
}

// drop takes away what stands below a key, and returns where it began, -1 if nowhere.
func (b *box) drop(key []string) int {
	place := -1
	for i, e := range b.entries {
		if under(e.key, key) && !e.gone {
			e.gone = true
			if place < 0 {
				place = i
			}
		}
	}
	return place
}

// placeOf is the place after all that stands below a prefix.
func (b *box) placeOf(prefix []string) int {
	for i, e := range slices.Backward(b.entries) {
		if under(e.key, prefix) {
			return i + 1
		}
	}
	return len(b.entries)
}

func (b *box) change(e *entry, was, to any) error {
	value, err := b.value(e.was.value, was, to, b.lines)
	e.text = b.raw[e.was.begin:e.was.value.start] + value
	return err
}

// made is a new item, in lines where its neighbours are.
func (b *box) made(key []string, v any) (*entry, error) {
	lines, indent := b.lines, b.indent(b.p.start)+b.unit
	lead := b.eol + indent
	for _, e := range b.entries {
		if e.was == nil {
			continue
		}
		if i := strings.LastIndexByte(e.lead, '\n'); i >= 0 {
			indent = e.lead[i+1:]
			lead = b.eol + indent
		}
		if e.was.value.open != 0 && len(e.was.value.items) > 0 {
			lines = strings.Contains(e.text, "\n")
		}
	}
	if !b.lines {
		lead, indent = "", b.indent(b.p.start)
	}
	text, err := b.fresh("", v, strings.TrimLeft(indent, "\r\n"), lines)
	if len(key) > 0 {
		text = b.syntax.member(key) + text
	}
	return &entry{key: key, lead: lead, text: text}, err
}

// elements changes those of a list. What stays the same, or nearly so, takes its text along.
func (b *box) elements(was, to []any) error {
	from := align(was, to)
	old := b.entries
	for i, e := range old {
		e.gone = !slices.Contains(from, i)
	}
	var list []*entry
	next := 0 // of the old ones, whose comments may stay where they are
	for j, i := range from {
		if i < 0 {
			e, err := b.made(nil, to[j])
			if err != nil {
				return within(strconv.Itoa(j), err)
			}
			list = append(list, e)
			continue
		}
		for ; next < i; next++ {
			if old[next].gone {
				list = append(list, old[next])
			}
		}
		next = max(next, i+1)
		if err := b.change(old[i], was[i], to[j]); err != nil {
			return within(strconv.Itoa(j), err)
		}
		list = append(list, old[i])
	}
	for ; next < len(old); next++ {
		if old[next].gone {
			list = append(list, old[next])
		}
	}
	b.entries = list
	return nil
}

// text puts the items together. Comments that stand apart from an item that is gone, by an
// empty line, stay.
func (b *box) text() string {
	var out strings.Builder
	out.WriteString(b.raw[b.p.start:b.p.head])
	spaces := func(first bool) string { // before an item in a line with others
		for i, it := range b.p.items {
			from := b.p.head
			if i > 0 {
				from = b.p.items[i-1].end
			}
			if lead := b.raw[from:it.begin]; (i == 0) == first && strings.TrimLeft(lead, " \t") == "" {
				return lead
			}
		}
		if !first {
			return b.syntax.between()[1:]
		}
		if b.p.open == '{' {
			return b.syntax.braces()
		}
		return ""
	}
	var live []*entry
	apart := ""
	for _, e := range b.entries {
		if e.gone {
			apart += detached(e.lead)
			continue
		}
		if apart != "" {
			e.lead = apart + strings.TrimPrefix(strings.TrimPrefix(e.lead, "\r"), "\n")
			apart = ""
		}
		live = append(live, e)
	}
	before := b.raw[b.p.start+1 : b.p.head]
	for i, e := range live {
		first := e.was != nil && e.was == &b.p.items[0]
		if strings.TrimLeft(e.lead, " \t") == "" && (first != (i == 0) || e.was == nil) {
			e.lead = spaces(i == 0)
		}
		if !strings.Contains(e.lead, "\n") && endsLine(before) {
			e.lead = b.eol + b.indent(b.p.start) + b.unit
		}
		before = b.separated(e, i < len(live)-1 || b.comma)
		out.WriteString(e.lead + e.text + before)
	}
	tail := b.tail
	if apart != "" {
		tail = apart + strings.TrimPrefix(strings.TrimPrefix(tail, "\r"), "\n")
	}
	if !strings.Contains(tail, "\n") && endsLine(before) {
		tail = b.eol + b.indent(b.p.start) + tail
	}
	switch {
	case len(live) == 0 && strings.TrimSpace(tail) == "" && b.p.head == b.p.start+1:
		tail = ""
	case len(b.p.items) == 0 && b.lines && !strings.Contains(tail, "\n"):
		tail += b.eol + b.indent(b.p.start)
	case len(b.p.items) == 0 && !b.lines && b.p.open == '{' && tail == "":
		tail = b.syntax.braces()
	}
	return out.String() + tail + b.raw[b.p.end-1:b.p.end]
}

// endsLine reports whether a text ends with a comment that takes the rest of its line.
func endsLine(s string) bool {
	s = strings.Trim(s[strings.LastIndexByte(s, '\n')+1:], " \t,")
	return strings.HasPrefix(s, "#") || strings.HasPrefix(s, "//")
}

// separated is what stands after an item, with a comma or without.
func (b *box) separated(e *entry, comma bool) string {
	has := e.was != nil && e.was.comma >= 0
	switch {
	case comma && !has:
		return "," + e.after
	case !comma && has:
		at := e.was.comma - e.was.value.end
		return e.after[:at] + e.after[at+1:]
	}
	return e.after
}

// detached is what stands before an item and does not describe it: comments above an empty
// line.
func detached(lead string) string {
	lines := strings.SplitAfter(lead, "\n")
	for i := len(lines) - 2; i > 0; i-- {
		if strings.TrimSpace(lines[i]) == "" {
			if kept := strings.Join(lines[:i+1], ""); strings.TrimSpace(kept) != "" {
				return kept
			}
			return ""
		}
	}
	return ""
}
