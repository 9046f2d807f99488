package devices

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// drawn is any value of the normal form.
func drawn(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{nil, true, false, "", "null", "yes", "NO", "22:30:00", "2024-05-01", "=", "<<", "~", "0x1F", "0o17", "017", "1_000", ".inf", ".NaN", "1e3", "+5", " a ", "a: b", "#", "- x", "!secret x", "é\n\tx", "\u2028", "&a", "*a"}),
		rapid.Map(rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})`), func(s string) any { return json.Number(strings.ReplaceAll(s, "-0", "0")) }).Filter(func(v any) bool { n := string(v.(json.Number)); return n == "0" || n[0] != '0' }),
		rapid.Map(rapid.SampledFrom([]string{"1.0", "-0.0", "0.1", "1e400", "1e-9", "-2.5", "1E99999999999999999999"}), func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Custom(func(t *rapid.T) any {
			name := rapid.SampledFrom([]string{"!secret", "!date", "!float", "!map", "!", "!a b", "!!x", "!x/y.z"}).Draw(t, "type")
			return map[string]any{name: rapid.SampledFrom([]any{"x", "", "5", "nan", json.Number("5"), nil, []any{}, map[string]any{}, map[string]any{"!x": "y"}}).Draw(t, "below")}
		}),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(drawn(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "yes", "", "5", "null", "<<", "!x", "a b"}), drawn(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	return rapid.OneOf(kinds...)
}

// TestEditedTextKeepsEveryValue: a definition that is written for a person and read again without a
// change is the same, kind by kind.
func TestEditedTextKeepsEveryValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "yes", "!c", "5"}), drawn(2), 0, 4).Draw(t, "config")
		raw := testkit.Value(nodeconfig.Canonical(testkit.Value(json.Marshal(m))(t)))(t)
		d := nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "n", Config: raw}}}
		text := testkit.Value(writeDefinition(nodeconfig.Flow, d))(t)
		again := testkit.Value(readDefinition(nodeconfig.Flow, "f", []byte(text)))(t)
		if len(again.Legs[0].Config) == 0 {
			again.Legs[0].Config = json.RawMessage("{}")
		}
		if got := testkit.Value(nodeconfig.Canonical(again.Legs[0].Config))(t); string(got) != string(raw) {
			t.Fatalf("%s is written as\n%s\nand read as %s", raw, text, got)
		}
	})
}

// TestSetAndUnset: a value is set as it is written, a field is taken out by its own flag, and what is
// no object is not replaced by one.
func TestSetAndUnset(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		was        string
		set, unset []string
		want       string // of the config, or a part of the error
	}{
		{`{"a":1}`, []string{"b=null"}, nil, `{"a":1,"b":null}`},
		{`{"a":1,"b":null}`, nil, []string{"a"}, `{"b":null}`},
		{`{"a":9007199254740993,"b":1.0,"c":null}`, []string{"d=x"}, nil, `{"a":9007199254740993,"b":1.0,"c":null,"d":"x"}`},
		{`{}`, []string{"a=1.0", "b=18446744073709551617", `c={"!secret":"bob"}`, "d=", "e={}", "f=[]"}, nil, `{"a":1.0,"b":18446744073709551617,"c":{"!secret":"bob"},"d":"","e":{},"f":[]}`},
		{`{"p":{"g":null,"h":null}}`, []string{"p.g.e=x"}, nil, `{"p":{"g":{"e":"x"},"h":null}}`},
		{`{"a":{"b":1}}`, nil, []string{"a.b"}, `{"a":{}}`},
		{`{"a":5}`, []string{"a.b=1"}, nil, "a is no object: set it as a whole"},
		{`{"a":{"!secret":"x"}}`, []string{"a.b=1"}, nil, "a is no object"},
		{`{"a":{"$secret":"x"}}`, []string{"a.b=1"}, nil, "a is no object"},
		{`{"a":1}`, nil, []string{"b"}, "there is no field b"},
		{`{"a":1}`, nil, []string{"b.c"}, "there is no field b"},
	} {
		d, err := (&objects{kind: nodeconfig.Flow}).fields(&input{set: tc.set, unset: tc.unset}, nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "n", Config: json.RawMessage(tc.was)}}})
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s with %v, without %v: %v, want %q", tc.was, tc.set, tc.unset, err, tc.want)
			}
			continue
		}
		if got := testkit.Value(nodeconfig.Canonical(d.Legs[0].Config))(t); string(got) != tc.want {
			t.Errorf("%s with %v, without %v is %s, want %s", tc.was, tc.set, tc.unset, got, tc.want)
		}
	}
}
