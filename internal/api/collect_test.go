package api_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// collect removes what nothing names, once the audit has read what is in the log now.
func (w *world) collect() (control.Collected, error) {
	w.t.Helper()
	return w.server.Control().CollectBlobs(w.ctx())
}

// offline does something to the store of a server that is stopped.
func (w *world) offline(do func(store.Store, string)) {
	w.t.Helper()
	w.halt()
	dir := filepath.Join(w.opts.DataDir, "store")
	st := testkit.Value(embedded.Open(context.Background(), dir, embedded.Options{}))(w.t)
	do(st, dir)
	testkit.Must(w.t, st.Close())
	w.start()
}

// S33: blobs that neither the log names nor a host may be given are removed once they are
// old, among them the content of releases that nobody stands on any more. All the rest is
// there: the log is folded and verified from its first event, and the newest release is
// handed out whole.
func TestS33CollectionKeepsWhatIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) {
		o.Control.Retention = coreplan.Retention{Age: 1, Keep: 1}
		o.Control.CollectEvery, o.Control.CollectGrace = clock.Day, clock.Hour
	})
	const more = "disruptionBudgets: [{selector: {all: true}, maxInFlight: 2}]\n"
	agents := w.agents(2)
	var stop func()
	for i, content := range []string{"one", "two", "three", "four"} { // the last still lists the two before it
		ref := "r" + string('1'+rune(i))
		w.release(ref, plan{hosts: 2, content: content, more: more, archive: "nar " + content})
		if stop == nil {
			stop = runAgents(t, agents...)
		}
		w.until(ref+" to converge", func() bool { return w.standing("stable@"+ref) == "done" })
	}
	stop()
	orphan := digest.Of([]byte("orphan"))
	old := time.Now().Add(-2 * time.Hour)
	w.offline(func(st store.Store, dir string) {
		testkit.Value(st.PutBlob(w.ctx(), []byte("orphan")))(t)
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "blobs", "*", "*")))(t) {
			testkit.Must(t, os.Chtimes(f, old, old))
		}
		testkit.Value(st.PutBlob(w.ctx(), []byte("young")))(t)
	})
	w.until("r1 to be pruned", func() (gone bool) {
		testkit.Must(t, w.server.Control().View(w.ctx(), func(s *coreplan.State) { _, gone = s.FindPruned("stable@r1") }))
		return gone
	})
	done := testkit.Value(w.collect())(t)
	if done.Kept != 1 || done.Removed < 2 {
		t.Errorf("collected %+v; want the orphan and the content of r1, and one that is too young", done)
	}
	there := func(d digest.Digest) bool {
		_, err := w.server.Control().Blob(w.ctx(), d)
		return err == nil
	}
	w.halt() // nothing is in memory any more
	w.start()
	for d, want := range map[digest.Digest]bool{orphan: false, digest.Of([]byte("young")): true, digest.Of([]byte("one")): false, digest.Of([]byte("two")): true,
		digest.Of([]byte("nar one")): false, digest.Of([]byte("nar two")): true} {
		if there(d) != want {
			t.Errorf("blob %s is there: %t", d.Short(), !want)
		}
	}
	testkit.Must(t, w.op.NewestRelease(w.ctx(), func(packed io.Reader) error { return release.Unpack(packed, t.TempDir(), release.DefaultCaps()) }))
	w.offline(func(_ store.Store, dir string) { // the log alone
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "snapshots", "*")))(t) {
			testkit.Must(t, os.Remove(f))
		}
	})
	testkit.Must(t, w.op.History(w.ctx(), func(r io.Reader) error {
		h := testkit.Value(replay.ReadHistory(r, nil))(t)
		report := testkit.Value(logverify.Verify(h, logverify.Anchor{}))(t)
		for _, f := range slices.Concat(report.Findings, report.Contradictions) {
			t.Errorf("record %d: %s", f.Seq, f.Message)
		}
		return nil
	}))
	if again := testkit.Value(w.collect())(t); again.Removed != 0 || again.Kept != 1 {
		t.Errorf("collected again: %+v", again)
	}

	// What cannot be read may name anything: nothing is removed then.
	w.offline(func(_ store.Store, dir string) {
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "blobs", "*", "*")))(t) {
			raw := testkit.Value(os.ReadFile(f))(t)
			if d := digest.Of(raw); w.prev.Bundles[d].Name != "" {
				testkit.Must(t, os.WriteFile(f, append(raw, ' '), 0o600))
			}
			testkit.Must(t, os.Chtimes(f, old, old))
		}
	})
	if done, err := w.collect(); !errors.Is(err, store.ErrCorrupt) || done.Removed != 0 {
		t.Errorf("with a damaged bundle: %+v, %v", done, err)
	}
}

// S33: what a release names is young when it was pushed, also where it was there before, and
// whole: a collection that does not see the release yet removes none of it.
func TestS33PushedContentIsYoungAndWhole(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	old := time.Now().Add(-48 * time.Hour)
	name := strings.TrimPrefix(string(digest.Of([]byte("one"))), digest.Prefix)
	w.offline(func(_ store.Store, dir string) {
		files := testkit.Value(filepath.Glob(filepath.Join(dir, "blobs", "*", name)))(t)
		if len(files) != 1 {
			t.Fatalf("the content is in %v", files)
		}
		testkit.Must(t, os.WriteFile(files[0], []byte("torn"), 0o600))
		testkit.Must(t, os.Chtimes(files[0], old, old))
	})
	w.release("r2", plan{hosts: 2, content: "one"})
	w.offline(func(st store.Store, _ string) {
		d := digest.Of([]byte("one"))
		if _, removed, err := st.RemoveBlob(w.ctx(), d, clock.FromTime(time.Now().Add(-time.Hour))); removed || err != nil {
			t.Errorf("what r2 names counts as old: removed %v, %v", removed, err)
		}
		testkit.Value(st.Blob(w.ctx(), d))(t)
	})
}
