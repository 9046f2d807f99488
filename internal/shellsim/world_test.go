package shellsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/release"
)

// world is one schedule as it is played.
type world struct {
	seed     uint64
	dir      string
	begun    time.Time
	faults   *faults
	net      *network
	ledger   *ledger
	fleet    declared
	root     []byte
	url      string
	serverCA []byte
	server   *serverProcess
	hosts    []*hostProcess

	snapshotEvery uint64
	hostLife      time.Duration
	heartbeat     clock.Duration
	retention     plan.Retention
	collectEvery  clock.Duration
	keepLog       clock.Duration
	events        []planned
	stopping      atomic.Bool // processes are stopped to be looked at
	tracing       bool
	logging       slog.Handler

	pushing chan struct{} // one release at a time
	prev    *release.Verified
	refs    []string
	verbs   int
	froze   bool // an operator signed a freeze

	mu    sync.Mutex
	found []string
}

// planned is something that is to happen.
type planned struct {
	at    time.Duration
	words string
	run   func(ctx context.Context)
}

// shortLife is how long the certificates of some fleets last: longer than any host is
// away, and short enough that each is renewed in the schedule.
const shortLife = 16 * time.Minute

// faultyTime is how long faults are injected, calmTime how long the fleet may take
// to come to rest after.
const (
	faultyTime = 6 * time.Minute
	calmTime   = 45 * time.Minute
	backTime   = 90 * time.Second // after which everybody is back
)

func newWorld(seed uint64, dir string) (*world, error) {
	w := &world{seed: seed, dir: dir, begun: time.Now(), faults: newFaults(seed), ledger: newLedger(), pushing: make(chan struct{}, 1)}
	w.net = newNetwork(w.faults, func(name string) { w.violate("L5", "%s dials a hundred times within a second", name) })
	w.server = newServerProcess(w)
	r := w.faults.at("fleet", 0)
	for i := range 2 + r.IntN(4) {
		w.fleet.hosts = append(w.fleet.hosts, fmt.Sprintf("h-%d", i+1))
	}
	w.fleet.soak = 5 + r.IntN(40)
	w.fleet.supersede = r.IntN(3) == 0
	w.fleet.budget = r.IntN(3)
	w.fleet.policy = fmt.Sprintf("    confirmWindow: %ds\n    sustainedFailure: %ds\n    grantExpiry: %ds\n    activationDeadline: 2m\n    healthGate: {maxFailures: %d}\n    onHealthFailure: %s\n",
		60+r.IntN(60), 5+r.IntN(20), 60+r.IntN(120), r.IntN(2), []string{"halt", "rollback-and-halt"}[r.IntN(2)])
	if strings.Contains(w.fleet.policy, ": halt\n") {
		w.fleet.budget = 0 // a host that stays failed keeps its slot, until somebody sees to it
	}
	w.snapshotEvery = []uint64{15, 40, 1000}[r.IntN(3)]
	w.heartbeat = []clock.Duration{20 * clock.Second, 60 * clock.Second}[r.IntN(2)]
	if w.hostLife = 24 * time.Hour; r.IntN(6) == 0 {
		w.hostLife = shortLife
	}
	w.retention = plan.Retention{Age: []clock.Duration{clock.Minute, 90 * clock.Day}[r.IntN(2)], Keep: 1}
	w.collectEvery = []clock.Duration{20 * clock.Second, 3 * clock.Minute}[r.IntN(2)]
	w.keepLog = []clock.Duration{0, 40 * clock.Second}[w.faults.at("log", 0).IntN(2)]
	var err error
	if w.root, err = keys.First(); err != nil {
		return nil, err
	}
	for _, name := range w.fleet.hosts {
		h, err := newHostProcess(w, name, r.IntN(2) == 0)
		if err != nil {
			return nil, err
		}
		w.hosts = append(w.hosts, h)
	}
	w.draw(w.faults.at("plan", 0))
	return w, nil
}

// violate notes what must not be. The first few are kept.
func (w *world) violate(invariant, format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found) < 5 {
		w.found = append(w.found, invariant+": "+fmt.Sprintf(format, a...)+fmt.Sprintf(" (after %s)", time.Since(w.begun).Round(time.Millisecond)))
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.found) > 0
}

func (w *world) trace(format string, a ...any) {
	if w.tracing {
		fmt.Printf("%10s %s\n", time.Since(w.begun).Round(time.Millisecond), fmt.Sprintf(format, a...))
	}
}

func (w *world) log(who string) *slog.Logger {
	if w.logging == nil {
		return nil
	}
	return slog.New(w.logging).With("who", who)
}

// draw plans what operators do and what goes wrong.
func (w *world) draw(r *rand.Rand) {
	some := func(from float64) time.Duration {
		lo := time.Duration(from * float64(faultyTime))
		return lo + time.Duration(r.Int64N(int64(faultyTime-lo)))
	}
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	add := func(at time.Duration, run func(context.Context), format string, a ...any) {
		w.events = append(w.events, planned{at, fmt.Sprintf(format, a...), run})
	}
	for i := range 1 + r.IntN(3) {
		at, what := some(0), flavour(r.IntN(int(flavours)))
		if i == 0 {
			at, what = between(0, 20*time.Second), good
		}
		ref := fmt.Sprintf("r%d", i+1)
		add(at, func(ctx context.Context) { w.push(ctx, ref, what) }, "release %s of flavour %d is pushed", ref, what)
	}
	for _, h := range w.hosts {
		for range r.IntN(3) {
			down, reboot := between(time.Second, 90*time.Second), r.IntN(3) == 0
			if r.IntN(4) == 0 {
				add(some(0.02), func(context.Context) { h.restart(down) }, "%s is restarted for %s", h.name, down)
				continue
			}
			add(some(0.02), func(context.Context) { h.kill(down, reboot) }, "%s dies for %s (reboot: %t)", h.name, down, reboot)
		}
		if r.IntN(3) == 0 {
			at, d := some(0), between(5*time.Second, 2*time.Minute)
			add(at, func(context.Context) { w.faults.count("host: partitioned"); h.link.partition() }, "%s is partitioned for %s", h.name, d)
			add(at+d, func(context.Context) { h.link.heal() }, "%s is reachable again", h.name)
		}
		if r.IntN(6) == 0 {
			d := between(-6*time.Hour, 6*time.Hour)
			add(some(0), func(context.Context) { w.faults.count("host: wall clock jumped"); h.time.jump(d) }, "the wall clock of %s jumps by %s", h.name, d)
		}
	}
	for range r.IntN(3) {
		down := between(time.Second, time.Minute)
		if r.IntN(3) == 0 {
			add(some(0.02), func(context.Context) { w.server.restart(down) }, "the server is restarted for %s", down)
			continue
		}
		add(some(0.02), func(context.Context) { w.server.kill(down) }, "the server dies for %s", down)
	}
	restores := r.IntN(5) == 0 && w.hostLife != shortLife
	if restores { // a certificate that was renewed since a backup is unknown to it
		at, later, down := some(0.2)*3/4, between(10*time.Second, 2*time.Minute), between(time.Second, time.Minute)
		add(at, func(context.Context) { w.server.backup() }, "a backup of the log is taken")
		add(min(at+later, faultyTime-time.Second), func(context.Context) { w.server.restore(down) }, "the server is restored from it and is down for %s", down)
	}
	for range r.IntN(5) {
		verb, pick := r.IntN(len(verbs)), r.IntN(1<<16)
		if restores && verbs[verb].name == revoke {
			continue
		}
		add(some(0.05), func(ctx context.Context) { w.operate(ctx, verb, pick) }, "an operator does: %s", verbs[verb].name)
	}
	slices.SortStableFunc(w.events, func(a, b planned) int { return int(a.at - b.at) })
}

// play runs the schedule: a time with faults, then one in which all has to come to
// rest, then the end of every process.
func (w *world) play() {
	ctx, stop := context.WithCancel(context.Background())
	var processes, doing sync.WaitGroup
	processes.Go(func() { w.server.run(ctx) })
	select {
	case <-w.server.up:
		w.url, w.serverCA = "https://localhost:8443", w.server.ca()
	case <-time.After(2 * time.Minute):
		w.violate("L3", "the server never came up")
	}
	if !w.failed() {
		for _, h := range w.hosts {
			processes.Go(func() { h.run(ctx) })
		}
		processes.Go(func() { w.watch(ctx) })
		if w.seed%4 == 0 {
			processes.Go(func() { w.follow(ctx) })
		}
		for _, e := range w.events {
			pause(ctx, time.Until(w.begun.Add(e.at)))
			if w.failed() {
				break
			}
			w.trace("planned: %s", e.words)
			doing.Go(func() { e.run(ctx) })
		}
		pause(ctx, time.Until(w.begun.Add(faultyTime)))
		doing.Wait()
	}
	if !w.failed() {
		w.calm(ctx)
	}
	if !w.failed() {
		w.checkRunning(ctx)
	}
	stop()
	processes.Wait()
	w.net.close()
	if !w.failed() {
		w.checkDisks()
	}
	for _, h := range w.hosts {
		disks.Delete(h.disk.dir)
	}
}

// ca is the authority that hosts believe.
func (s *serverProcess) ca() []byte {
	if running := s.running(); running != nil {
		return running.ServerCA()
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, "pki", "server-ca.pem"))
	if err != nil {
		s.w.violate("setup", "%v", err)
	}
	return raw
}

// calm ends the faults, undoes what operators did, and pushes one last good release:
// every host has to come to it.
func (w *world) calm(ctx context.Context) {
	w.faults.calm.Store(true)
	w.trace("calm")
	for _, h := range w.hosts {
		h.link.heal()
		h.link.die() // what was muted is gone
		h.time.jump(0)
	}
	w.net.link("operator").die()
	end := time.Now().Add(calmTime)
	w.undo(ctx, end)
	const last = "last"
	pause(ctx, backTime)
	for !w.push(ctx, last, good) && time.Now().Before(end) {
		pause(ctx, 5*time.Second)
	}
	patience := time.Now().Add(3 * time.Minute)
	for time.Now().Before(end) && !w.failed() {
		if time.Now().After(patience) {
			w.cancel(ctx, last)
			patience = time.Now().Add(time.Minute)
		}
		if w.settled(last) {
			// Certificates are renewed within their life, or nobody is heard after it.
			if until := w.begun.Add(shortLife * 3 / 2); w.hostLife == shortLife && time.Now().Before(until) {
				pause(ctx, time.Until(until))
				continue
			}
			return
		}
		pause(ctx, 5*time.Second)
	}
	w.violate("L3", "the fleet did not come to %s within %s of calm: %s", last, calmTime, w.unsettled(ctx, last))
}

// undo has operators let everything go on.
func (w *world) undo(ctx context.Context, end time.Time) {
	for !w.tryUndo(ctx) && time.Now().Before(end) {
		pause(ctx, 5*time.Second)
	}
}

func (w *world) tryUndo(ctx context.Context) bool {
	op := w.server.client()
	if op == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	rollouts, err := op.Rollouts(ctx)
	w.mu.Lock()
	froze := w.froze
	w.mu.Unlock()
	if froze { // hosts may know of it though the log was restored
		err = errors.Join(err, sign(ctx, op, fleet.OverrideUnfreeze, "calm"))
	}
	for i := range rollouts {
		if r := &rollouts[i]; r.Status == "paused" {
			err = errors.Join(err, op.Operate(ctx, plan.Resume, r.Name, "calm"))
		}
	}
	for _, h := range w.hosts {
		if d, e := op.Host(ctx, h.name); e == nil && d.FrozenUntil != 0 {
			err = errors.Join(err, op.Unfreeze(ctx, h.name, "calm"))
		}
	}
	w.trace("undo: %v", err)
	return err == nil
}

// cancel has operators end what holds the last release up.
func (w *world) cancel(ctx context.Context, last string) {
	op := w.server.client()
	if op == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	rollouts, err := op.Rollouts(ctx)
	for i := range rollouts {
		if r := &rollouts[i]; r.Ref != last && r.EndedAt == 0 && r.OpenedAt != 0 {
			w.trace("cancel %s (%s): %v", r.Name, r.Blocked, op.Operate(ctx, plan.Cancel, r.Name, "it holds "+last+" up"))
		}
	}
	w.trace("what holds %s up was asked: %v", last, err)
}

// settled says whether every host has the release on its disk, reported it, and was
// heard.
func (w *world) settled(ref string) bool {
	for _, h := range w.hosts {
		s := h.status()
		if s == nil || h.onDisk() != ref || s.Machine.Phase != "converged" || s.AckedSeq != s.LastSeq || s.Offer != nil {
			return false
		}
	}
	op := w.server.client()
	if op == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rollouts, err := op.Rollouts(ctx)
	if err != nil || len(rollouts) == 0 {
		return false
	}
	for i := range rollouts {
		if r := &rollouts[i]; r.Ref == ref && r.EndedAt == 0 {
			return false
		}
	}
	return true
}

func (w *world) unsettled(ctx context.Context, ref string) string {
	words := ""
	for _, h := range w.hosts {
		if s := h.status(); s == nil {
			words += h.name + " is down; "
		} else {
			words += fmt.Sprintf("%s has %q, %s of %s, acked %d of %d, %s %s; ", h.name, h.onDisk(), s.Machine.Phase, s.Machine.Rollout, s.AckedSeq, s.LastSeq, s.Server, s.Refused)
		}
	}
	if op := w.server.client(); op != nil {
		for _, h := range w.hosts {
			if a, err := op.Why(ctx, h.name); err == nil {
				words += fmt.Sprintf("why %s: %s %s; ", h.name, a.Status, a.Message)
			}
		}
	}
	text, err := w.server.status(ctx)
	return fmt.Sprintf("%s\n%s %v", words, text, err)
}
