package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Shortest parts of a value that are taken out by themselves: less says little, and
// would take much else out of what people read.
const (
	shortestLine    = 6 // bytes of one line of several
	shortestEncoded = 8 // characters of an encoding
	foldedAt        = 76
)

// Clean takes a secret's value out of a text that leaves the host: the value, each
// line of one that has several, and both as programs encode them: base64 wherever
// in a longer text the value stood, hexadecimal, percent and JSON.
func Clean(text, name string, value []byte) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return text
	}
	parts := [][]byte{value}
	for line := range bytes.Lines(value) {
		if line = bytes.TrimSpace(line); len(line) >= shortestLine {
			parts = append(parts, line)
		}
	}
	out := []string{string(value)}
	for _, p := range parts {
		out = append(out, string(p))
		for _, f := range forms(p) {
			if len(f) >= shortestEncoded {
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // none eats into a longer one
	for _, f := range slices.Compact(out) {
		text = strings.ReplaceAll(text, f, "[secret "+name+"]")
	}
	return text
}

// forms lists encodings of a value.
func forms(v []byte) []string {
	x := hex.EncodeToString(v)
	escaped := url.QueryEscape(string(v))
	out := []string{x, strings.ToUpper(x), escaped, strings.ReplaceAll(escaped, "+", "%20"), url.PathEscape(string(v))}
	for _, html := range []bool{true, false} { // many programs leave <, > and & as they are
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(string(v)) == nil {
			quoted := bytes.TrimSpace(b.Bytes())
			out = append(out, string(quoted[1:len(quoted)-1]))
		}
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for _, end := range []string{"", "\n"} {
			all := enc.EncodeToString(append(slices.Clone(v), end...))
			out = append(out, all, strings.TrimRight(all, "="))
			for chunk := range slices.Chunk([]byte(all), foldedAt) { // as it is printed
				out = append(out, string(chunk))
			}
		}
		for skip := range min(3, len(v)) { // in a longer text, without what its neighbours share
			whole := v[skip:]
			out = append(out, enc.EncodeToString(whole[:len(whole)/3*3]))
		}
	}
	return out
}
