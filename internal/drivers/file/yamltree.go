package file

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// ynode is a node of a YAML document as it stands in the text. begin is where its anchor and
// tag stand, start its content; end is after that. An empty one has no content.
type ynode struct {
	kind              yaml.Kind // scalar, mapping, sequence or alias
	style             byte      // of a scalar: ' " | > or zero for a plain one
	flow              bool
	begin, start, end int
	column            int // of the items of a block
	anchor, tag       string
	items             []*yitem
	is                *yaml.Node // what the library reads there
	value             any        // in the normal form
}

// yitem is a member of a mapping or an element of a sequence. mark is after its colon or dash.
type yitem struct {
	begin, mark int
	bare        bool // has no colon
	key, value  *ynode
}

// ytext parses a document that the library has accepted: what it makes of any other is found
// when it is held against the library's tree.
type ytext struct {
	s   string
	pos int
}

func (p *ytext) at(i int) byte {
	if i < len(p.s) && i >= 0 {
		return p.s[i]
	}
	return 0
}

func isBreak(c byte) bool { return c == '\n' || c == '\r' || c == 0 }
func isBlank(c byte) bool { return c == ' ' || c == '\t' || isBreak(c) }

func (p *ytext) column(at int) int {
	line := strings.LastIndexByte(p.s[:at], '\n') + 1
	if line == 0 && strings.HasPrefix(p.s, bom) {
		line = min(len(bom), at)
	}
	return at - line
}

const bom = "\ufeff"

// spaces goes over white space and a comment to the end of the line at most.
func (p *ytext) spaces() {
	for p.at(p.pos) == ' ' || p.at(p.pos) == '\t' {
		p.pos++
	}
	if p.at(p.pos) == '#' && (p.pos == 0 || isBlank(p.s[p.pos-1])) {
		for p.pos < len(p.s) && p.s[p.pos] != '\n' {
			p.pos++
		}
	}
}

// skip goes to what comes next and reports whether that is in another line.
func (p *ytext) skip() bool {
	crossed := false
	for {
		p.spaces()
		if p.pos >= len(p.s) || !isBreak(p.s[p.pos]) {
			return crossed || p.pos >= len(p.s)
		}
		crossed = true
		p.pos++
	}
}

// over reports whether the document ends here.
func (p *ytext) over() bool {
	return p.pos >= len(p.s) || p.column(p.pos) == 0 && isMarker(p.s[p.pos:])
}

func isMarker(s string) bool {
	return (strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...")) && (len(s) == 3 || isBlank(s[3]))
}

// document parses the one of a file.
func (p *ytext) document() *ynode {
	if strings.HasPrefix(p.s, bom) {
		p.pos = len(bom)
	}
	p.skip()
	for p.at(p.pos) == '%' && p.column(p.pos) == 0 {
		for p.pos < len(p.s) && p.s[p.pos] != '\n' {
			p.pos++
		}
		p.skip()
	}
	if strings.HasPrefix(p.s[p.pos:], "---") && isMarker(p.s[p.pos:]) {
		p.pos += 3
	}
	at := p.pos
	if p.skip(); p.over() {
		return p.empty(at)
	}
	return p.block(0, 0, true)
}

func (p *ytext) empty(at int) *ynode {
	p.pos = at
	return &ynode{kind: yaml.ScalarNode, begin: at, start: at, end: at}
}

// properties reads anchor and tag, and reports whether a line ended after one.
func (p *ytext) properties(n *ynode) (crossed bool) {
	for c := p.at(p.pos); c == '&' || c == '!'; c = p.at(p.pos) {
		from := p.pos
		verbatim := strings.HasPrefix(p.s[p.pos:], "!<")
		for !isBlank(p.at(p.pos)) && (verbatim || c == '&' && !strings.ContainsRune(",[]{}", rune(p.at(p.pos))) || c == '!' && !strings.ContainsRune(",[]{}", rune(p.at(p.pos)))) {
			p.pos++
			if verbatim && p.s[p.pos-1] == '>' {
				break
			}
		}
		if c == '&' {
			n.anchor = p.s[from+1 : p.pos]
		} else {
			n.tag = p.s[from:p.pos]
		}
		n.start, n.end = p.pos, p.pos
		if p.skip() {
			return true
		}
	}
	return false
}

// block parses a node whose lines are indented by low or more; those of a sequence, by dash.
func (p *ytext) block(low, dash int, mapping bool) *ynode {
	begin := p.pos
	switch {
	case p.at(p.pos) == '-' && isBlank(p.at(p.pos+1)):
		return p.sequence(p.column(p.pos))
	case mapping && p.isKey():
		return p.mapping(p.column(p.pos))
	}
	own := &ynode{begin: begin}
	if crossed := p.properties(own); own.end > 0 {
		end := own.end
		c := p.column(p.pos)
		isDash := p.at(p.pos) == '-' && isBlank(p.at(p.pos+1))
		if p.over() || crossed && c < low && !(isDash && c >= dash) {
			n := p.empty(end)
			n.begin, n.anchor, n.tag = begin, own.anchor, own.tag
			return n
		}
		n := p.block(low, dash, crossed)
		n.begin, n.anchor, n.tag = begin, own.anchor, own.tag
		return n
	}
	switch c := p.at(p.pos); c {
	case '|', '>':
		return p.literal(low)
	case '[', '{', '\'', '"', '*':
		return p.simple(false, low)
	}
	return p.plain(false, low)
}

// isKey reports whether the key of a block mapping stands here.
func (p *ytext) isKey() bool {
	c, next := p.at(p.pos), p.at(p.pos+1)
	if (c == '?' || c == ':') && isBlank(next) {
		return true
	}
	q := *p
	if q.properties(&ynode{}) || q.at(q.pos) == '|' || q.at(q.pos) == '>' || q.at(q.pos) == '-' && isBlank(q.at(q.pos+1)) {
		return false
	}
	n := q.key()
	return !strings.Contains(p.s[n.begin:n.end], "\n") && q.colon()
}

// key parses what stands before a colon in one line.
func (p *ytext) key() *ynode {
	n := &ynode{begin: p.pos}
	p.properties(n)
	var k *ynode
	switch c := p.at(p.pos); c {
	case '[', '{', '\'', '"', '*':
		k = p.simple(false, -1)
	default:
		k = p.plain(false, 1<<30)
	}
	k.begin, k.anchor, k.tag = n.begin, n.anchor, n.tag
	return k
}

func (p *ytext) colon() bool {
	for p.at(p.pos) == ' ' || p.at(p.pos) == '\t' {
		p.pos++
	}
	return p.at(p.pos) == ':' && isBlank(p.at(p.pos+1))
}

func (p *ytext) mapping(column int) *ynode {
	m := &ynode{kind: yaml.MappingNode, begin: p.pos, start: p.pos, column: column}
	for {
		it := &yitem{begin: p.pos}
		if p.at(p.pos) == '?' && isBlank(p.at(p.pos+1)) {
			p.pos++
			it.key = p.after(column, column+1)
			end := p.pos
			if p.skip(); p.column(p.pos) == column && p.at(p.pos) == ':' && !p.over() {
				p.pos++
				it.mark = p.pos
				it.value = p.after(column, column)
			} else {
				it.mark, it.bare = end, true
				it.value = p.empty(end)
			}
		} else {
			if p.at(p.pos) == ':' && isBlank(p.at(p.pos+1)) {
				it.key = p.empty(p.pos)
			} else {
				it.key = p.key()
			}
			if !p.colon() {
				return m // not as the library reads it
			}
			p.pos++
			it.mark = p.pos
			it.value = p.after(column, column)
		}
		m.items = append(m.items, it)
		m.end = p.pos
		if p.skip(); p.over() || p.column(p.pos) != column || p.at(p.pos) == '-' && isBlank(p.at(p.pos+1)) || !p.isKey() {
			p.pos = m.end
			return m
		}
	}
}

func (p *ytext) sequence(column int) *ynode {
	l := &ynode{kind: yaml.SequenceNode, begin: p.pos, start: p.pos, column: column}
	for {
		it := &yitem{begin: p.pos, mark: p.pos + 1}
		p.pos++
		it.value = p.after(column, column+1)
		l.items = append(l.items, it)
		l.end = p.pos
		if p.skip(); p.over() || p.column(p.pos) != column || p.at(p.pos) != '-' || !isBlank(p.at(p.pos+1)) {
			p.pos = l.end
			return l
		}
	}
}

// after parses what comes after a mark in a block at a column.
func (p *ytext) after(column, dash int) *ynode {
	at := p.pos
	crossed := p.skip()
	if p.over() {
		return p.empty(at)
	}
	c := p.column(p.pos)
	isDash := p.at(p.pos) == '-' && isBlank(p.at(p.pos+1))
	if crossed && c <= column && !(isDash && c >= dash) {
		return p.empty(at)
	}
	return p.block(column+1, dash, crossed || p.s[at-1] != ':')
}
