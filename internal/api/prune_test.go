package api_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/logverify"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// prune has the server record a checkpoint, and prune the log to an older one.
func (w *world) prune() {
	w.t.Helper()
	testkit.Must(w.t, w.server.Control().PruneLog(w.ctx()))
}

// history is the log as the server exports it.
func (w *world) history() (h *replay.History) {
	w.t.Helper()
	testkit.Must(w.t, w.op.History(w.ctx(), func(r io.Reader) (err error) {
		h, err = replay.ReadHistory(r, nil)
		return err
	}))
	return h
}

// withoutSnapshots has the server start on its log alone.
func (w *world) withoutSnapshots() {
	w.t.Helper()
	w.offline(func(_ store.Store, dir string) {
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "snapshots", "*")))(w.t) {
			testkit.Must(w.t, os.Remove(f))
		}
	})
}

// state is the server's, as a snapshot has it.
func (w *world) state() string {
	w.t.Helper()
	var raw []byte
	testkit.Must(w.t, w.server.Control().View(w.ctx(), func(s *coreplan.State) { raw = testkit.Value(json.Marshal(s))(w.t) }))
	return string(raw)
}

// prunedFacts are what a host said of itself in what was pruned.
var prunedFacts = event.HostFacts{CPUs: 8, GPUs: []event.GPU{{Vendor: "nvidia", Model: "Tesla T4", Memory: 16 << 30}}}

// prunedWorld is a fleet that took four releases, with a log that was pruned after each.
func prunedWorld(t *testing.T) (w *world, whole *replay.History) {
	w = newWorld(t, func(o *api.Options) {
		o.Control.KeepLog = 4 // milliseconds: each release is signed later than that
		o.Control.CollectEvery, o.Control.CollectGrace = clock.Day, 1
	})
	agents := w.agents(2)
	agents[0].append(prunedFacts)
	var stop func()
	for i, content := range []string{"one", "two", "three", "four"} {
		ref := "r" + string('1'+rune(i))
		w.release(ref, plan{hosts: 2, content: content})
		if stop == nil {
			stop = runAgents(t, agents...)
		}
		w.until(ref+" to converge", func() bool { return w.standing("stable@"+ref) == "done" })
		if i < 2 {
			w.prune() // nothing is old enough for more than a checkpoint
			whole = w.history()
		}
	}
	stop()
	w.prune()
	return w, whole
}

// S33: a log that is pruned begins with a checkpoint. The server that starts on it alone
// knows what it knew, doctor, audit and replay read it from there, and an archive that was
// taken before joins it.
func TestS33PrunedLogGoesOn(t *testing.T) {
	w, whole := prunedWorld(t)
	base := testkit.Value(w.server.Control().Base(w.ctx()))(t)
	if base.Seq == 0 || base.Seq >= whole.End() {
		t.Fatalf("pruned through %d; the archive ends at %d", base.Seq, whole.End())
	}
	testkit.Value(w.collect())(t)
	knew := w.state()
	w.withoutSnapshots()
	if knows := w.state(); knows != knew {
		t.Errorf("the server knew\n%s\nand knows\n%s", knew, knows)
	}
	if is := testkit.Value(w.op.Host(w.ctx(), hostName(0)))(t).Facts; is == nil || !is.Equal(prunedFacts) {
		t.Errorf("%s is %+v", hostName(0), is)
	}
	testkit.Value(w.collect())(t) // all that is named can be read, once the audit is through

	h := w.history()
	if h.Base() != base.Seq || h.End() <= whole.End() {
		t.Fatalf("the export has %d to %d", h.Base(), h.End())
	}
	root := testkit.Value(trust.ParseEnvelope(w.root))(t)
	anchor := logverify.Anchor{Root: digest.Of(root.Payload)}
	sound := func(h *replay.History, a logverify.Anchor) *logverify.Report {
		t.Helper()
		r := testkit.Value(logverify.Verify(h, a))(t)
		for _, f := range slices.Concat(r.Findings, r.Contradictions) {
			t.Errorf("record %d: %s %s", f.Seq, f.Check, f.Message)
		}
		return r
	}
	was := sound(whole, anchor)
	anchor.Head = was.Head // what the archive ends with, the log leads through
	if r := sound(h, anchor); r.Pruned != base.Seq || r.Hosts != 2 || r.Roots != 1 {
		t.Errorf("checked %+v", r)
	}
	then := testkit.Value(replay.Fold(whole, whole, whole.End()))(t)
	now := testkit.Value(replay.Fold(h, h, whole.End()))(t)
	if a, b := string(testkit.Value(json.Marshal(then))(t)), string(testkit.Value(json.Marshal(now))(t)); a != b {
		t.Errorf("at event %d there was\n%s\nand from the checkpoint on\n%s", whole.End(), a, b)
	}
	testkit.Must(t, w.op.NewestRelease(w.ctx(), func(packed io.Reader) error { return release.Unpack(packed, t.TempDir(), release.DefaultCaps()) }))

	// The events that are kept are shown, and what is gone is named.
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{}))(t)
	if len(page.Events) == 0 || page.Events[0].Seq != base.Seq+1 {
		t.Errorf("the first events are %+v", page.Events)
	}
	if _, err := w.op.Events(w.ctx(), operator.EventQuery{After: 1}); err == nil || !strings.Contains(err.Error(), "pruned") {
		t.Errorf("events after one that was pruned: %v", err)
	}
}

// S33: an export of a pruned log that begins with something else than was recorded does not
// hold, and neither does one that hides its beginning.
func TestS33PrunedLogIsVerified(t *testing.T) {
	w, _ := prunedWorld(t)
	h := w.history()
	for name, change := range map[string]func(*replay.Beginning){
		"another state": func(b *replay.Beginning) { b.State = append(slices.Clone(b.State), ' ') },
		"other facts":   func(b *replay.Beginning) { b.Audit = append(slices.Clone(b.Audit), ' ') },
		"another hash":  func(b *replay.Beginning) { b.Hash = testkit.Value(hex.DecodeString(strings.Repeat("00", 32)))(t) },
	} {
		other, begins := *h, *h.Begins
		change(&begins)
		other.Begins = &begins
		if r, err := logverify.Verify(&other, logverify.Anchor{}); err == nil && len(r.Findings) == 0 {
			t.Errorf("%s: all holds", name)
		}
	}
	other := *h
	other.Begins = nil
	if r, err := logverify.Verify(&other, logverify.Anchor{}); err == nil && len(r.Findings) == 0 {
		t.Error("without its beginning all holds")
	}
	// What was pruned is gone: a log that lacks its checkpoint says so.
	w.offline(func(st store.Store, dir string) {
		all, _, err := documents.Checkpoints(w.ctx(), st)
		testkit.Must(t, err)
		oldest := all[len(all)-1]
		raw := testkit.Value(st.Blob(w.ctx(), oldest.State))(t)
		path := filepath.Join(dir, "blobs", oldest.State.Hex()[:2], oldest.State.Hex())
		testkit.Must(t, os.WriteFile(path, raw[1:], 0o600))
		if _, err := documents.Begin(w.ctx(), st); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("with a damaged checkpoint: %v", err)
		}
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
		if _, err := st.Read(w.ctx(), 0, 1); !errors.Is(err, store.ErrPruned) {
			t.Errorf("the first record: %v", err)
		}
	})
}

// unsignedWorld is a server that never took a release, with a clock that a test sets.
func unsignedWorld(t *testing.T, keep clock.Duration) (w *world, ahead func(time.Duration)) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	w = newWorld(t, func(o *api.Options) {
		o.Control.KeepLog, o.Control.CollectEvery = keep, clock.Day
		o.Control.Now = func() time.Time { return time.Unix(0, now.Load()) }
	})
	return w, func(d time.Duration) { now.Add(int64(d)) }
}

// change has the server record something.
func (w *world) change(i int) {
	testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: fmt.Sprintf("t-%d", i), Role: operator.Viewer}))(w.t)
}

// kept is how long before an instant the log begins.
func (w *world) kept(at clock.Instant) clock.Duration {
	return at.Sub(testkit.Value(w.server.Control().Records(w.ctx(), 0, 1))(w.t)[0].At)
}

// A server of nodes or sessions alone has no signed timestamp: its log is pruned once its own records
// show the time to have passed. A clock that is set years ahead then makes hardly anything old.
func TestLogOfAServerWithoutReleasesIsPruned(t *testing.T) {
	w, ahead := unsignedWorld(t, clock.Day)
	for i := range 60 { // an hour each
		w.change(i)
		ahead(time.Hour)
		w.prune()
	}
	now := w.server.Control().Now()
	if kept := w.kept(now); kept < clock.Day || kept > 40*clock.Hour {
		t.Errorf("of a log of 60 hours, of which 24 are to be kept, %s are there", kept)
	}
	ahead(30 * 365 * 24 * time.Hour)
	for range 5 {
		w.prune()
		ahead(time.Minute)
	}
	if kept := w.kept(now); kept < 18*clock.Hour {
		t.Errorf("a clock that was set ahead left %s of the log", kept)
	}
}

// A young log stays whole, however far the clock is set ahead.
func TestClockAheadPrunesNoYoungLog(t *testing.T) {
	w, ahead := unsignedWorld(t, clock.Day)
	for i := range 12 {
		w.change(i)
		ahead(time.Hour)
		w.prune()
	}
	for range 3 {
		ahead(10 * 365 * 24 * time.Hour)
		w.prune()
	}
	if base := testkit.Value(w.server.Control().Base(w.ctx()))(t); base.Seq != 0 {
		t.Errorf("a log of 12 hours, of which 24 are to be kept, was pruned through record %d", base.Seq)
	}
}
