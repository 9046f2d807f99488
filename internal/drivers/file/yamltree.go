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

// simple parses what ends by itself.
func (p *ytext) simple(flow bool, low int) *ynode {
	n := &ynode{kind: yaml.ScalarNode, begin: p.pos, start: p.pos, style: p.at(p.pos)}
	switch c := p.at(p.pos); c {
	case '*':
		n.kind, n.style = yaml.AliasNode, 0
		for p.pos++; !isBlank(p.at(p.pos)) && !strings.ContainsRune(",[]{}", rune(p.at(p.pos))); p.pos++ {
		}
	case '\'':
		for p.pos++; p.pos < len(p.s); p.pos++ {
			if p.s[p.pos] == '\'' {
				if p.at(p.pos+1) != '\'' {
					break
				}
				p.pos++
			}
		}
		p.pos++
	case '"':
		for p.pos++; p.pos < len(p.s) && p.s[p.pos] != '"'; p.pos++ {
			if p.s[p.pos] == '\\' {
				p.pos++
			}
		}
		p.pos++
	case '[', '{':
		return p.brackets()
	default:
		return p.plain(flow, low)
	}
	p.pos = min(p.pos, len(p.s))
	n.end = p.pos
	return n
}

// plain parses a scalar without quotes, over several lines where those are indented by low.
func (p *ytext) plain(flow bool, low int) *ynode {
	n := &ynode{kind: yaml.ScalarNode, begin: p.pos, start: p.pos, end: p.pos}
	for {
		for ; !isBreak(p.at(p.pos)); p.pos++ {
			c, next := p.s[p.pos], p.at(p.pos+1)
			inFlow := flow && strings.IndexByte(",[]{}", c) >= 0
			if inFlow || c == '#' && p.pos > n.start && isBlank(p.s[p.pos-1]) || c == ':' && (isBlank(next) || flow && strings.IndexByte(",[]{}", next) >= 0) {
				p.pos = n.end
				return n
			}
			if c != ' ' && c != '\t' {
				n.end = p.pos + 1
			}
		}
		for isBreak(p.at(p.pos)) || p.at(p.pos) == ' ' || p.at(p.pos) == '\t' {
			if p.pos >= len(p.s) {
				break
			}
			p.pos++
		}
		if p.over() || !flow && p.column(p.pos) < low || p.at(p.pos) == '#' {
			p.pos = n.end
			return n
		}
	}
}

// literal parses a block scalar within a block whose lines are indented by low.
func (p *ytext) literal(low int) *ynode {
	n := &ynode{kind: yaml.ScalarNode, begin: p.pos, start: p.pos, style: p.s[p.pos]}
	indent, keep := 0, false
	for p.pos++; !isBlank(p.at(p.pos)); p.pos++ {
		switch c := p.s[p.pos]; {
		case c == '+':
			keep = true
		case c >= '1' && c <= '9':
			indent = max(low-1, 0) + int(c-'0')
		}
	}
	p.spaces()
	n.end = p.pos
	if p.at(n.end-1) == '\r' {
		n.end--
	}
	for p.pos < len(p.s) {
		if p.at(p.pos) == '\r' {
			p.pos++
		}
		line := p.pos + 1 // after the line break
		if line > len(p.s) {
			break
		}
		end := len(p.s)
		if i := strings.IndexByte(p.s[line:], '\n'); i >= 0 {
			end = line + i
		}
		text := strings.TrimSuffix(p.s[line:end], "\r")
		have := len(text) - len(strings.TrimLeft(text, " "))
		blank := have == len(text)
		if !blank && indent == 0 {
			indent = max(have, low, 1)
		}
		if !blank && have < indent || isMarker(p.s[line:end]) {
			break
		}
		if !blank || keep && (line < len(p.s)) || indent > 0 && have > indent {
			n.end = line + len(text)
		}
		p.pos = end
	}
	p.pos = n.end
	return n
}

// brackets parses a flow mapping or sequence.
func (p *ytext) brackets() *ynode {
	n := &ynode{kind: yaml.SequenceNode, flow: true, begin: p.pos, start: p.pos}
	closing := byte(']')
	if p.s[p.pos] == '{' {
		n.kind, closing = yaml.MappingNode, '}'
	}
	p.pos++
	for p.pos < len(p.s) {
		if p.skip(); p.at(p.pos) == closing || p.pos >= len(p.s) {
			break
		}
		before := p.pos
		it := p.flowItem(n.kind)
		n.items = append(n.items, it)
		end := p.pos
		if p.skip(); p.at(p.pos) == ',' {
			p.pos++
		} else if p.at(p.pos) != closing {
			p.pos = end
		}
		if p.pos == before {
			break // not as the library reads it
		}
	}
	p.pos = min(p.pos+1, len(p.s))
	n.end = p.pos
	return n
}

// flowItem parses a member, or an element, which may be a pair without brackets.
func (p *ytext) flowItem(kind yaml.Kind) *yitem {
	it := &yitem{begin: p.pos, mark: p.pos}
	explicit := p.at(p.pos) == '?' && isBlank(p.at(p.pos+1))
	if explicit {
		p.pos++
		p.skip()
	}
	first := p.flowNode()
	end := p.pos
	p.skip()
	next := p.at(p.pos + 1)
	isPair := p.at(p.pos) == ':' && (isBlank(next) || strings.IndexByte(",[]{}", next) >= 0 || first.style != 0 || first.flow)
	if !isPair {
		p.pos = end
		if kind == yaml.SequenceNode && !explicit {
			it.value = first
			return it
		}
		it.key, it.mark, it.bare, it.value = first, end, true, p.empty(end)
	} else {
		p.pos++
		it.key, it.mark = first, p.pos
		p.skip()
		if it.value = p.flowNode(); it.value.end == it.value.begin {
			at := it.mark
			if p.at(at) == ' ' {
				at++
			}
			it.value = p.empty(at)
		}
	}
	if kind == yaml.SequenceNode {
		pair := &ynode{kind: yaml.MappingNode, flow: true, begin: it.begin, start: it.begin, end: p.pos, items: []*yitem{it}, column: -1}
		return &yitem{begin: it.begin, mark: it.begin, value: pair}
	}
	return it
}

func (p *ytext) flowNode() *ynode {
	n := &ynode{begin: p.pos}
	p.properties(n)
	if c := p.at(p.pos); n.end > 0 && (c == ',' || c == ']' || c == '}' || c == ':' && isBlank(p.at(p.pos+1))) {
		e := p.empty(n.end)
		e.begin, e.anchor, e.tag = n.begin, n.anchor, n.tag
		return e
	}
	m := p.simple(true, 0)
	m.begin, m.anchor, m.tag = n.begin, n.anchor, n.tag
	return m
}
