package file

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/nodesdk"
)

const (
	jsonFile = "{\n    \"version\": 1.50,\n    \"flows\": {\n        \"a\": {\"port\": 1, \"z\": [1, 2], \"b\": \"x\"},\n        \"b\": {\n            \"port\": 2\n        }\n    },\n    \"tail\": null\n}\n"
	yamlFile = "# head\n\nversion: 1.50   # odd\nflows:\n  # about a\n  a: # side\n    port: 1 # p\n    b: 'x'\n\n    z: [1, 2]\n    # end of a\n\n  # about b\n  b:\n    port: 2\n    text: |\n      # no comment\n\n# tail\nother:   {x: 1}\n"
	tomlFile = "# head\nversion = 1.50   # odd\n\n[flows.a] # side\nport = 1 # p\nb = 'x'\n\nz = [1,\n 2]\n# about b\n[flows.b]\nport = 2\n\n[flows.b.tls]\nname = 'n'\n\n# tail\n[other]\nx = 0x10\n"
)

func driver(t *testing.T, name, text string, o Config) *Driver {
	t.Helper()
	o.Path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(o.Path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// do applies a change of an object as it is.
func do(t *testing.T, d *Driver, id, config string) error {
	t.Helper()
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	op := nodesdk.Op{Kind: "flow", ID: id, Config: json.RawMessage(config), Delete: config == ""}
	for _, it := range s.Items {
		if it.ID == id {
			it = d.Normalize(it)
			op.Was = &it
		}
	}
	return d.Apply(context.Background(), op)
}

// TestEditsChangeNothingElse: the lines that an edit need not change are the same bytes.
func TestEditsChangeNothingElse(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name, text       string
		edited, old      string // of a's port 1 to 7
		created, removed string // object c is created; a is removed
	}{
		{"f.json", jsonFile, "{\"port\": 7, \"z\": [1, 2], \"b\": \"x\"}", "{\"port\": 1, \"z\": [1, 2], \"b\": \"x\"}",
			"        \"b\": {\n            \"port\": 2\n        },\n        \"c\": {\n            \"port\": 3,\n            \"tls\": {\n                \"name\": \"m\"\n            }\n        }\n    },",
			"        \"a\": {\"port\": 1, \"z\": [1, 2], \"b\": \"x\"},\n"},
		{"f.yaml", yamlFile, "    port: 7 # p\n", "    port: 1 # p\n", "      # no comment\n  c:\n    port: 3\n    tls:\n      name: m\n\n# tail",
			"  # about a\n  a: # side\n    port: 1 # p\n    b: 'x'\n\n    z: [1, 2]\n    # end of a\n"},
		{"f.toml", tomlFile, "port = 7 # p\n", "port = 1 # p\n", "name = 'n'\n\n[flows.c]\nport = 3\n\n[flows.c.tls]\nname = \"m\"\n\n# tail",
			"[flows.a] # side\nport = 1 # p\nb = 'x'\n\nz = [1,\n 2]\n"},
	} {
		check := func(what, id, config string, want func(got string) bool) {
			d := driver(t, f.name, f.text, Config{At: "flows"})
			if err := do(t, d, id, config); err != nil {
				t.Errorf("%s: %s: %v", f.name, what, err)
				return
			}
			got, err := os.ReadFile(d.o.Path)
			if err != nil || !want(string(got)) {
				t.Errorf("%s: after %s it is\n%s\n%v", f.name, what, got, err)
			}
			if info, err := os.Stat(d.o.Path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%s: the mode is %v, %v", f.name, info.Mode(), err)
			}
		}
		check("an edit", "a", `{"port":7,"z":[1,2],"b":"x"}`, func(got string) bool {
			return got == strings.Replace(f.text, f.old, f.edited, 1) || f.name == "f.yaml" && strings.Contains(got, f.edited) && strings.HasSuffix(got, f.text[strings.Index(f.text, "\n  # about b"):])
		})
		check("a creation", "c", `{"port":3,"tls":{"name":"m"}}`, func(got string) bool {
			return strings.Contains(got, f.created) && len(got) > len(f.text) && strings.HasPrefix(got, f.text[:40])
		})
		check("a removal", "a", "", func(got string) bool {
			return strings.ReplaceAll(got, "\n", "") == strings.ReplaceAll(strings.Replace(f.text, f.removed, "", 1), "\n", "") || f.name == "f.toml" && strings.Contains(got, "[flows.b]") && !strings.Contains(got, "flows.a") && strings.HasSuffix(got, f.text[strings.Index(f.text, "[flows.b]"):])
		})
		d := driver(t, f.name, f.text, Config{At: "flows"})
		for _, step := range [][2]string{{"a", ""}, {"b", ""}, {"d", `{"port":1}`}, {"d", `{"port":2.5,"n":{"x":["y",{"z":true}]}}`}, {"d", `{"n":{"x":[],"w":"\"#'"}}`}, {"d", ""}, {"a b/c", `{}`}} {
			if err := do(t, d, step[0], step[1]); err != nil {
				now, _ := os.ReadFile(d.o.Path)
				t.Fatalf("%s: %v: %v\n%s", f.name, step, err, now)
			}
		}
	}
}

// TestLists: objects in a list are found by the member that names them.
func TestLists(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"f.json":  `{"l": [{"name": "a", "p": 1}, {"name": "b", "p": 2}], "x": 1}`,
		"f.yaml":  "x: 1\nl:\n- name: a # n\n  p: 1\n\n# about b\n- name: b\n  p: 2\ny: 2\n",
		"f2.yaml": "l:\n  - p: 1\n    name: a\n  - {name: b, p: 2}\n",
		"f.toml":  "x = 1\n[[l]]\nname = 'a'\np = 1\n[[l]] # b\nname = 'b'\np = 2\n[l.sub]\nz = 1\n[y]\n",
		"f2.toml": "l = [{ name = 'a', p = 1 }, { name = 'b' }]\n",
	} {
		d := driver(t, name, text, Config{At: "l", Identity: "name"})
		for _, step := range [][2]string{{"c", `{"p":3}`}, {"b", `{"p":4}`}, {"a", ""}, {"a", `{"q":{"r":1}}`}, {"c", ""}, {"b", ""}, {"a", ""}, {"z", `{"p":1}`}} {
			if err := do(t, d, step[0], step[1]); err != nil {
				now, _ := os.ReadFile(d.o.Path)
				t.Fatalf("%s: %v: %v\n%s", name, step, err, now)
			}
		}
		s, err := d.Snapshot(t.Context())
		if err != nil || len(s.Items) != 1 || string(d.Normalize(s.Items[0]).Config) != `{"p":1}` {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if err := do(t, d, "z", `{"name":"other"}`); !errors.As(err, new(*nodesdk.InvalidError)) {
			t.Errorf("%s: another name gives %v", name, err)
		}
	}
}

// TestNeverEmptyByMistake: what is missing, half written or of another form is an error.
func TestNeverEmptyByMistake(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{
		"f.json": {"", "\n", `{"flows":{"a":{`, `{"flows":null}`, `{"other":{}}`, `{"flows":{"a":{},"a":{}}}`, `[]`, `{"flows":{}} x`},
		"f.yaml": {"", "flows:\n", "flows: {a: {", "flows: {a: {}}\n---\nx: 1\n", "other: 1\n", "flows: [1]\n"},
		"f.toml": {"", "[flows", "x = 1\n", "[flows.a]\nx = \n", "flows = 1\n", "[flows.a]\n[flows.a]\n"},
	} {
		for _, text := range texts {
			d := driver(t, name, text, Config{At: "flows"})
			if s, err := d.Snapshot(t.Context()); err == nil {
				t.Errorf("%s: %q is read as %+v", name, text, s)
			}
		}
	}
	d, err := New(Config{Path: filepath.Join(t.TempDir(), "none.json")})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.Snapshot(t.Context()); err == nil {
		t.Errorf("no file is read as %+v", s)
	}
}

// TestHandEditIsNeverOverwritten: an edit that comes while the candidate is validated.
func TestHandEditIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	d := driver(t, "f.json", jsonFile, Config{At: "flows"})
	edited := strings.Replace(jsonFile, `"port": 1`, `"port": 99`, 1)
	d.o.Validate = []string{"/bin/sh", "-c", "printf '%s' \"$1\" > \"$2\"", "sh", edited, d.o.Path}
	if err := do(t, d, "a", `{"port":7}`); !errors.Is(err, nodesdk.ErrConflict) {
		t.Errorf("an edit of the same object gives %v", err)
	}
	if now, err := os.ReadFile(d.o.Path); err != nil || string(now) != edited {
		t.Errorf("the file is %s, %v", now, err)
	}
}

// TestCommands: a candidate that is refused changes nothing, and one that cannot be loaded
// is taken back.
func TestCommands(t *testing.T) {
	t.Parallel()
	d := driver(t, "f.json", jsonFile, Config{At: "flows", Validate: []string{"/bin/sh", "-c", "grep -q 666 {} && echo port 666 is bad && exit 1; true"}})
	var invalid *nodesdk.InvalidError
	if err := do(t, d, "a", `{"port":666}`); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "port 666 is bad") {
		t.Errorf("it is %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	d.o.Reload = []string{"/bin/sh", "-c", "echo x >> " + log + "; ! grep -q 777 {}"}
	if err := do(t, d, "a", `{"port":777}`); err == nil {
		t.Error("a change that cannot be loaded is done")
	}
	if now, err := os.ReadFile(d.o.Path); err != nil || string(now) != jsonFile {
		t.Errorf("the file is %s, %v", now, err)
	}
	if err := do(t, d, "a", `{"port":8}`); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(log); err != nil || string(got) != "x\nx\nx\n" {
		t.Errorf("reloads: %q, %v", got, err)
	}
}
