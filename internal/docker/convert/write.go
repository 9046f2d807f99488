package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// set writes a field; an empty value is a field that is not set.
func set(f diff.Form, field, value string) {
	if value != "" {
		f[field] = value
	}
}

// text is the text of an address or a prefix; empty if it is none.
func text[T interface {
	IsValid() bool
	String() string
}](v T) string {
	if !v.IsValid() {
		return ""
	}
	return v.String()
}

func setInt[N ~int | ~int64 | ~uint16 | ~uint32](f diff.Form, field string, n N) {
	if n != 0 {
		f[field] = strconv.FormatInt(int64(n), 10)
	}
}

func setBool(f diff.Form, field string, b bool) {
	if b {
		f[field] = "true"
	}
}

// list writes an ordered list as one value.
func list(f diff.Form, field string, values []string) {
	if len(values) > 0 {
		f[field] = compact(values)
	}
}

// each writes a set, a field for each entry.
func each(f diff.Form, field string, values []string) {
	for _, v := range values {
		f[field+"/"+v] = "set"
	}
}

// pairs writes a map, a field for each key. An empty value is a value.
func pairs(f diff.Form, field string, values map[string]string, in *Inputs) {
	for k, v := range values {
		f[field+"/"+k] = in.option(k, v)
	}
}

// plain writes a value that may be anything. An empty one is not mistaken for
// none, nor any for a digest.
func plain(v string) string {
	if v == "" || strings.HasPrefix(v, `"`) || strings.HasPrefix(v, "hmac:") {
		return strconv.Quote(v)
	}
	return v
}

// compact is the JSON of a value of which JSON can be made.
func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("form: " + err.Error()) // of strings, numbers and maps of them only
	}
	return string(b)
}

func sorted(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

// merged is the map with other on top.
func merged(under, over map[string]string) map[string]string {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

// environ reads KEY=value lines; the last of one name holds.
func environ(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		k, v, _ := strings.Cut(line, "=")
		out[k] = v
	}
	return out
}
