package file

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// yamlDraw writes random documents: each value in one of the ways that it can be written, with
// comments that are all different.
type yamlDraw struct {
	t        *rapid.T
	b        strings.Builder
	newline  string
	comments int
	unit     int
}

func (d *yamlDraw) chance(n int) bool { return rapid.IntRange(1, n).Draw(d.t, "chance") == 1 }

func (d *yamlDraw) note() string {
	if !d.chance(3) {
		return ""
	}
	d.comments++
	return fmt.Sprintf(" # %d", d.comments)
}

func (d *yamlDraw) line(indent int, s string) {
	d.b.WriteString(strings.Repeat(" ", indent) + s + d.note() + d.newline)
}

func (d *yamlDraw) between(indent int) {
	if d.chance(6) {
		d.b.WriteString(d.newline)
	}
	if d.chance(6) {
		d.comments++
		d.b.WriteString(strings.Repeat(" ", indent) + fmt.Sprintf("# above %d", d.comments) + d.newline)
	}
}

var drawnScalars = []string{"1", "-7", "0x1F", "1.50", "1e3", "true", "null", "~", "no", "22:30:00", "2024-05-01", "plain text", "a#b", "http://x:1/y", "'it''s'", `"q\t\u00e9"`, "!secret s", "!env 'X Y'", ".inf", "1_000", "é ü", "\"\"", "''", "!!str 5"}

func (d *yamlDraw) scalar() string { return rapid.SampledFrom(drawnScalars).Draw(d.t, "scalar") }

func (d *yamlDraw) flow(depth int) string {
	n := rapid.IntRange(0, 3).Draw(d.t, "n")
	open, close := "[", "]"
	if d.chance(2) {
		open, close = "{", "}"
	}
	var parts []string
	for i := range n {
		v := d.scalar()
		if depth > 0 && d.chance(3) {
			v = d.flow(depth - 1)
		}
		if open == "{" {
			v = fmt.Sprintf("f%d: %s", i, v)
		}
		parts = append(parts, v)
	}
	space := rapid.SampledFrom([]string{"", " "}).Draw(d.t, "space")
	return open + space + strings.Join(parts, ","+space+" ") + space + close
}

// value writes what comes after a key or a dash, with the rest of its lines.
func (d *yamlDraw) value(head string, indent, child, depth int) {
	switch kind := rapid.IntRange(0, 7).Draw(d.t, "kind"); {
	case kind <= 2 || depth == 0:
		d.line(indent, head+" "+d.scalar())
	case kind == 3:
		d.line(indent, head+" "+d.flow(1))
	case kind == 4:
		d.line(indent, head+" "+rapid.SampledFrom([]string{"|", "|-", ">", ">-"}).Draw(d.t, "block"))
		for range rapid.IntRange(1, 3).Draw(d.t, "lines") {
			d.b.WriteString(strings.Repeat(" ", child) + rapid.SampledFrom([]string{"some text", "# no comment", "x: y"}).Draw(d.t, "line") + d.newline)
		}
	case kind == 5:
		d.line(indent, head)
		d.list(child, depth-1)
	case kind == 6:
		d.line(indent, head)
		d.mapping(child, depth-1)
	default:
		d.line(indent, head)
	}
}

func (d *yamlDraw) mapping(indent, depth int) {
	for i := range rapid.IntRange(1, 4).Draw(d.t, "members") {
		d.between(indent)
		d.value(fmt.Sprintf("k%d:", i), indent, indent+d.unit, depth)
	}
}

func (d *yamlDraw) list(indent, depth int) {
	for range rapid.IntRange(1, 4).Draw(d.t, "elements") {
		d.between(indent)
		d.value("-", indent, indent+2, depth)
	}
}

func drawYAML(t *rapid.T) string {
	d := &yamlDraw{t: t, newline: "\n", unit: rapid.IntRange(2, 4).Draw(t, "unit")}
	if d.chance(4) {
		d.newline = "\r\n"
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "objects") {
		d.between(0)
		d.line(0, fmt.Sprintf("o%d:", i))
		d.mapping(d.unit, 3)
	}
	if last := "z: 1" + d.newline; d.chance(4) {
		return d.b.String() + strings.TrimSuffix(last, d.newline)
	}
	return d.b.String()
}

// otherYAML is another value than one, by what edits do.
func otherYAML(t *rapid.T, v any, depth int) any {
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
	fresh := []any{"new", "no", "a: b", "two\nlines\n", json.Number("5"), json.Number("2.5"), nil, false, []any{}, map[string]any{}, []any{"x", json.Number("1")}, map[string]any{"m": "n"}, map[string]any{"!env": "E"}}
	switch v := v.(type) {
	case map[string]any:
		if depth > 0 && (len(v) == 0 || pick(4) == 0) || len(v) == 1 && typedValue(v) {
			break
		}
		keys := slices.Sorted(maps.Keys(v))
		out := copied(v).(map[string]any)
		switch pick(3) {
		case 0:
			out["new"] = fresh[pick(len(fresh))]
		case 1:
			if len(keys) > 0 {
				delete(out, keys[pick(len(keys))])
			}
		default:
			if len(keys) > 0 {
				k := keys[pick(len(keys))]
				out[k] = otherYAML(t, v[k], depth+1)
			}
		}
		return out
	case []any:
		if len(v) == 0 || pick(4) == 0 {
			break
		}
		out := copied(v).([]any)
		switch i := pick(len(v)); pick(4) {
		case 0:
			return slices.Delete(out, i, i+1)
		case 1:
			return slices.Insert(out, i, fresh[pick(len(fresh))])
		case 2:
			j := pick(len(v))
			out[i], out[j] = out[j], out[i]
		default:
			out[i] = otherYAML(t, v[i], depth+1)
		}
		return out
	}
	return fresh[pick(len(fresh))]
}

// TestYAMLKeepsWhatStays: after any edit of any document the value is what was asked, also for
// another parser, an edit that changes nothing changes no byte, the objects that were not edited
// have the same lines, and an edit that adds a member and one that takes it away again leave the
// same bytes.
func TestYAMLKeepsWhatStays(t *testing.T) {
	_, missing := foreignYAML([]byte("a: 1\n"))
	rapid.Check(t, func(t *rapid.T) {
		text := drawYAML(t)
		d := &Driver{format: yamlFormat{}}
		c, err := d.parsed("f", []byte(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		id := "o0"
		was, is := c.objects[id].(map[string]any)
		if !is {
			t.Fatalf("%v:\n%s", c.objects[id], text)
		}
		if same, err := d.edited(c, id, copied(was).(map[string]any)); err != nil || string(same) != text {
			t.Fatalf("no change: %v\n%s\n%s", err, text, same)
		}
		to, _ := otherYAML(t, was, 0).(map[string]any)
		if lost(nil, was, to) != nil {
			return
		}
		next, err := d.edited(c, id, to)
		if err != nil {
			t.Fatalf("to %v: %v\n%s", to, err, text)
		}
		if missing == nil {
			got, err := foreignYAML(next)
			want := copied(c.doc).(map[string]any)
			want[id] = to
			if err != nil || !same(spelled(copied(want)), spelled(got)) {
				t.Fatalf("%v: read as %v and not %v\n%s\n%s", err, got, want, text, next)
			}
		}
		if _, rest, more := strings.Cut(text, "\no1:"); more && !strings.HasSuffix(string(next), rest) {
			t.Fatalf("to %v: other objects changed:\n%s\n%s", to, text, next)
		}
		added := copied(was).(map[string]any)
		added["added"] = map[string]any{"l": []any{"x"}}
		if len(was) == 0 {
			return
		}
		next, err = d.edited(c, id, added)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if c, err = d.parsed("f", next); err != nil {
			t.Fatal(err)
		}
		if back, err := d.edited(c, id, was); err != nil || string(back) != text {
			t.Fatalf("taken back: %v\n%q\n%q\n%q", err, text, next, back)
		}
	})
}
