package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

type jsonFormat struct{}

// parse refuses what nodeconfig does: members that stand twice, and too many levels.
func (jsonFormat) parse(raw []byte) (any, error) {
	v, err := nodeconfig.Decode(raw)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, fmt.Errorf("no JSON from byte %d on", syntax.Offset)
	}
	return v, err
}

// span is a value in a text: that of a member with its key, or an element.
type span struct {
	key               string
	begin, start, end int // begin of the key, start and end of the value
}

// inside lists the members or elements of the container that begins at offset.
func inside(raw []byte, offset int) (list []span, err error) {
	d := json.NewDecoder(bytes.NewReader(raw[offset:]))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	for d.More() {
		var s span
		if t == json.Delim('{') {
			before := int(d.InputOffset()) + offset
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			s.key, _ = key.(string)
			s.begin = before + bytes.IndexByte(raw[before:], '"')
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		s.end = int(d.InputOffset()) + offset
		s.start = s.end - len(v)
		if t == json.Delim('[') {
			s.begin = s.start
		}
		list = append(list, s)
	}
	return list, nil
}

func (jsonFormat) edit(raw []byte, at []string, identity, id string, to map[string]any) ([]byte, error) {
	start := len(raw) - len(bytes.TrimLeft(raw, " \t\r\n"))
	whole := span{start: start, end: len(bytes.TrimRight(raw, " \t\r\n"))}
	for _, step := range at {
		list, err := inside(raw, whole.start)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(s span) bool { return s.key == step })
		if i < 0 {
			return nil, io.ErrUnexpectedEOF
		}
		whole = list[i]
	}
	list, err := inside(raw, whole.start)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(s span) bool {
		if identity == "" {
			return s.key == id
		}
		var m map[string]any
		return json.Unmarshal(raw[s.start:s.end], &m) == nil && m[identity] == id
	})
	switch {
	case to == nil && i < 0:
		return raw, nil
	case to == nil:
		return cut(raw, whole, list, i), nil
	case i >= 0:
		s := list[i]
		text, err := written(raw[s.start:s.end], to)
		if err != nil {
			return nil, err
		}
		return splice(raw, s.start, s.end, indented(text, raw, s.begin, bytes.ContainsRune(raw[s.start:s.end], '\n') || len(list) == 1)), nil
	}
	text, err := written(nil, to)
	if err != nil {
		return nil, err
	}
	key := ""
	if identity == "" {
		quoted, err := json.Marshal(id)
		if err != nil {
			return nil, err
		}
		key = string(quoted) + ": "
	}
	if len(list) > 0 {
		last := list[len(list)-1]
		between := ", "
		if lead := lineLead(raw, last.begin); lead != nil {
			between = ",\n" + string(lead)
		}
		return splice(raw, last.end, last.end, append([]byte(between+key), indented(text, raw, last.begin, strings.Contains(between, "\n"))...)), nil
	}
	outer := string(indentOf(raw, whole.start))
	unit := unitOf(raw)
	inner := "\n" + outer + unit
	return splice(raw, whole.start+1, whole.end-1, []byte(inner+key+string(indentWith(text, outer+unit, unit))+"\n"+outer)), nil
}

// cut removes an element with its comma.
func cut(raw []byte, whole span, list []span, i int) []byte {
	switch {
	case len(list) == 1:
		return splice(raw, whole.start+1, whole.end-1, nil)
	case i > 0:
		return splice(raw, list[i-1].end, list[i].end, nil)
	}
	return splice(raw, list[0].begin, list[1].begin, nil)
}

func splice(raw []byte, from, to int, with []byte) []byte {
	return slices.Concat(raw[:from], with, raw[to:])
}

// written is a value in compact form, with the members of an object in the order that they
// have in old, and numbers spelled as there where they are the same.
func written(old json.RawMessage, v any) (json.RawMessage, error) {
	if len(old) > 0 {
		if was, err := nodeconfig.Decode(old); err == nil && same(was, v) {
			return old, nil
		}
	}
	m, is := v.(map[string]any)
	if !is {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return bytes.TrimSpace(b.Bytes()), err
	}
	var order []string
	before := map[string]json.RawMessage{}
	if list, err := inside(old, 0); err == nil && len(old) > 0 && old[0] == '{' {
		for _, s := range list {
			if _, kept := m[s.key]; kept {
				order = append(order, s.key)
			}
			before[s.key] = old[s.start:s.end]
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if _, there := before[k]; !there {
			order = append(order, k)
		}
	}
	var b bytes.Buffer
	for i, k := range order {
		b.WriteByte("{,"[min(i, 1)])
		key, err := written(nil, k)
		if err != nil {
			return nil, err
		}
		value, err := written(before[k], m[k])
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(order) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// lineLead is the white space before a place in its line, nil if anything else is there.
func lineLead(raw []byte, at int) []byte {
	line := raw[bytes.LastIndexByte(raw[:at], '\n')+1 : at]
	if len(bytes.TrimSpace(line)) > 0 || bytes.LastIndexByte(raw[:at], '\n') < 0 {
		return nil
	}
	return line
}

// indentOf is the indentation of the line of a place.
func indentOf(raw []byte, at int) []byte {
	line := raw[bytes.LastIndexByte(raw[:at], '\n')+1 : at]
	return line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
}

// unitOf is the indentation of a document's first member.
func unitOf(raw []byte) string {
	if i := bytes.IndexByte(raw, '\n'); i >= 0 {
		rest := raw[i+1:]
		if unit := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))]; len(unit) > 0 {
			return string(unit)
		}
	}
	return "  "
}

// indented writes a compact value as the file does at a place: over several lines or in one.
func indented(text, raw []byte, at int, lines bool) []byte {
	if !lines {
		return text
	}
	return indentWith(text, string(indentOf(raw, at)), unitOf(raw))
}

func indentWith(text []byte, prefix, unit string) []byte {
	var b bytes.Buffer
	if json.Indent(&b, text, prefix, unit) != nil {
		return text
	}
	return b.Bytes()
}
