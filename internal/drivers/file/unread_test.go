package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// TestUnreadableObject: an object that the normal form cannot have is reported with the reason and
// its line, and no edit changes it; the other objects of the file are read and edited.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, c := range []struct {
		name, broken, why string
		o                 Config
		list              bool
	}{
		{name: "a key that is a list", broken: "a:\n  x: 1\n  ? [k]\n  : v\n", why: "line 3: a key is a map or a list"},
		{name: "a key that is a map", broken: "a: {x: 1, {k: v}: w}\n", why: "line 1: a key is a map or a list"},
		{name: "a key twice", broken: "a:\n  x: 1\n  x: 2\n", why: `line 3: the key "x" stands twice`},
		{name: "an object twice", broken: "a: {x: 1}\na: {x: 2}\n", why: `line 2: the key "a" stands twice`},
		{name: "one number in two spellings", broken: "a:\n  1: x\n  0x1: y\n", why: `line 3: the key "0x1" stands twice`},
		{name: "a key with a tag", broken: "a: {!secret k: 1}\n", why: "!secret"},
		{name: "too many levels", broken: "a: {x: " + deep + "}\n", why: "levels"},
		{name: "more levels than a config", broken: "a: {x: " + deep[:35] + deep[105:] + "}\n", why: "levels"},
		{name: "an alias within its anchor", broken: "a: &m {x: *m}\n", why: "*m is within what it refers to"},
		{name: "a merge of no map", broken: "a:\n  <<: [1]\n", why: "merge key <<"},
		{name: "a text", broken: "a: text\n", why: "it is a text and no object"},
		{name: "a list", broken: "a: [1]\n", why: "it is a list and no object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := c.broken + "b: {y: 1} # b\n"
			d := driver(t, "f.yaml", text, c.o)
			s, err := d.Snapshot(t.Context())
			if err != nil || len(s.Items) != 2 {
				t.Fatalf("it is read as %+v, %v", s, err)
			}
			var reported map[string]string
			if err := json.Unmarshal(s.Items[0].Config, &reported); err != nil || !strings.Contains(reported[nodeconfig.Unreadable], c.why) {
				t.Fatalf("it is read as %s, %v", s.Items[0].Config, err)
			}
			for _, to := range []string{`{"x":5}`, ""} {
				if err := do(t, d, "a", to); !errors.As(err, new(*nodesdk.InvalidError)) {
					t.Errorf("an edit to %q gives %v", to, err)
				}
			}
			if err := do(t, d, "b", `{"y":2}`); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(d.o.Path); err != nil || string(now) != strings.Replace(text, "y: 1", "y: 2", 1) {
				t.Errorf("the file is %s, %v", now, err)
			}
		})
	}
}

// TestUnnamedElements: elements of a list that have no name, or one that another has, are reported,
// and the others are read.
func TestUnnamedElements(t *testing.T) {
	t.Parallel()
	d := driver(t, "f.yaml", "- {id: 1, x: 1}\n- {x: 2}\n- {id: [1]}\n- {id: b}\n- {id: \"1\"}\n- {id: c, v: 1}\n- {id: element 1}\n", Config{Identity: "id"})
	s, err := d.Snapshot(t.Context())
	if err != nil || len(s.Items) != 6 {
		t.Fatalf("%+v, %v", s, err)
	}
	for i, want := range []string{`"\"1\" stands at \"\" twice"`, `{"id":"b"}`, `{"id":"c","v":1}`, `{"id":"element 1"}element 1`, "element 1 (2)", "element 2"} {
		if it := s.Items[i]; !strings.Contains(string(it.Config)+it.ID, want) {
			t.Errorf("%d is %s %s", i, it.ID, it.Config)
		}
	}
	if err := do(t, d, "c", `{"v":2}`); err != nil {
		t.Error(err)
	}
}

// TestYAMLRefusals: a file that is no YAML, or has several documents of which none is named, is an error with the line, quickly.
func TestYAMLRefusals(t *testing.T) {
	t.Parallel()
	bomb := "x0: &x0 [a,a,a,a,a,a,a,a,a]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("x%d: &x%[1]d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i), 9), ","))
	}
	for name, c := range map[string][2]string{
		"two documents":       {"a: {x: 1}\n---\na: {x: 2}\n", "the second begins at line 3"},
		"no YAML after it":    {"a: {x: 1}\n---\na: {x\n", "line"},
		"a tab":               {"a:\n\tx: 1\n", "line 2: a tab"},
		"an alias of nothing": {"a: *none\n", "line 1: an alias"},
	} {
		d := driver(t, "f.yaml", c[0], Config{})
		if s, err := d.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s is read as %v, %v", name, s, err)
		}
	}
	d := driver(t, "f.yaml", bomb+"o:\n  a: {x: *x12}\n  b: {y: 1}\n", Config{At: "o"})
	s, err := d.Snapshot(t.Context())
	if err != nil || len(s.Items) != 2 || !strings.Contains(string(s.Items[0].Config), "aliases") {
		t.Fatalf("aliases of aliases: %v", err)
	}
	if err := do(t, d, "b", `{"y":2}`); err != nil {
		t.Error(err)
	}
	d = driver(t, "f.yaml", "a: {x: "+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+"}\nb: {}\n", Config{})
	if s, err := d.Snapshot(t.Context()); err != nil || len(s.Items) != 2 {
		t.Errorf("5000 levels: %v", err)
	}
}

// TestTOMLKeysWithoutNames: the parser loses values below such a key, wherever it stands; as a value "" is a text.
func TestTOMLKeysWithoutNames(t *testing.T) {
	for _, text := range []string{"\"\" = [\"new\", {}]\n", "'' = 1\n", "[\"\"]\n", "[a.\"\"]\nx = 1\n", "[[a.'']]\n", "x = [1, {\"\" = 2}]\n", "x.'' = 1\n", "x = {a.\"\" = 1}\n"} {
		if _, err := (tomlFormat{}).parse([]byte(text)); !errors.Is(err, errNameless) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (tomlFormat{}).parse([]byte("x = \"\"\ny = ['', {a = ''}] # \"\" = 1\n")); err != nil {
		t.Error(err)
	}
}
