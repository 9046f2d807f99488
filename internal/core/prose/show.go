package prose

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NewLine replaces the end of a line where text has to fit on one.
const NewLine = " ⏎ "

// Line is s on one line of valid UTF-8: control characters (C0, DEL, C1), separators of
// lines and what turns the direction of writing become spaces, what has no width goes.
// Line(Line(s)) is Line(s).
func Line(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch i += size; {
		case r == '\r' && i < len(s) && s[i] == '\n': // one end of a line
		case r == '\n':
			b.WriteString(NewLine)
		case r == utf8.RuneError && size == 1:
			b.WriteRune(utf8.RuneError)
		case r < ' ' || r >= 0x7f && r < 0xa0 || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			b.WriteByte(' ')
		case !unicode.In(r, unicode.Cf):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Lines is Line that keeps the ends of lines and tabs.
func Lines(s string) string {
	if plain(s) {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		parts := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for k := range parts {
			parts[k] = Line(parts[k])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// plain reports whether s is printable ASCII, as nearly all text is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Unsafe reports whether a rune does to a terminal what Line prevents.
func Unsafe(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf)
}

// JSON returns a JSON text with every string of it, keys too, put through Line. All else
// stays byte for byte; raw itself is returned when nothing changes, or when it is no JSON.
func JSON(raw []byte) []byte {
	if !suspicious(raw) {
		return raw
	}
	var out []byte
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			out = append(out, raw[i])
			i++
			continue
		}
		end := closing(raw, i)
		if end < 0 {
			return raw
		}
		quoted := raw[i:end]
		if suspicious(quoted) {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				return raw
			}
			if clean := Line(s); clean != s {
				quoted = quote(clean)
			}
		}
		out, i = append(out, quoted...), end
	}
	return out
}

// suspicious reports whether a part of a JSON text may spell what Line changes.
func suspicious(raw []byte) bool {
	return bytes.IndexByte(raw, '\\') >= 0 || bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x7f })
}

// closing is the index after the string that begins at i, or -1.
func closing(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Escaped spells what is Unsafe in the strings of a valid JSON text as \u escapes: it
// means the same, and is fit for a terminal.
func Escaped(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x7f && Unsafe(r) }) {
		return raw
	}
	var out []byte
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		if r >= 0x7f && Unsafe(r) {
			out = append(out, escape(r)...)
		} else {
			out = append(out, raw[:size]...)
		}
		raw = raw[size:]
	}
	return out
}

func escape(r rune) string {
	const digits = "0123456789abcdef"
	unit := func(u uint16) string {
		return `\u` + string([]byte{digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15]})
	}
	if r > 0xffff {
		r -= 0x10000
		return unit(uint16(0xd800+r>>10)) + unit(uint16(0xdc00+r&0x3ff))
	}
	return unit(uint16(r))
}
