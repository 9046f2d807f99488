package strictyaml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
)

func words(ps []Problem) string {
	var out []string
	for _, p := range Sort(ps) {
		out = append(out, p.String())
	}
	return strings.Join(out, "\n")
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"byte order mark":   {"\ufeffa: 1\n", "f:1:1: the text is not UTF-8: expected UTF-8 without byte order mark"},
		"latin-1":           {"a: x\nb: \xe4\n", "f:2:4: the text is not UTF-8: expected UTF-8 without byte order mark"},
		"too large":         {strings.Repeat("#", MaxBytes+1), "f: the file has 8388609 bytes: expected at most 8388608"},
		"a scalar":          {"hello\n", "f:1:1: the file contains text: expected a mapping"},
		"a second document": {"a: 1\n---\nb: 1\n", "f:2:1: a second document starts here: expected exactly one"},
		"not a number":      {"a: .nan\n", "f:1:4: a number is not supported here: expected text, a number, true or false"},
		"a huge number":     {"a: 99999999999999999999\n", "f:1:4: 99999999999999999999 is no plain number: expected a whole number below 2^53"},
		"binary":            {"a: !!binary aGVsbG8=\n", "f:1:4: a value of type !!binary is not supported here: expected text, a number, true or false"},
		"key of null":       {"~: 1\n", "f:1:1: the key is empty: expected text, in quotes if need be"},
		"key of number":     {"1: 1\n", "f:1:1: the key is a number: expected text, in quotes if need be"},
		"key twice":         {"a: 1\n\"a\": 2\n", `f:2:1: key "a" is set twice: expected once; it is first set at f:1:1`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, ps := Parse("f", []byte(tc.in))
			if got := words(ps); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Nesting and aliases cost no more than their bytes.
func TestParseBoundsItsWork(t *testing.T) {
	bomb := "a0: &a0 [x, x]\n"
	for i := range 60 {
		n := string(rune('a'+i%26)) + strings.Repeat("x", i)
		bomb += n + ": &" + n + " [*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]\n"
	}
	for name, in := range map[string]string{
		"lists":    "a: " + strings.Repeat("[", 200_000),
		"mappings": strings.Repeat("{a: ", 200_000),
		"blocks":   "a:\n" + strings.Repeat("- ", 200_000) + "x\n",
		"aliases":  bomb,
	} {
		t.Run(name, func(t *testing.T) {
			if _, ps := Parse("f", []byte(in)); len(ps) == 0 {
				t.Error("it was taken")
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	doc, ps := Parse("f", []byte("# c\n{\"a\": \"1\", 'b': [true, 2, 1.5, null, 2026-01-01], c: 0644, \"1\": yes}\n"))
	if len(ps) != 0 {
		t.Fatal(words(ps))
	}
	var got map[string]any
	testkit.Must(t, doc.Decode(&got))
	want := map[string]any{"a": "1", "b": []any{true, 2.0, 1.5, nil, "2026-01-01"}, "c": "0644", "1": "yes"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
	if !doc.Has("a") || doc.Has("z") {
		t.Error("Has is wrong")
	}
}

func TestAtFindsThePlace(t *testing.T) {
	doc, ps := Parse("f", []byte("a:\n  b:\n    - x\n    - {c: 1}\nd: e\n"))
	if len(ps) != 0 {
		t.Fatal(words(ps))
	}
	tests := []struct {
		path []string
		want string
	}{
		{nil, "f:1:1: m"},
		{[]string{"a"}, "f:1:1: m"},
		{[]string{"a", "b"}, "f:2:3: m"},
		{[]string{"a", "b", "0"}, "f:3:7: m"},
		{[]string{"a", "b", "1"}, "f:4:7: m"},
		{[]string{"a", "b", "1", "c"}, "f:4:11: m"},
		{[]string{"a", "b", "9", "c"}, "f:2:3: m"},
		{[]string{"a", "gone"}, "f:1:1: m"},
		{[]string{"d"}, "f:5:4: m"},
		{[]string{"d", "e"}, "f:5:4: m"},
	}
	for _, tc := range tests {
		if got := doc.At(tc.path, "m").String(); got != tc.want {
			t.Errorf("At(%v) = %s, want %s", tc.path, got, tc.want)
		}
	}
	if got := doc.AtKey([]string{"d"}, "m").String(); got != "f:5:1: m" {
		t.Errorf("AtKey(d) = %s", got)
	}
}

func TestDecodeIsStrictAboutKeysAndHoles(t *testing.T) {
	var into struct {
		A int `json:"a"`
	}
	doc, _ := Parse("f", []byte("a: 1\nb: 2\n"))
	if err := doc.Decode(&into); err == nil {
		t.Error("an unknown key was decoded")
	}
	if err := doc.DecodeKnown(&into); err != nil || into.A != 1 {
		t.Errorf("a = %d, error %v", into.A, err)
	}
	doc, _ = Parse("f", []byte("a: *x\n"))
	if doc != nil && doc.DecodeKnown(&into) == nil {
		t.Error("a document with a hole was decoded")
	}
}

func TestSortDropsRepeats(t *testing.T) {
	a, b := Problem{File: "f", Line: 2, Column: 1, Message: "x"}, Problem{File: "f", Line: 1, Column: 9, Message: "y", IsWarning: true}
	if got, want := words([]Problem{a, b, a}), "f:1:9: warning: y\nf:2:1: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !Fatal([]Problem{b, a}) || Fatal([]Problem{b}) {
		t.Error("Fatal is wrong")
	}
}

func TestCheckFindsEveryProblem(t *testing.T) {
	s := MustSchema([]byte(`{"type":"object","additionalProperties":false,"required":["n"],"properties":{
		"n":{"type":"integer","minimum":1,"maximum":5},
		"e":{"enum":["x","y"]},
		"t":{"type":"string","maxLength":3},
		"l":{"type":"array","items":{"$ref":"#/$defs/d"}},
		"k":{"const":"K"}},
		"$defs":{"d":{"description":"a day","type":"string","pattern":"^[0-9]+d$"}}}`))
	doc, ps := Parse("f", []byte("e: z\nt: long text\nl: [1d, 1h, 2]\nk: k\nm: 1\n"))
	if len(ps) != 0 {
		t.Fatal(words(ps))
	}
	want := strings.Join([]string{
		`f:1:1: n is missing: expected a whole number`,
		`f:1:4: e is "z": expected one of x, y`,
		`f:2:4: t has 9 characters: expected at most 3`,
		`f:3:9: the item is "1h": expected a day`,
		`f:3:13: the item is 2: expected a day`,
		`f:4:4: k is "k": expected "K"`,
		`f:5:1: unknown key "m": expected e, k, l, n, t`,
	}, "\n")
	if got := words(doc.Check(s)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for in, want := range map[string]string{
		"n: 0": "f:1:4: n is 0: expected 1 or more", "n: 6": "f:1:4: n is 6: expected 5 or less", "n: 1.5": "f:1:4: n is 1.5: expected a whole number",
	} {
		doc, _ := Parse("f", []byte(in))
		if got := words(doc.Check(s)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// A key that was mistyped is one finding: what follows from it is none.
func TestMistypedKeysHaveNoConsequences(t *testing.T) {
	s := MustSchema([]byte(`{"type": "object", "additionalProperties": false, "required": ["channels"], "properties": {
		"channels": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": false, "required": ["policy"],
			"properties": {"policy": {"type": "string"}, "window": {"type": "integer"}}}},
		"hosts": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}}}}}`))
	for in, want := range map[string]string{
		"chanels:\n  stable: {polcy: a, window: x}\n": "f:1:1: unknown key \"chanels\"; did you mean channels?\n" +
			"f:2:12: unknown key \"polcy\"; did you mean policy?\nf:2:30: window is \"x\": expected a whole number",
		"channels: {}\nhosts:\n  - {nam: a}\n  - {naem: b}\n": "f:3:6: unknown key \"nam\"; did you mean name?\nf:4:6: unknown key \"naem\"; did you mean name?",
		"channels: {}\nchannel: {}\n":                         `f:2:1: unknown key "channel": expected channels, hosts`,
	} {
		doc, ps := Parse("f", []byte(in))
		if doc == nil || len(ps) > 0 {
			t.Fatalf("%q: %v", in, ps)
		}
		if got := words(doc.Check(s)); got != want {
			t.Errorf("%q\ngot  %s\nwant %s", in, got, want)
		}
	}
}
