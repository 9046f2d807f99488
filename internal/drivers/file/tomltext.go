package file

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// statement is a line of TOML, or some: a header, or a key with its value.
type statement struct {
	table []string // in which a key stands
	path  []string // whole, with the index of an array's element as a step
	list  bool     // a header of an array's element
	value *piece   // nil for a header
	lead  int      // where the comments right above begin
	begin int      // of its lines
	end   int
}

func (s *statement) header() bool { return s.value == nil }

// statementsOf lists those of a text that a parser has accepted.
func statementsOf(text string) (all []statement) {
	r, counts := &reader{raw: text, text: tomlKey}, map[string]int{}
	var table []string
	for last := 0; ; {
		if r.blank(); r.pos >= len(text) {
			return all
		}
		s := statement{begin: strings.LastIndexByte(text[:r.pos], '\n') + 1}
		if r.peek() == '[' {
			r.pos++
			if s.list = r.peek() == '['; s.list {
				r.pos++
			}
			r.spaces()
			s.path = indexed(r.key(), counts)
			if s.list {
				name := joined(s.path)
				counts[name]++
				s.path = append(s.path, strconv.Itoa(counts[name]-1))
			}
			table = s.path
		} else {
			key := r.key()
			s.table, s.path = table, slices.Concat(table, key)
			r.assigned()
			s.value = r.value()
		}
		r.pos = r.lineEnd()
		s.end = min(len(text), r.pos+strings.IndexByte(text[r.pos:], '\n')+1)
		if s.end == r.pos { // the last line has no end
			s.end = len(text)
		}
		r.pos = s.end
		s.lead = commentsAbove(text, last, s.begin)
		last = s.end
		all = append(all, s)
	}
}

// commentsAbove is where the comments begin that stand right above a line, after a place.
func commentsAbove(text string, after, begin int) int {
	for begin > after {
		line := strings.LastIndexByte(text[:begin-1], '\n') + 1
		if line < after || !strings.HasPrefix(strings.TrimLeft(text[line:begin], " \t"), "#") {
			break
		}
		begin = line
	}
	return begin
}

// tomlKey is what a key in quotes stands for.
func tomlKey(quoted string) string {
	var m map[string]string
	if _, err := toml.Decode("v = "+quoted, &m); err != nil {
		return quoted
	}
	return m["v"]
}

func joined(path []string) string { return strings.Join(path, "\x00") }

// indexed puts the index of the newest element after the name of an array of tables.
func indexed(path []string, counts map[string]int) (out []string) {
	for i, step := range path {
		out = append(out, step)
		if n := counts[joined(out)]; n > 0 && i < len(path)-1 {
			out = append(out, strconv.Itoa(n-1))
		}
	}
	return out
}

func under(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func dotted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n; !bare.MatchString(n) {
			out[i] = quoted(n)
		}
	}
	return strings.Join(out, ".")
}

// cuts is a text while parts of it are cut out and others come in.
type cuts struct {
	text, eol string
	gone      [][2]int
	come      []insertion
}

type insertion struct {
	at     int
	header bool // it comes after keys that come at the same place
	text   string
}

func (c *cuts) remove(from, to int) { c.gone = append(c.gone, [2]int{from, to}) }

func (c *cuts) insert(at int, text string) {
	c.come = append(c.come, insertion{at, strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "["), text})
}

// result has the file's own end: with a line break or without.
func (c *cuts) result() string {
	slices.SortStableFunc(c.gone, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	slices.SortStableFunc(c.come, func(a, b insertion) int {
		switch {
		case a.at == b.at && a.header != b.header && b.header:
			return -1
		case a.at == b.at && a.header != b.header:
			return 1
		}
		return cmp.Compare(a.at, b.at)
	})
	var out strings.Builder
	at := 0
	upTo := func(end int) {
		for _, g := range c.gone {
			if g[0] >= end {
				break
			}
			out.WriteString(c.text[at:max(at, min(g[0], end))])
			at = max(at, min(g[1], end))
		}
		out.WriteString(c.text[at:max(at, end)])
		at = max(at, end)
	}
	for _, in := range c.come {
		upTo(in.at)
		if whole := strings.HasSuffix(in.text, c.eol); whole && in.at == len(c.text) && out.Len() > 0 && !strings.HasSuffix(c.text, "\n") {
			out.WriteString(c.eol)
		}
		out.WriteString(in.text)
	}
	upTo(len(c.text))
	text := out.String()
	if had := strings.HasSuffix(c.text, "\n"); had != strings.HasSuffix(text, "\n") && c.text != "" && text != "" {
		if had {
			return text + c.eol
		}
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	return text
}
