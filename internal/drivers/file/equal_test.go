package file

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestNoTwoValuesAreOne: files that a program reads as different configurations have different
// objects, so that the one in the place of the other is drift.
func TestNoTwoValuesAreOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		as   []string // members of the object a, each another one
	}{
		{"f.yaml", []string{`80: x`, `"80": x`, `80.0: x`, `!!str 80.0: x`, `"!str 80": x`, `"!str": x`, `"!str ": x`, `0x50: {}`, `"0x50": x`}},
		{"f.yaml", []string{`true: x`, `"true": x`, `null: x`, `"null": x`, `"": x`, `~: {}`, `.nan: x`, `".nan": x`, `.inf: x`, `-.inf: x`}},
		{"f.yaml", []string{`k: 5`, `k: "5"`, `k: 5.0`, `k: ! 5x`, `k: !!binary 5aaa`, `k: !!float 5`, `k: !x 5`, `k: !x "5"`, `k: !x {}`, `k: !x [5]`, `k: !<!float> nan`, `k: .nan`, `k: {"!float": nan}`}},
		{"f.yaml", []string{`k: !map {x: 1}`, `k: {x: 1}`, `k: {"!map": {x: 1}}`, `k: !!map {x: 2}`, `k: !!omap [x: 1]`, `k: [x: 1]`, `k: !!set {x}`, `k: {x}`}},
		{"f.yaml", []string{`k: null`, `k: ""`, `k: {}`, `k: []`, `k: "null"`, `k: [null]`, `k: !x`, `j: null`}},
		{"f.yaml", []string{`k: !unreadable x`, `k: {"!unreadable": x}`, "? [k]\n  : x"}},
		{"f.yaml", []string{`k: 9007199254740993`, `k: 9007199254740992`, `k: 9007199254740993.0`, `k: 1e400`, `k: 1e401`, `k: -0.0`, `k: 0.0`, `k: 0`, `k: 022:1`, `k: 0.1`, `k: 0.10000000000000001`}},
		{"f.json", []string{`"k": 1`, `"k": 1.0`, `"k": "1"`, `"k": 1E400`, `"k": 1E401`, `"k": null`, `"k": true`, `"k": "true"`, `"k": -0.0`, `"k": 0.0`, `"k": 0`, `"k": 0.1`, `"k": 0.10000000000000001`}},
		{"f.json", []string{`"k": "\ufffd"`, `"k": "\\ud800"`, `"k": "\ud800"`, `"k": "\ud83d\ude00"`}},
		{"f.json", []string{`"!str 80": 1`, `"80": 1`, `"k": {"!date": "2024-05-01"}`, `"k": "2024-05-01"`, `"k": {"!map": {"!date": "2024-05-01"}}`, `"\ud800": 1`, `"\ufffd": 1`}},
		{"f.toml", []string{`k.j = 1`, `"k.j" = 1`, `"k/j" = 1`, `k."/j" = 1`, `k.j = 1.0`, `k."~1j" = 1`}},
		{"f.toml", []string{`k = 2024-05-01`, `k = "2024-05-01"`, `k = 2024-05-01T00:00:00`, `k = 2024-05-01T00:00:00Z`, `k = 2024-05-01T02:00:00+02:00`, `k = 00:00:00`, `k = "00:00:00"`, `"!date" = "2024-05-01"`, `k = {"!date" = "2024-05-01"}`}},
		{"f.toml", []string{`k = inf`, `k = -inf`, `k = nan`, `k = "nan"`, `k = 9223372036854775807`, `k = 9223372036854775808`, `k = 9223372036854775807.0`, `k = -0.0`, `k = 0.0`, `k = 0`, `k = []`, `k = {}`, `k = [[]]`, `k = [{}]`}},
		{"f.toml", []string{`k = [{d = 2024-05-01T10:00:00.1234567890123}]`, `k = [{d = 2024-05-01T10:00:00.1234567890124}]`, `k = [{d = "2024-05-01T10:00:00.1234567890124"}]`}},
	} {
		seen := map[string]string{}
		for _, members := range c.as {
			text := map[string]string{"f.yaml": "a:\n  " + members + "\n", "f.json": `{"a": {` + members + `}}`, "f.toml": "[a]\n" + members + "\n"}[c.name]
			s := testkit.Value(driver(t, c.name, text, Config{}).Snapshot(t.Context()))(t)
			form := testkit.Value(nodeconfig.Canonical(s.Items[0].Config))(t)
			if other, twice := seen[string(form)]; twice {
				t.Errorf("%s: %s and %s are both %s", c.name, other, members, form)
			}
			seen[string(form)] = members
		}
	}
}

// TestNumbersThatNameElements: a number and its text are two identities, in each format.
func TestNumbersThatNameElements(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][2]string{
		"f.yaml": {"- {id: 7, x: 1}\n", "- {id: \"7\", x: 1}\n"},
		"f.json": {`[{"id": 7, "x": 1}]`, `[{"id": "7", "x": 1}]`},
		"f.toml": {"[[l]]\nid = 7\nx = 1\n", "[[l]]\nid = \"7\"\nx = 1\n"},
	} {
		for i, want := range []string{`{"x":1}`, `{"id":"7","x":1}`} {
			o := Config{Identity: "id"}
			if name == "f.toml" {
				o.At = "l"
			}
			d := driver(t, name, texts[i], o)
			s := testkit.Value(d.Snapshot(t.Context()))(t)
			if it := d.Normalize(s.Items[0]); it.ID != "7" || string(it.Config) != want {
				t.Errorf("%s is %s %s", texts[i], it.ID, it.Config)
			}
		}
	}
}

// TestKeysThatNameObjects: a number and its text are two names.
func TestKeysThatNameObjects(t *testing.T) {
	t.Parallel()
	const text = "10: {x: 1} # ten\n\"10\": {x: 2}\n0x0B: {x: 3}\nyes: {x: 4}\n"
	d := driver(t, "f.yaml", text, Config{})
	if err := do(t, d, "10", `{"x":5}`); err != nil {
		t.Fatal(err)
	}
	if err := do(t, d, "!str 10", ""); err != nil {
		t.Fatal(err)
	}
	if err := do(t, d, "12", `{"x":1}`); err != nil {
		t.Fatal(err)
	}
	raw := testkit.Value(d.read(t.Context()))(t).raw
	if want := "10: {x: 5} # ten\n0x0B: {x: 3}\nyes: {x: 4}\n12:\n  x: 1\n"; !bytes.Equal(raw, []byte(want)) {
		t.Errorf("the file is\n%s", raw)
	}
}
