package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
)

// outsider builds the program of the page about drivers, and its test, in a module of its own that has this
// one as it stands here.
func outsider(t *testing.T) (program string) {
	t.Helper()
	const root = "../.."
	page := string(testkit.Value(os.ReadFile(root + "/docs/nodes-drivers.md"))(t))
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	mod := strings.Replace(string(testkit.Value(os.ReadFile(root+"/go.mod"))(t)), "module github.com/steadyfleet/steady\n", "module example.org/cameras\n", 1)
	mod += "\nrequire github.com/steadyfleet/steady v0.0.0\n\nreplace github.com/steadyfleet/steady => " + testkit.Value(filepath.Abs(root))(t) + "\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": mod, "go.sum": string(testkit.Value(os.ReadFile(root + "/go.sum"))(t)), "main.go": blocks[0], "main_test.go": blocks[1]} { // order-free
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"vet", "."}, {"test", "."}, {"build", "-o", "cameras", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "cameras")
}

// TestDriverOfAnotherModule: the program of the page about drivers registers with the file of a token as it is, and its
// objects are pushed to, edited by hand and found drifted under the driver's own word.
func TestDriverOfAnotherModule(t *testing.T) {
	testkit.Long(t, "builds a program")
	t.Parallel()
	program, p := outsider(t), newPlant(t)
	dir := t.TempDir()
	cameras, token, state := filepath.Join(dir, "cameras"), filepath.Join(dir, "gw-1.token"), filepath.Join(dir, "state")
	testkit.Must(t, os.Mkdir(cameras, 0o700))
	text := identity.TokenText{Envelope: testkit.Value(p.estate.NodeToken("gw-1"))(t), Server: p.where.Server, ServerCA: []byte(readContext(t, p.where.Context).CA), Root: p.estate.roots[0]}
	testkit.Must(t, os.WriteFile(token, []byte(text.String()+"\n"), 0o600))
	run := func(name string) *process { return launchOf(t, program, p.dir, name, token, state, cameras) }
	first := run("cameras")
	t.Cleanup(first.kill)
	p.untilNode("gw-1", "is compared", func(d drift.NodeDetail) bool { return d.ComparedAt != 0 })
	p.set("camera", "door", "gw-1", `{"zoom":2,"serial":9007199254740993,"mask":null}`)
	door := filepath.Join(cameras, "door.json")
	testkit.Eventually(t, "the camera is pushed", func() bool {
		raw, _ := os.ReadFile(door) // none before the push
		return string(raw) == `{"mask":null,"serial":9007199254740993,"zoom":2}`
	})
	p.pushed("camera", "door")
	testkit.Must(t, os.WriteFile(door+".tmp", []byte(`{"mask":null,"serial":9007199254740992,"zoom":2}`), 0o600))
	testkit.Must(t, os.Rename(door+".tmp", door))
	p.untilNode("gw-1", "has drift", func(d drift.NodeDetail) bool {
		return len(d.Episodes) == 1 && d.Episodes[0].Kind == "camera" && d.Episodes[0].Drift == drift.Mismatched
	})
	first.kill()
	testkit.Must(t, os.Remove(token)) // later starts need it no more
	again := run("cameras-again")
	t.Cleanup(again.kill)
	p.untilNode("gw-1", "is back", func(d drift.NodeDetail) bool { return d.Status != drift.NodeOffline && len(d.Episodes) == 1 })
	kinds := testkit.Value(p.client.Kinds(context.Background()))(t)
	if last := kinds[len(kinds)-1]; last.Name != "camera" || last.Nodes != 1 || last.Objects != 1 {
		t.Errorf("the kinds are %+v", kinds)
	}
}
