package strictyaml_test

import (
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestTextByTheCoreSchema: what people write is read by YAML 1.2, and a tag is kept.
func TestTextByTheCoreSchema(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{a: yes, b: NO, c: on, d: off, e: y}":                     `{"a":"yes","b":"NO","c":"on","d":"off","e":"y"}`,
		"{a: 22:30:00, b: 2024-05-01, c: 2024-05-01T10:00:00Z}":    `{"a":"22:30:00","b":"2024-05-01","c":"2024-05-01T10:00:00Z"}`,
		"{a: 0o17, b: 0x1f, c: 017, d: +5, e: 1_000}":              `{"a":15,"b":31,"c":17,"d":5,"e":"1_000"}`,
		"{a: 1., b: .5, c: 1e3, d: -.5e-3, e: 010.50, f: -0.0}":    `{"a":1.0,"b":0.5,"c":1000.0,"d":-0.0005,"e":10.5,"f":-0.0}`,
		"{a: .inf, b: -.INF, c: .nan, d: +.inf, e: inf}":           `{"a":{"!float":"inf"},"b":{"!float":"-inf"},"c":{"!float":"nan"},"d":{"!float":"inf"},"e":"inf"}`,
		"{a: , b: ~, c: null, d: Null, e: nULL, f: ''}":            `{"a":null,"b":null,"c":null,"d":null,"e":"nULL","f":""}`,
		"a: !secret bob\nb: [!secret 5, !include {x: 1}]":          `{"a":{"!secret":"bob"},"b":[{"!secret":5},{"!include":{"x":1}}]}`,
		"a: &x {k: 18446744073709551616}\nb: *x":                   `{"a":{"k":18446744073709551616},"b":{"k":18446744073709551616}}`,
		"a: !!str 5\nb: !!float 1\nc: \"5\"\nd: |\n  yes\ne: '!x'": `{"a":"5","b":{"!!float":1},"c":"5","d":"yes\n","e":"!x"}`,
		"'!secret': bob": `{"!secret":"bob"}`,
		"a: !!binary aGk=\nb: !!set {x}\nc: ! 5\nd: !!int \"5\"":         `{"a":{"!!binary":"aGk="},"b":{"!!set":{"x":null}},"c":"5","d":5}`,
		"x: &x {b: 1}\na: {<<: *x, c: 2}":                                `{"a":{"b":1,"c":2},"x":{"b":1}}`,
		"a: !float inf\nb: !<tag:x.org,2024:t> 1\nc: {80: x, 'true': y}": `{"a":{"!\u003c!float\u003e":"inf"},"b":{"!\u003ctag:x.org,2024:t\u003e":1},"c":{"80":"x","true":"y"}}`,
	} {
		var c strictyaml.Config
		testkit.Must(t, yaml.Unmarshal([]byte(text), &c))
		if got, err := nodeconfig.Canonical(c.Raw); err != nil || string(got) != want {
			t.Errorf("%s is read as %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"a: {<<: 1}", "{a: 1, a: 2}", "{[a]: 1}", "{!x a: 1}", "a: &a [*a]"} {
		var c strictyaml.Config
		if err := yaml.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %s", text, c.Raw)
		}
	}
}

// TestConfigAsADocument: what is written is read again, and what cannot be read says where.
func TestConfigAsADocument(t *testing.T) {
	const config = `{"config":{"a":null,"b":9007199254740993,"c":1.0,"d":{"!secret":"x"},"e":"yes","f":[{"!float":"nan"},{"!map":{"!x":1}},{"!!float":1},{"!env":"5"},{"!env":5},{"!env":null},{"!a":{"!b":1}},{"!unreadable":"x"}],"g":{"80":1}},"node":"n"}`
	text := testkit.Value(strictyaml.Config{Raw: []byte(config)}.Text())(t)
	if again, err := strictyaml.ReadConfig([]byte(text)); err != nil || string(again) != config {
		t.Errorf("it is written as\n%s\nand read as %s, %v", text, again, err)
	}
	for text, where := range map[string]string{"a: [": "line 1, column", "a: 1\na: 2\n": "line 2", "- a\n": "line 1", "a: 1\n---\nb: 2\n": "line"} {
		if got, err := strictyaml.ReadConfig([]byte(text)); err == nil || len(err.Error()) < len(where) || err.Error()[:4] != where[:4] {
			t.Errorf("%q is read as %s, %v", text, got, err)
		}
	}
}

// FuzzReadConfig: what is read is a config, and is the same when it is written and read again.
func FuzzReadConfig(f *testing.F) {
	for _, s := range []string{"a: !secret b\nc: [1.0, null, 0x1f, .inf, 'yes']\n", "a: &x {b: 1}\nc: *x\n", "? [a]\n: b\n", "a: !!float 1e400\n", "a: |\n  x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := strictyaml.ReadConfig(text)
		if err != nil {
			return
		}
		config, err := nodeconfig.Canonical(raw)
		if err != nil {
			return // it is deeper than a config may be
		}
		written := testkit.Value(strictyaml.Config{Raw: config}.Text())(t)
		again := testkit.Value(strictyaml.ReadConfig([]byte(written)))(t)
		if got := testkit.Value(nodeconfig.Canonical(again))(t); string(got) != string(config) {
			t.Errorf("%s is written as\n%s\nand read as %s", config, written, got)
		}
	})
}
