package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// jsonFormat is JSON, with comments and commas before a closing bracket where the file has
// them.
type jsonFormat struct{}

const byteOrderMark = "\ufeff"

// parse reads what stands in a file: null is there, a number keeps its spelling. An object
// with a member that stands twice is unread.
func (jsonFormat) parse(raw []byte) (any, error) {
	plain := plainJSON(raw)
	if err := json.Unmarshal(plain, new(json.RawMessage)); err != nil {
		at := len(raw)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = int(syntax.Offset)
		}
		return nil, fmt.Errorf("no JSON in line %d", lineAt(raw, at))
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	return jsonReader{d, raw}.value(nodeconfig.MaxDepth)
}

// lineAt is the number of the line of a place.
func lineAt(raw []byte, at int) int {
	return 1 + bytes.Count(raw[:min(at, len(raw))], []byte("\n"))
}

// plainJSON is a text with spaces in the place of what JSON itself has not.
func plainJSON(raw []byte) []byte {
	out := bytes.Clone(raw)
	clear := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	r := &reader{raw: string(raw)}
	if strings.HasPrefix(r.raw, byteOrderMark) {
		r.pos = len(byteOrderMark)
		clear(0, r.pos)
	}
	last, comma := byte(','), -1 // what stood before, and a comma that it is
	for r.pos < len(r.raw) {
		from, c := r.pos, r.peek()
		switch {
		case c == '/':
			if skipped, _ := r.comment(); skipped {
				clear(from, r.pos)
				continue
			}
			r.pos++
		case c == '"':
			r.quoted()
		case strings.IndexByte(" \t\r\n", c) >= 0:
			r.pos++
			continue
		default:
			r.pos++
		}
		if (c == '}' || c == ']') && comma >= 0 {
			clear(comma, comma+1)
		}
		if comma = -1; c == ',' && strings.IndexByte("{[,:", last) < 0 {
			comma = from
		}
		last = c
	}
	return out
}

// jsonReader reads values of a text that is valid.
type jsonReader struct {
	*json.Decoder
	raw []byte
}

func (d jsonReader) value(depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	at := int(d.InputOffset())
	var out any = t
	var bad *unread
	if text, is := t.(string); is && d.torn(text) {
		return d.unread("the text has half of a surrogate pair, or a byte that is no UTF-8, which programs read as different texts"), nil
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := d.value(depth - 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		out = list
	case json.Delim('{'):
		m := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if _, there := m[name]; there && bad == nil {
				bad = d.unread("the member %.40q stands twice", name)
			} else if d.torn(name) {
				bad = d.unread("the member %.40q has half of a surrogate pair, or a byte that is no UTF-8", name)
			}
			if m[name], err = d.value(depth - 1); err != nil {
				return nil, err
			}
		}
		out = nodeconfig.MapOf(m)
	default:
		return t, nil
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	switch {
	case bad != nil:
		return bad, nil
	case depth < 0:
		return &unread{Reason: fmt.Sprintf("the value has more than %d levels", nodeconfig.MaxDepth), Line: lineAt(d.raw, at)}, nil
	}
	return out, nil
}

func (d jsonReader) unread(format string, args ...any) *unread {
	return &unread{Reason: fmt.Sprintf(format, args...), Line: lineAt(d.raw, int(d.InputOffset()))}
}

// torn reports whether the text that was read last has a replacement character that its file has
// not: there stands something that is no Unicode.
func (d jsonReader) torn(text string) bool {
	n := strings.Count(text, "\ufffd")
	if n == 0 {
		return false
	}
	raw := d.raw[:d.InputOffset()]
	for i := len(raw) - 2; i >= 0; i-- { // back to the quote that begins it
		if raw[i] == '"' && (len(raw[:i])-len(bytes.TrimRight(raw[:i], "\\")))%2 == 0 {
			raw = raw[i:]
			break
		}
	}
	raw = bytes.ReplaceAll(raw, []byte(`\\`), nil)
	return n != bytes.Count(raw, []byte("\ufffd"))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
}

func (f jsonFormat) edit(raw []byte, at []string, named identity, id string, to map[string]any) ([]byte, error) {
	was, err := f.parse(raw)
	if err != nil {
		return nil, err
	}
	s := &splicer{raw: string(raw), eol: lineBreak(raw), unit: unitOf(raw), syntax: jsonSyntax{colon: colonOf(raw)}}
	r := &reader{raw: s.raw, text: func(quoted string) (key string) {
		_ = json.Unmarshal([]byte(quoted), &key) // it was parsed before
		return key
	}}
	if strings.HasPrefix(s.raw, byteOrderMark) {
		r.pos = len(byteOrderMark)
	}
	r.blank()
	p := r.value()
	now, err := withObject(was, at, named, id, to)
	if err != nil {
		return nil, err
	}
	text, err := s.value(p, was, now, strings.Contains(s.raw[p.start:p.end], "\n") || len(p.items) == 0)
	if err != nil {
		return nil, err
	}
	return []byte(s.raw[:p.start] + text + s.raw[p.end:]), nil
}

// lineBreak is that of a text's first line.
func lineBreak(raw []byte) string {
	if i := bytes.IndexByte(raw, '\n'); i > 0 && raw[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// unitOf is the indentation of a document's first member.
func unitOf(raw []byte) string {
	for line := range bytes.Lines(raw) {
		rest := bytes.TrimLeft(line, " \t")
		if unit := line[:len(line)-len(rest)]; len(unit) > 0 && len(bytes.TrimSpace(rest)) > 0 && rest[0] != '/' && rest[0] != '*' {
			return string(unit)
		}
	}
	return "  "
}

// colonOf is what stands between a document's first key and its value.
func colonOf(raw []byte) string {
	r := &reader{raw: string(raw)}
	for r.pos < len(r.raw) && r.peek() != ':' {
		if r.peek() == '"' {
			r.quoted()
		} else if skipped, _ := r.comment(); !skipped {
			r.pos++
		}
	}
	if strings.HasPrefix(r.raw[r.pos:], ":\t") {
		return ":\t"
	}
	if r.pos+1 < len(r.raw) && r.raw[r.pos+1] != ' ' && !strings.Contains(r.raw[:r.pos], "\n") {
		return ":"
	}
	return ": "
}

// jsonSyntax writes JSON.
type jsonSyntax struct{ colon string }

func (jsonSyntax) wide() bool     { return true }
func (jsonSyntax) braces() string { return "" }

func (s jsonSyntax) between() string {
	if s.colon == ":" {
		return ","
	}
	return ", "
}

func (s jsonSyntax) member(key []string) string { return quoted(key[0]) + s.colon }

func (jsonSyntax) scalar(_ string, v any) (string, error) {
	if name, _, typed := nodeconfig.TypeOf(v); typed {
		return "", fmt.Errorf("JSON has no value of type %s: write it as the text or number that the program reads", name)
	}
	raw, err := unescaped(v)
	return string(raw), err
}

// unescaped is a value as JSON, with <, > and & as they are.
func unescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// quoted is a text in quotes, as JSON and TOML have it.
func quoted(s string) string {
	raw, err := unescaped(s)
	if err != nil {
		return `""`
	}
	return strings.ReplaceAll(string(raw), "\x7f", `\u007f`)
}

// fieldError names the field that a format cannot have.
type fieldError struct {
	path []string
	err  error
}

func (e *fieldError) Error() string {
	return fmt.Sprintf("field %s: %v", nodeconfig.Field(e.path), e.err)
}

func (e *fieldError) Unwrap() error { return e.err }

// within is an error with the field in which it is.
func within(k string, err error) error {
	if f := (*fieldError)(nil); errors.As(err, &f) {
		return &fieldError{append([]string{k}, f.path...), f.err}
	}
	return &fieldError{[]string{k}, err}
}
