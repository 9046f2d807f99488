package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

const twoWaves = "    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]\n"

func (w *world) standing(rollout string) string {
	r, err := w.op.Rollout(w.ctx(), rollout)
	if err != nil {
		return ""
	}
	return r.Status
}

func (w *world) agents(n int) []*agent {
	var agents []*agent
	for i := range n {
		agents = append(agents, enrolled(w, hostName(i)))
	}
	return agents
}

// stateJSON is the whole committed state.
func (w *world) stateJSON() string {
	w.t.Helper()
	var raw []byte
	var failed error
	testkit.Must(w.t, w.server.Control().View(w.ctx(), func(s *coreplan.State) { raw, failed = json.Marshal(s) }))
	testkit.Must(w.t, failed)
	return string(raw)
}

func TestFleetConvergesOverTLS(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	stop := runAgents(t, w.agents(3)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	w.release("r2", plan{hosts: 3, content: "two", waves: twoWaves})
	w.until("r2 to converge", func() bool { return w.standing("stable@r2") == "done" })
	stop()
	hosts := testkit.Value(w.op.Hosts(w.ctx()))(t)
	if len(hosts) != 3 {
		t.Fatalf("%d hosts", len(hosts))
	}
	for _, h := range hosts {
		if h.Phase != "converged" || h.Current != h.Target || !h.Online {
			t.Errorf("host %+v", h)
		}
	}
}

// S25: folding the log gives the state that was live, from a snapshot and its
// tail as well as from the first event, and the same memory of trust.
func TestS25FoldedLogIsTheLiveState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Control.SnapshotEvery = 20 })
	w.release("r1", plan{hosts: 4, content: "one"})
	agents := w.agents(4)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	w.release("r2", plan{hosts: 4, content: "two", waves: twoWaves})
	agents[0].fail = true
	agents[0].follow(agents[0].offered())
	w.until("r2 to be reverted", func() bool { return w.standing("stable@r2") == "reverted" })
	live := w.stateJSON()
	_, _, _, versions, err := w.server.Control().Roots()
	testkit.Must(t, err)
	snapshots := filepath.Join(w.opts.DataDir, "store", "snapshots")
	for _, from := range []string{"the last snapshot", "an older snapshot and its tail", "the first event"} {
		w.halt()
		files := testkit.Value(filepath.Glob(filepath.Join(snapshots, "*")))(t)
		slices.Sort(files)
		switch from {
		case "an older snapshot and its tail":
			if len(files) < 2 {
				t.Fatalf("only %d snapshots", len(files))
			}
			testkit.Must(t, os.Truncate(files[len(files)-1], 10))
		case "the first event":
			for _, f := range files {
				testkit.Must(t, os.Truncate(f, 10))
			}
		}
		w.start()
		if got := w.stateJSON(); got != live {
			t.Errorf("from %s:\n%s\nlive:\n%s", from, got, live)
		}
		_, _, _, again, err := w.server.Control().Roots()
		testkit.Must(t, err)
		if len(again) != len(versions) || len(again) < 4 {
			t.Errorf("from %s: trust remembers %v, before %v", from, again, versions)
		}
		for k, v := range versions {
			if again[k] != v {
				t.Errorf("from %s: version %d of %s, before %d", from, again[k], k, v)
			}
		}
	}
}

// A server that is restarted in the middle goes on where it was: the claimed
// grant is known, and nothing is granted twice.
func TestRestartInTheMiddleOfARollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one", waves: twoWaves})
	agents := w.agents(3)
	d := agents[0].offered()
	w.halt()
	w.start()
	for _, a := range agents {
		a.connect()
	}
	again := agents[0].offered()
	if again.Grant != d.Grant || again.Term <= d.Term {
		t.Fatalf("before the restart %+v, after it %+v", d, again)
	}
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t)
	granted := map[string]int{}
	for _, e := range page.Events {
		if e.Type == "grant.offered" {
			granted[e.Subject.Host()]++
		}
	}
	for i := range 3 {
		if granted[hostName(i)] != 1 {
			t.Errorf("host %s was granted %d times", hostName(i), granted[hostName(i)])
		}
	}
}

// P2: one failure in a wave sends every host back, and each is shown a proof
// that the agent's own verifier accepts.
func TestFailureIsProvenToTheOthers(t *testing.T) {
	t.Run("all of the log", func(t *testing.T) { failureIsProven(t, func(*world) {}) })
	t.Run("pruned log", func(t *testing.T) { failureIsProven(t, (*world).prune) })
}

func failureIsProven(t *testing.T, prune func(*world)) {
	w := newWorld(t, func(o *api.Options) { o.Control.KeepLog = 4 })
	w.release("r1", plan{hosts: 3, content: "one"})
	agents := w.agents(3)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	first := agents[1].a.Machine.Current
	prune(w) // of what comes later the past is pruned
	w.release("r2", plan{hosts: 3, content: "two"})
	prune(w)
	follower := agents[1].follower()
	for _, a := range []*agent{agents[1], agents[2]} {
		d := a.offered()
		if a == agents[1] {
			testkit.Value(follower.Plan(w.ctx(), d.Rollout, d.Manifest))(t)
		}
		a.follow(d)
	}
	agents[0].fail = true
	agents[0].follow(agents[0].offered())
	back := agents[1].offered()
	if back.Purpose != host.Rollback || len(back.Failures) != 1 {
		t.Fatalf("the order to go back is %+v", back)
	}
	var m wire.HostManifest
	agents[1].do("GET", wire.RouteRollouts+back.Rollout, nil, &m)
	e := testkit.Value(trust.ParseEnvelope(m.Envelope))(t)
	if err := follower.Failed(e.Payload, back.Failures, -1); err != nil {
		t.Fatalf("the proof of a failure is refused: %v", err)
	}
	back.Failures[0].PrevHash[0] ^= 1
	if err := follower.Failed(e.Payload, back.Failures, -1); err == nil {
		t.Fatal("a proof with another past was accepted")
	}
	agents[1].follow(back)
	agents[2].follow(agents[2].offered())
	w.until("r2 to be reverted", func() bool { return w.standing("stable@r2") == "reverted" })
	for _, a := range agents {
		if a.a.Machine.Current != first {
			t.Errorf("host %s runs %s", a.name, a.a.Machine.Current.Short())
		}
	}
	why := testkit.Value(w.op.Why(w.ctx(), agents[0].name))(t)
	if why.Message == "" {
		t.Error("why has no answer")
	}
	testkit.Must(t, w.op.ClearQuarantine(w.ctx(), "stable", d2(t, w), "tested elsewhere"))
	if rows, err := w.op.Quarantine(w.ctx()); err != nil || len(rows) != 0 {
		t.Errorf("quarantined still: %v, %v", rows, err)
	}
}

func d2(t *testing.T, w *world) string {
	rows := testkit.Value(w.op.Quarantine(w.ctx()))(t)
	if len(rows) != 1 {
		t.Fatalf("%d bundles are quarantined", len(rows))
	}
	return rows[0].Bundle.Short()
}

// follower is the agent's own verifier, fed by this server.
func (a *agent) follower() *verify.Follower {
	a.w.t.Helper()
	s := testkit.Value(trust.Begin(testFleet, a.w.root, ""))(a.w.t)
	f, err := verify.New(verify.Options{Fleet: testFleet, Host: a.name, Source: source{a},
		Missing: func(err error) bool { return errors.Is(err, os.ErrNotExist) },
		Save:    func(context.Context, trust.State) error { return nil },
		Wall:    a.w.server.Control().Now}, s)
	testkit.Must(a.w.t, err)
	return f
}

type source struct{ *agent }

func (s source) Trust(ctx context.Context, file string) ([]byte, error) {
	return s.fetch(ctx, wire.RouteTrust+file)
}

func (s source) Manifest(ctx context.Context, rollout string) (m wire.HostManifest, err error) {
	raw, err := s.fetch(ctx, wire.RouteRollouts+rollout)
	if err == nil {
		err = wire.Decode(raw, &m)
	}
	return m, err
}

func (s source) fetch(ctx context.Context, path string) ([]byte, error) {
	status, raw, err := s.call(ctx, "GET", path, nil)
	switch {
	case err != nil:
		return nil, err
	case status == 404:
		return nil, os.ErrNotExist
	case status != 200:
		return nil, errors.New(string(raw))
	}
	return raw, nil
}

func TestPushIsWholeOrNothing(t *testing.T) {
	w := newWorld(t)
	dir := w.build("r1", plan{hosts: 2, content: "one"})
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "bundles", strings.Repeat("0", 64)+".json"), []byte("{}"), 0o644))
	stranger := filepath.Join(dir, "bundles", strings.Repeat("0", 64)+".json")
	for i := range 6 {
		if i%2 == 0 && i > 0 { // another cause, and the first once more
			next := filepath.Join(dir, "bundles", strings.Repeat(fmt.Sprint(i%4), 64)+".json")
			testkit.Must(t, os.Rename(stranger, next))
			stranger = next
		}
		if _, err := w.push(dir); err == nil {
			t.Fatal("a release with a stranger in it was accepted")
		}
		if want, got := i/2+1, count(w.types(""), "release.verify_failed"); got != want {
			t.Errorf("after refusal %d the log has %d, expected %d: once per cause until it changes", i+1, got, want)
		}
	}
	testkit.Must(t, os.Remove(stranger))
	for _, want := range []string{"accepted", "unchanged"} {
		if got, err := w.push(dir); err != nil || got.Outcome != want {
			t.Fatalf("%+v, %v, expected %s", got, err, want)
		}
	}
	old := t.TempDir()
	testkit.Must(t, os.CopyFS(old, os.DirFS(dir)))
	s := testkit.Value(trust.Begin(testFleet, w.root, ""))(t)
	testkit.Value(release.Refresh(dir, release.RefreshOptions{State: s, Now: w.server.Control().Now().Add(clock.Second), Signers: []trust.Signer{w.keys[trust.RoleTimestamp]}}))(t)
	if got, err := w.push(dir); err != nil || got.Outcome != "refreshed" {
		t.Fatalf("%+v, %v, expected refreshed", got, err)
	}
	if _, err := w.push(old); err == nil {
		t.Fatal("an older timestamp was accepted")
	}
	status := testkit.Value(w.op.Status(w.ctx()))(t)
	if status.Release.Version != 1 || status.Channels[0].Rollout != "stable@r1" {
		t.Errorf("status %+v", status)
	}
}

func TestOperatorHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	agents := w.agents(2)
	d := agents[0].offered()
	testkit.Must(t, w.op.Operate(w.ctx(), coreplan.Pause, "stable@r1", "lunch"))
	var ans wire.ClaimAnswer
	agents[0].do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &ans)
	if ans.Accepted || !strings.Contains(ans.Reason, "lunch") {
		t.Fatalf("a claim in a pause was answered %+v", ans)
	}
	if err := w.op.Operate(w.ctx(), coreplan.Pause, "stable@r1", "again"); err == nil {
		t.Fatal("a paused rollout was paused")
	}
	testkit.Must(t, w.op.Operate(w.ctx(), coreplan.Resume, "stable@r1", "back"))
	testkit.Must(t, w.op.Reconcile(w.ctx()))
	stop := runAgents(t, agents...)
	defer stop()
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
}
