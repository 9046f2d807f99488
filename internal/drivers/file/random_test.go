package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// drawnText draws texts of a format in all the ways in which one can be written.
type drawnText struct {
	*rapid.T
	eol  string
	json bool
}

func (d *drawnText) one(words ...string) string { return rapid.SampledFrom(words).Draw(d.T, "word") }

// chance is true once in n times.
func (d *drawnText) chance(n int) bool { return rapid.IntRange(1, n).Draw(d.T, "chance") == 1 }

func (d *drawnText) key() string {
	k := d.one("a", "b-c", "d.e", "é", "1", "!date", "x y", "")
	if k == "" && !d.json {
		k = "z"
	}
	switch {
	case d.json || strings.Trim(k, "ab-c1z") != "" || k == "":
		return `"` + k + `"`
	case d.chance(6):
		return "'" + k + "'"
	}
	return k
}

// keys are some that differ by what they stand for.
func (d *drawnText) keys() (list []string) {
	seen := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(d.T, "members") {
		k := d.key()
		if name := strings.Trim(k, `"'`); !seen[name] {
			seen[name] = true
			list = append(list, k)
		}
	}
	return list
}

func (d *drawnText) scalar() string {
	if d.json {
		return d.one("1", "1.50", "-0.0", "1e3", "null", "true", `"a"`, `"\u00e9 \/ // no \" } ]"`, `""`, "12345678901234567890123", `"\ud800"`, `"2024-05-01"`)
	}
	return d.one("1", "0x1F", "1_000", "1.50", "-0.0", "1e3", "1_0e-3", "+inf", "nan", "true", `"a"`, `"\u00e9 # no \" } ]"`, "'C:\\'", "''", `""`, "18446744073709551616", "2024-05-01", "07:32:00", "1979-05-27 07:32:00Z",
		"1979-05-27T07:32:00.5", `"""`+d.eol+`a "" b"""`, "'''x'y'''", "-17", "0o755", `"2024-05-01"`)
}

// gap stands between two items, and may have comments and line breaks.
func (d *drawnText) gap(lines bool) string {
	if !lines {
		return d.one("", " ", "  ")
	}
	comment := d.one("", " # c, [ {")
	if d.json {
		comment = d.one("", " // c, [ {", " /* b, */")
	}
	return comment + d.eol + d.one("", "  ", "\t") + d.one("", d.eol+"  ")
}

func (d *drawnText) value(depth int) string {
	kind := rapid.IntRange(0, 5).Draw(d.T, "kind")
	if depth == 0 || kind < 3 {
		return d.scalar()
	}
	lines := d.chance(3)
	var items []string
	brackets := "[]"
	if kind == 3 {
		brackets = "{}"
		lines = lines && d.json
		for _, k := range d.keys() {
			items = append(items, k+d.one("", " ")+map[bool]string{true: ":", false: "="}[d.json]+d.one("", " ")+d.value(depth-1))
		}
	} else {
		for range rapid.IntRange(0, 4).Draw(d.T, "elements") {
			items = append(items, d.value(depth-1))
		}
	}
	text := brackets[:1]
	for i, it := range items {
		text += d.gap(lines) + it
		if i < len(items)-1 || lines && d.chance(3) {
			text += d.one("", " ") + ","
		}
	}
	return text + d.gap(lines) + brackets[1:]
}

func (d *drawnText) comment() string {
	return d.one("", "", "# about it"+d.eol, d.eol, "  # more"+d.eol+"# still"+d.eol, d.eol+"# apart"+d.eol+d.eol)
}

// table draws the lines of a table of TOML with those below it.
func (d *drawnText) table(path []string, depth int) string {
	var keys, sections string
	indent := d.one("", "  ")
	for _, k := range d.keys() {
		below := append(slices.Clone(path), k)
		header := strings.Join(below, ".")
		end := d.one("", " # side") + d.eol
		switch kind := rapid.IntRange(0, 7).Draw(d.T, "as"); {
		case depth > 0 && kind == 0:
			sections += d.comment() + indent + "[" + header + "]" + end + d.table(below, depth-1)
		case depth > 0 && kind == 1:
			for range rapid.IntRange(1, 3).Draw(d.T, "elements") {
				sections += d.comment() + indent + "[[" + header + "]]" + end + d.table(below, depth-1)
			}
		case depth > 0 && kind == 2:
			sections += d.comment() + indent + "[" + header + ".sub]" + end + d.table(append(below, "sub"), depth-1)
		case kind == 3:
			keys += d.comment() + indent + k + ".p = " + d.value(1) + end + k + " . q.r = " + d.value(1) + end
		default:
			keys += d.comment() + indent + k + " = " + d.value(depth) + end
		}
	}
	return keys + sections + d.comment()
}

// otherThan draws a change of a value, at any depth and of any kind.
func (d *drawnText) otherThan(v any, depth int) any {
	fresh := func() any {
		return rapid.SampledFrom([]any{"new", "it's", "1\n2", true, json.Number("7"), json.Number("2.5"), []any{}, map[string]any{}, []any{"x", json.Number("1")}, map[string]any{"n": map[string]any{"m": "o"}},
			[]any{map[string]any{"k": json.Number("1")}, map[string]any{"k": json.Number("2.0")}}}).Draw(d.T, "fresh")
	}
	switch v := v.(type) {
	case map[string]any:
		if m, is := nodeconfig.RealMap(v); is && depth > 0 {
			v = m
			k := rapid.SampledFrom(append(slices.Sorted(maps.Keys(m)), "steady")).Draw(d.T, "member")
			old, there := m[k]
			switch {
			case there && d.chance(3):
				delete(v, k)
			case there:
				v[k] = d.otherThan(old, depth-1)
			default:
				v[k] = fresh()
			}
			return mapOf(v)
		}
	case []any:
		if depth > 0 && len(v) > 0 {
			i := rapid.IntRange(0, len(v)-1).Draw(d.T, "element")
			switch rapid.IntRange(0, 3).Draw(d.T, "change") {
			case 0:
				return slices.Delete(v, i, i+1)
			case 1:
				return slices.Insert(v, i, fresh())
			case 2:
				j := rapid.IntRange(0, len(v)-1).Draw(d.T, "other")
				v[i], v[j] = v[j], v[i]
				return v
			}
			v[i] = d.otherThan(v[i], depth-1)
			return v
		}
	}
	return fresh()
}

func mapOf(m map[string]any) any {
	if typedValue(m) {
		return map[string]any{"!map": m}
	}
	return m
}

// TestAnyText: in any text that a parser takes, any change of any object is made as asked, or
// refused, and an edit without a change changes no byte. Comments stay, but for those of what goes.
func TestAnyText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"toml", "json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				d := &drawnText{T: t, eol: rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol"), json: name == "json"}
				var text string
				if d.json {
					text = fmt.Sprintf(`{%s"o"%s:%s{`, d.gap(d.chance(2)), d.one("", " "), d.one("", " "))
					for i := range 3 {
						text += fmt.Sprintf(`%s"%c": %s,`, d.gap(d.chance(2)), 'a'+i, d.value(3))
					}
					text = strings.TrimSuffix(text, ",") + d.gap(d.chance(2)) + "}" + d.gap(d.chance(2)) + "}" + d.one("", d.eol)
				} else {
					text = d.comment() + d.one("", "top = 1"+d.eol) + "[o.a]" + d.eol + d.table([]string{"o", "a"}, 3) + "[o.b]" + d.eol + d.table([]string{"o", "b"}, 2) + "[z]" + d.one("", d.eol)
				}
				checkAnyText(t, d, name, d.one("", "", byteOrderMark)+text)
			})
		})
	}
}

func checkAnyText(t *rapid.T, d *drawnText, name, text string) {
	f := &Driver{o: Config{At: "o"}, at: []string{"o"}, format: formatNamed(name)}
	start, err := f.parsed("f", []byte(text))
	if err != nil {
		if d.json {
			t.Fatalf("%q cannot be read: %v", text, err)
		}
		t.Skip("it is no TOML")
	}
	id := rapid.SampledFrom([]string{"a", "b", "new"}).Draw(t, "id")
	was, is := start.objects[id].(map[string]any)
	if !is && start.objects[id] != nil {
		t.Skip("it is no object")
	}
	if is {
		if same, err := f.edited(start, id, copied(was).(map[string]any)); err != nil || !bytes.Equal(same, start.raw) {
			t.Fatalf("without a change %q is %q, %v", text, same, err)
		}
	}
	to, _ := copied(was).(map[string]any)
	if to == nil {
		to = map[string]any{}
	}
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		if next, is := d.otherThan(to, 4).(map[string]any); is {
			to = next
		}
	}
	if is && d.chance(6) {
		to = nil
	}
	asked, _ := copied(to).(map[string]any)
	next, err := f.edited(start, id, to)
	if err != nil {
		for _, words := range []string{"which this edit would lose", "TOML has no null", "integers of TOML have 64 bits"} {
			if strings.Contains(err.Error(), words) {
				return
			}
		}
		t.Fatalf("%q with %s as %v: %v", text, id, asked, err)
	}
	if strings.Contains(text, "\r\n") && strings.Contains(strings.ReplaceAll(string(next), "\r\n", ""), "\n") {
		t.Fatalf("%q has another line break: %q", text, next)
	}
	if strings.HasSuffix(text, "\n") != strings.HasSuffix(string(next), "\n") {
		t.Fatalf("%q has another end: %q", text, next)
	}
	if b := strings.Index(text, map[bool]string{true: `"b": `, false: "[o.b]"}[d.json]); asked != nil && id != "new" {
		if id == "a" && !strings.HasSuffix(string(next), text[b:]) || id == "b" && !strings.HasPrefix(string(next), text[:b]) {
			t.Fatalf("an edit of %s changed text of another object in %q: %q", id, text, next)
		}
	}
	if d.json {
		return
	}
	before, err := foreignTOML([]byte(text))
	if err != nil {
		return // its integers are too long for it, for one
	}
	after, err := foreignTOML(next)
	if err != nil {
		t.Fatalf("%q is not read any more: %v: %q", text, err, next)
	}
	want := spelled(replacedAt(before, place{at: []string{"o"}}, id, nil))
	if diff := cmp.Diff(want, spelled(replacedAt(after, place{at: []string{"o"}}, id, nil))); diff != "" {
		t.Fatalf("%q: something else changed: %s\n%q", text, diff, next)
	}
}

// FuzzText: whatever stands in a file, reading and editing it ends, an object that comes is there and
// nothing else changes, and an edit without a change changes no byte.
func FuzzText(f *testing.F) {
	for _, text := range []string{"[a]\nx = [1, {y.z = 2024-05-01}] # c\n[[b.l]]\nk = '''x'''\n", "a.b = 1\n", "x = 07:32:00\n[a]\n", "{\"a\": {\"x\": [1.0, null, // c\n]}}", "{\"a\": {\"x\": 1, \"x\": 2}, \"b\": {}}", "{}"} {
		f.Add(text, strings.HasPrefix(text, "{"))
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		d := &Driver{format: formatNamed("toml")}
		if isJSON {
			d.format = formatNamed("json")
		}
		start, err := d.parsed("f", []byte(text))
		if err != nil {
			return
		}
		for id, o := range start.objects {
			if m, is := o.(map[string]any); is {
				if same, err := d.edited(start, id, copied(m).(map[string]any)); err != nil || string(same) != text {
					t.Fatalf("without a change of %q, %q is %q, %v", id, text, same, err)
				}
			}
		}
		next, err := d.edited(start, "a new object", map[string]any{"x": json.Number("1")})
		if err != nil {
			t.Fatalf("%q gets no object: %v", text, err)
		}
		again, err := d.parsed("f", next)
		if err != nil || again.objects["a new object"] == nil {
			t.Fatalf("%q with an object is %q, %v", text, next, err)
		}
		if _, err := d.edited(again, "a new object", nil); err != nil {
			t.Fatalf("%q does not lose its object: %v", next, err)
		}
	})
}
