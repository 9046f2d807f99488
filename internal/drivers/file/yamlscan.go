package file

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

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
