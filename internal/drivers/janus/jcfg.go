package janus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseJcfg reads a file in the syntax of libconfig 1.5 as maps, lists, texts, numbers and
// booleans.
func parseJcfg(raw []byte) (map[string]any, error) {
	p := &jcfg{text: string(raw)}
	out, err := p.group("")
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(p.text[:min(p.at, len(p.text))], "\n"), err)
	}
	return out, nil
}

const maxNesting = 16

type jcfg struct {
	text  string
	at    int
	depth int
}

var errCut = errors.New("the file ends in the middle")

// space goes over white space and comments.
func (p *jcfg) space() error {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.ContainsRune(" \t\r\n\f", rune(rest[0])):
			p.at++
		case rest[0] == '#', strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			p.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return errCut
			}
			p.at += n + 2
		case strings.HasPrefix(rest, "@include"):
			return errors.New("@include is not supported")
		default:
			return nil
		}
	}
	return nil
}

// next is the byte at which something begins, zero at the end.
func (p *jcfg) next() (byte, error) {
	if err := p.space(); err != nil || p.at >= len(p.text) {
		return 0, err
	}
	return p.text[p.at], nil
}

func (p *jcfg) optional(set string) error {
	c, err := p.next()
	if err == nil && c != 0 && strings.IndexByte(set, c) >= 0 {
		p.at++
	}
	return err
}

// group reads settings up to the byte that closes them, or to the end of the file.
func (p *jcfg) group(end string) (map[string]any, error) {
	out := map[string]any{}
	for {
		c, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case c == 0 && end == "":
			return out, nil
		case c == 0:
			return nil, errCut
		case end != "" && c == end[0]:
			p.at++
			return out, nil
		}
		name := p.word()
		if !settingName(name) {
			return nil, fmt.Errorf("%q is no name of a setting", name)
		}
		if c, err = p.next(); err != nil || c != '=' && c != ':' {
			return nil, errors.Join(err, fmt.Errorf("%s has no value: expected = or : after it", name))
		}
		p.at++
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s stands twice", name)
		}
		if out[name], err = p.value(); err != nil {
			return nil, err
		}
		if err := p.optional(";,"); err != nil {
			return nil, err
		}
	}
}

func (p *jcfg) list(end byte) ([]any, error) {
	out := []any{}
	for {
		c, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case c == 0:
			return nil, errCut
		case c == end:
			p.at++
			return out, nil
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if err := p.optional(","); err != nil {
			return nil, err
		}
	}
}

func (p *jcfg) value() (any, error) {
	c, err := p.next()
	if err != nil {
		return nil, err
	}
	if p.depth++; p.depth > maxNesting {
		return nil, errors.New("it is too deep")
	}
	defer func() { p.depth-- }()
	switch c {
	case 0:
		return nil, errCut
	case '{':
		p.at++
		return p.group("}")
	case '(':
		p.at++
		return p.list(')')
	case '[':
		p.at++
		return p.list(']')
	case '"':
		return p.quoted()
	}
	return scalar(p.word())
}

// quoted reads a text, or several that follow each other.
func (p *jcfg) quoted() (string, error) {
	var out strings.Builder
	for {
		p.at++
		for {
			if p.at >= len(p.text) {
				return "", errCut
			}
			c := p.text[p.at]
			p.at++
			if c == '"' {
				break
			}
			if c == '\\' {
				var err error
				if c, err = p.escaped(); err != nil {
					return "", err
				}
			}
			out.WriteByte(c)
		}
		if c, err := p.next(); err != nil || c != '"' {
			return out.String(), err
		}
	}
}

func (p *jcfg) escaped() (byte, error) {
	if p.at >= len(p.text) {
		return 0, errCut
	}
	c := p.text[p.at]
	p.at++
	switch i := strings.IndexByte(`ntrf"\`, c); {
	case i >= 0:
		return "\n\t\r\f\"\\"[i], nil
	case c == 'x' && p.at+2 <= len(p.text):
		n, err := strconv.ParseUint(p.text[p.at:p.at+2], 16, 8)
		p.at += 2
		return byte(n), err
	}
	return 0, fmt.Errorf("\\%c is no escape", c)
}

// word reads up to a byte that belongs to no name and no number.
func (p *jcfg) word() string {
	begin := p.at
	for p.at < len(p.text) && !strings.ContainsRune(" \t\r\n\f=:;,{}()[]\"#", rune(p.text[p.at])) && !strings.HasPrefix(p.text[p.at:], "//") {
		p.at++
	}
	return p.text[begin:p.at]
}

func scalar(word string) (any, error) {
	switch strings.ToLower(word) {
	case "true", "false":
		return strings.EqualFold(word, "true"), nil
	}
	if n, err := strconv.ParseInt(strings.TrimRight(word, "L"), 0, 64); err == nil {
		return json.Number(strconv.FormatInt(n, 10)), nil
	}
	if json.Valid([]byte(word)) {
		return json.Number(word), nil
	}
	return nil, fmt.Errorf("%.40q is no value", word)
}

// settingName reports whether libconfig can store a setting by the name: Janus reports
// success for others, and does not write them.
func settingName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '*'
		if !letter && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}
