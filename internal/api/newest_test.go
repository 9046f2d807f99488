package api_test

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// What the server hands out as its newest release is what was pushed, byte for byte,
// with the timestamp that was pushed last; also after a start, when nothing of it is
// in memory.
func TestNewestReleaseIsWhatWasPushed(t *testing.T) {
	w := newWorld(t)
	if err := w.op.NewestRelease(w.ctx(), func(io.Reader) error { return nil }); err == nil || !strings.Contains(err.Error(), "push one") {
		t.Errorf("before the first release: %v", err)
	}
	const more = "disruptionBudgets: [{selector: {all: true}, maxInFlight: 2}]\ncompliance:\n  mode: observe\n  controls:\n" +
		"    - {id: own, title: ours, source: policy 7, expression: \"'canary' in host.tags || true\", severity: low}\n"
	w.release("r1", plan{hosts: 3, content: "one", more: more})
	dir := w.build("r2", plan{hosts: 3, content: "two", more: more})
	testkit.Value(w.push(dir))(t)
	s := testkit.Value(trust.Begin(testFleet, w.root, ""))(t)
	testkit.Value(release.Refresh(dir, release.RefreshOptions{State: s, Now: w.server.Control().Now().Add(clock.Second), Signers: []trust.Signer{w.keys[trust.RoleTimestamp]}}))(t)
	testkit.Value(w.push(dir))(t)
	want := files(t, dir)
	for _, folder := range []string{"budgets", "controls", "bundles", "rollouts"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { return strings.HasPrefix(name, folder+"/") }) {
			t.Fatalf("the release has no %s: the test would see nothing", folder)
		}
	}
	for range 2 {
		into := t.TempDir()
		testkit.Must(t, w.op.NewestRelease(w.ctx(), func(packed io.Reader) error { return release.Unpack(packed, into, release.DefaultCaps()) }))
		if got := files(t, into); !maps.Equal(got, want) {
			t.Errorf("the server hands out %v, pushed was %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		w.halt()
		w.start()
	}
}

// files reads a release folder.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	testkit.Must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = string(raw)
		return err
	}))
	return out
}
