package kea

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// defaultsJSON is what Kea 2.2 adds to a configuration, by the member that an object stands
// in: the answer of config-get after an empty configuration, and to one with a part of each.
//
//go:embed defaults.json
var defaultsJSON []byte

var defaults = func() (out map[string]map[string]any) {
	d := json.NewDecoder(bytes.NewReader(defaultsJSON))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		panic("kea: the embedded defaults: " + err.Error())
	}
	return out
}()

// inherited are values that Kea writes into each network and subnet, from what it is in.
var inherited = []string{"calculate-tee-times", "store-extended-info", "t1-percent", "t2-percent", "valid-lifetime"}

// Normalize implements nodesdk.Driver: without what Kea adds by itself.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	m, err := base.Object(it.Config)
	if err != nil {
		return it
	}
	raw, err := json.Marshal(d.form(m))
	if err != nil {
		return it
	}
	it.Config = raw
	return it
}

// normal is an object that stands in a member, in one that has the values.
func normal(in string, m, parent map[string]any) map[string]any {
	out := maps.Clone(m)
	if text, is := out["comment"].(string); is { // as Kea keeps it
		context, _ := out["user-context"].(map[string]any)
		context = maps.Clone(context)
		if context == nil {
			context = map[string]any{}
		}
		context["comment"] = text
		out["user-context"] = context
		delete(out, "comment")
	}
	values := map[string]any{}
	for _, name := range inherited {
		if values[name] = parent[name]; parent == nil {
			values[name] = defaults[""][name]
		}
		v, there := m[name]
		if there && parent != nil && same(v, parent[name]) {
			delete(out, name)
		}
		if there {
			values[name] = v
		}
	}
	for _, name := range []string{"min-valid-lifetime", "max-valid-lifetime"} {
		if v, there := m[name]; there && same(v, values["valid-lifetime"]) {
			delete(out, name)
		}
	}
	for name, v := range out { // order-free: each by itself
		if name == "user-context" { // which is not Kea's
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			out[name] = normal(name, v, values)
			if len(out[name].(map[string]any)) == 0 && defaults[name] != nil {
				delete(out, name)
			}
		case []any:
			list := make([]any, len(v))
			for i, e := range v {
				if list[i] = e; isObject(e) {
					list[i] = normal(name, e.(map[string]any), values)
				}
			}
			out[name] = list
		}
	}
	if s, is := out["pool"].(string); is {
		out["pool"] = strings.ReplaceAll(s, " ", "")
	}
	for name, v := range defaults[in] { // order-free: each by itself
		if have, there := out[name]; there && same(have, v) {
			delete(out, name)
		}
	}
	if i, is := out["interfaces-config"].(map[string]any); is && in == "" {
		// Where the section is missing Kea detects no interfaces again.
		if list, _ := i["interfaces"].([]any); len(list) == 0 && i["re-detect"] == false {
			delete(out, "interfaces-config")
		}
	}
	return out
}

// completed gives the sections that a document has what normal took away of them: Kea demands some of
// its defaults, such as enable-updates of dhcp-ddns, where their section has anything else.
func completed(m map[string]any) map[string]any {
	for name, v := range m { // order-free: each by itself
		if section, is := v.(map[string]any); is && defaults[name] != nil {
			whole := maps.Clone(defaults[name])
			maps.Copy(whole, section)
			m[name] = whole
		}
	}
	return m
}

func isObject(v any) bool { _, is := v.(map[string]any); return is }

// same compares values; numbers by what they are.
func same(a, b any) bool {
	x, isX := a.(json.Number)
	y, isY := b.(json.Number)
	if isX && isY {
		f, errF := x.Float64()
		g, errG := y.Float64()
		return errF == nil && errG == nil && f == g
	}
	return reflect.DeepEqual(a, b)
}

// written is a command as Kea writes it to itself, by which it counts columns in its errors,
// with the path of the value that begins at each.
type written struct {
	text strings.Builder
	at   map[int]string
}

func (w *written) value(path string, v any) {
	w.at[w.text.Len()] = path
	switch v := v.(type) {
	case map[string]any:
		w.text.WriteString("{ ")
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				w.text.WriteString(", ")
			}
			w.text.WriteString(quoted(name) + ": ")
			w.value(strings.TrimPrefix(path+"/"+name, "/"), v[name])
		}
		w.text.WriteString(" }")
	case []any:
		w.text.WriteString("[ ")
		for i, e := range v {
			if i > 0 {
				w.text.WriteString(", ")
			}
			w.value(fmt.Sprintf("%s/%d", path, i), e)
		}
		w.text.WriteString(" ]")
	case string:
		w.text.WriteString(quoted(v))
	default:
		fmt.Fprint(&w.text, v)
	}
}

// quoted is a text as Kea writes it, byte by byte.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteString("\\" + string(c))
		case strings.IndexByte("\b\f\n\r\t", c) >= 0:
			b.WriteString(`\?`) // one letter, whichever
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// fieldAt is the path within the configuration of what Kea found at a column.
func fieldAt(arguments map[string]any, column int) string {
	w := &written{at: map[int]string{}}
	w.value("", map[string]any{"arguments": arguments})
	path, _ := strings.CutPrefix(w.at[column], "arguments/"+root)
	return strings.TrimPrefix(path, "/")
}
