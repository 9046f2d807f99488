// Package sim is a fleet in a box: the real planner, the real host machine and
// the real reducer of the agent, on a network and a clock of its own. One seed
// is one history. Every invariant is checked after every event, and a failure
// prints the seed that replays it.
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Config says what to play. The zero value of a field takes its default.
type Config struct {
	Seed     uint64
	Hosts    int            // 2 to 12 drawn from the seed by default
	Faulty   clock.Duration // how long faults are injected; 15 minutes by default
	Releases int            // 1 to 4 by default
	// Trace, if set, is given each thing that happens, in words.
	Trace func(at clock.Instant, words string)
}

// Result is what came of a schedule.
type Result struct {
	Seed       uint64
	Events     int // committed to the log
	Steps      int // messages, timers and faults played
	Elapsed    clock.Duration
	Violations []audit.Violation
}

// epoch is when every world begins, on the server's clock.
const epoch clock.Instant = 1_700_000_000_000

// World is one schedule as it is played.
type World struct {
	cfg     Config
	rand    *rand.Rand
	now     clock.Instant
	queue   queue
	order   uint64
	steps   int
	fleet   *declared
	docs    library
	bundles map[digest.Digest]bundle
	listed  map[string][]fleet.ManifestRef
	version uint64
	server  *server
	hosts   map[string]*agent
	calm    clock.Instant // from here on no fault is injected
	found   []audit.Violation
	truth   truth
}

// task is something that happens at an instant.
type task struct {
	at    clock.Instant
	order uint64
	run   func()
}

type queue []task

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(task)) }
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = task{}
	*q = old[:len(old)-1]
	return t
}

// after has run called d from now.
func (w *World) after(d clock.Duration, run func()) {
	w.order++
	heap.Push(&w.queue, task{w.now.Add(max(d, 0)), w.order, run})
}

func (w *World) trace(format string, a ...any) {
	if w.cfg.Trace != nil {
		w.cfg.Trace(w.now, fmt.Sprintf(format, a...))
	}
}

// faulty reports a fault with probability p while faults are on.
func (w *World) faulty(p float64) bool { return w.now < w.calm && w.rand.Float64() < p }

// between draws a duration.
func (w *World) between(lo, hi clock.Duration) clock.Duration {
	return lo + clock.Duration(w.rand.Int64N(int64(hi-lo)+1))
}

// Run plays one schedule to its end: a time with faults, then a calm time in
// which everything that can settle has to.
func Run(cfg Config) Result {
	w := build(cfg)
	end := w.calm.Add(4 * clock.Hour)
	for len(w.queue) > 0 && len(w.found) == 0 {
		t := heap.Pop(&w.queue).(task)
		if t.at > end {
			w.violate("L3", "not settled %s after the last fault: %s", end.Sub(w.calm), w.unsettled())
			break
		}
		w.now = t.at
		w.steps++
		t.run()
		w.checkTruth()
		if w.now > w.calm && w.server.quiet() && w.settled() {
			break
		}
	}
	if len(w.found) == 0 {
		w.checkEnd()
	}
	return Result{Seed: cfg.Seed, Events: len(w.server.log), Steps: w.steps, Elapsed: w.now.Sub(epoch), Violations: w.found}
}

func build(cfg Config) *World {
	r := rand.New(rand.NewPCG(cfg.Seed, 0x5745414459))
	if cfg.Hosts == 0 {
		cfg.Hosts = 2 + r.IntN(11)
	}
	if cfg.Faulty == 0 {
		cfg.Faulty = 15 * clock.Minute
	}
	if cfg.Releases == 0 {
		cfg.Releases = 1 + r.IntN(4)
	}
	w := &World{cfg: cfg, rand: r, now: epoch, docs: library{}, bundles: map[digest.Digest]bundle{},
		listed: map[string][]fleet.ManifestRef{}, hosts: map[string]*agent{}, calm: epoch.Add(cfg.Faulty)}
	w.fleet = draw(r, cfg.Hosts)
	w.server = newServer(w)
	for i, name := range w.fleet.hosts {
		a := newAgent(w, name, clock.Instant(i+1)*clock.Instant(clock.Hour))
		w.hosts[name] = a
		w.after(w.between(0, 20*clock.Second), a.enrol)
		w.mishaps(a)
	}
	for i := range cfg.Releases {
		at := w.between(0, cfg.Faulty)
		if i == 0 {
			at = w.between(0, clock.Minute)
		}
		w.after(at, w.server.push)
	}
	for range r.IntN(3) {
		w.after(w.between(0, cfg.Faulty), w.server.crash)
	}
	for range r.IntN(4) {
		w.after(w.between(0, cfg.Faulty), w.server.operate)
	}
	w.after(cfg.Faulty, w.server.relent)
	w.drifts()
	return w
}

// mishaps plans what goes wrong on one host.
func (w *World) mishaps(a *agent) {
	for range w.rand.IntN(3) {
		w.after(w.between(0, w.cfg.Faulty), a.crash)
	}
	if w.rand.IntN(3) == 0 {
		w.after(w.between(0, w.cfg.Faulty), func() {
			a.partitioned = true
			w.trace("%s is partitioned", a.name)
			w.after(w.between(clock.Second, 10*clock.Minute), func() {
				a.partitioned = false
				w.trace("%s is reachable again", a.name)
			})
		})
	}
}

// send delivers a message between a host and the server after some time, unless
// it is lost; it may be delivered twice.
func (w *World) send(a *agent, deliver func()) {
	if a.cut() || w.faulty(0.05) {
		return
	}
	w.after(w.between(1, 200), func() {
		if !a.cut() {
			deliver()
		}
	})
	if w.faulty(0.03) {
		w.after(w.between(1, 5000), func() {
			if !a.cut() {
				deliver()
			}
		})
	}
}

func (w *World) violate(invariant, format string, a ...any) {
	w.found = append(w.found, audit.Violation{Invariant: invariant, Words: fmt.Sprintf(format, a...)})
}
