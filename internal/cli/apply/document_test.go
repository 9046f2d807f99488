package apply

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/testkit"
)

const two = `# a comment
---
kind: Workspace
name: web
spec:
  image: app
  stopGrace: 90s
  limits: {memory: 512m}
---
# nothing
--- # and a note
kind: image
host: gpu-1
name: app
spec: {ref: "a/b:1", pull: {}}
`

func TestReadTakesUnitsAndKeepsLines(t *testing.T) {
	list, problems := Read(spec.Known, "f.yaml", []byte(two), "gpu-1")
	if len(problems) > 0 || len(list) != 2 {
		t.Fatalf("%v, %v", list, problems)
	}
	s := Set(list)
	if w := s.Workspaces[0]; *w.StopGrace != 90*clock.Second || w.Limits.Memory != 512<<20 || list[0].Where != "f.yaml:3:1" || list[1].Where != "f.yaml:12:1" {
		t.Errorf("read as %+v at %s and %s", w, list[0].Where, list[1].Where)
	}
	if o := Order(list); o[0].Kind != spec.KindImage || o[1].Kind != spec.KindWorkspace {
		t.Errorf("ordered as %v", o)
	}
}

func TestReadNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Workspace\nname: a\nspec:\n  imag: b\n":                          "f:4:3: unknown field \"imag\": expected image",
		"kind: Workspace\nname: a\nspec:\n  image: b\n  stopGrace: soon\n":      "f:5:14: \"soon\" is not a duration",
		"kind: Workspace\nname: a\nspec:\n  image: b\n  shmSize: much\n":        "f:5:12: \"much\" is not a size",
		"kind: Pod\nname: a\nspec: {}\n":                                        "f:1:7: kind \"Pod\" is not known",
		"kind: Volume\nname: A\nspec: {}\n":                                     "f:2:7: ",
		"kind: Volume\nhost: b\nname: a\nspec: {}\n":                            "f:2:7: the resource is for host b: expected h",
		"kind: Volume\nname: a\nspec: {}\n---\nkind: Volume\nname: a\nspec: {}": "volume/a on h at f:5:1 is declared at f:1:1 as well",
		"# nothing\n": "the file declares nothing",
	} {
		_, problems := Read(spec.Known, "f", []byte(text), "h")
		if len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%q gives %v, expected %s", text, problems, want)
		}
	}
	if _, problems := Read(spec.Known, "f", []byte("kind: Volume\nname: a\nspec: {}\n"), ""); !strictyaml.Fatal(problems) {
		t.Error("a resource without a host is taken")
	}
}

// What is written is read again as the same.
func TestWriteIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grace := clock.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "grace"))
		w := spec.Workspace{Name: rapid.SampledFrom([]string{"web", "1", "true", "a-b"}).Draw(t, "name"), Image: "app", StopGrace: &grace,
			Env:     []spec.Env{{Name: "A", Value: rapid.StringMatching(`[ -~]{0,12}`).Draw(t, "value")}},
			Command: rapid.SampledFrom([][]string{nil, {}, {"sh", "-c", "a\n---\nb"}}).Draw(t, "command"),
			Limits:  spec.Limits{Memory: rapid.Int64Range(6<<20, 1<<50).Draw(t, "memory")}}
		was := testkit.Value(Of("h", spec.KindWorkspace, w.Name, &w))(t)
		text := testkit.Value(Write(spec.Known, &was))(t)
		list, problems := Read(spec.Known, "f", text, "h")
		if len(problems) > 0 || len(list) != 1 || string(list[0].Spec) != string(was.Spec) {
			t.Fatalf("%s\nis read as %v, %v\nexpected %s", text, list, problems, was.Spec)
		}
	})
}
