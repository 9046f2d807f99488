// Package sim is a fleet in a box: the real planner, the real host machine, the
// real reducer of the agent and, in a share of the schedules, its real code of
// trust, on a network, clocks and a log of its own. One seed is one history.
// Every invariant is checked after every event, and a failure prints the seed
// that replays it.
package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// Share says in which schedules something that is costly is done.
type Share uint8

// Some leaves it to the seed.
const (
	Some Share = iota
	Never
	Always
)

// of says whether the seed is one of every nth.
func (s Share) of(seed, n uint64) bool { return s == Always || s == Some && seed%n == 0 }

// Config says what to play. The zero value of a field takes its default.
type Config struct {
	Seed     uint64
	Hosts    int            // 2 to 12 drawn from the seed by default
	Faulty   clock.Duration // how long faults are injected; 15 minutes by default
	Releases int            // 1 to 4 by default
	// Without leaves out planned faults, by their numbers in the plan, and Disabled
	// kinds of chance.
	Without  []int
	Disabled FaultKind
	// Trust has hosts verify signed documents that a lying server gives them: of
	// every 16th seed by default. Otherwise they take plans from the library.
	Trust Share
	// Model holds every tick against the specification: of every 16th seed by default.
	Model Share
	// Restore has the server be restored from a backup: in one of eight schedules by
	// default.
	Restore Share
	// Liars has hosts be taken over: in one of twelve schedules by default.
	Liars Share
	// Labs has sessions come and go, by the runner as it ships: up to so many. None by default.
	Labs int
	// Drill plays an incident instead of a drawn fleet; see Drill.Seed.
	Drill *Drill
	// Trace, if set, is given each thing that happens, in words.
	Trace func(at clock.Instant, words string)
}

// Result is what came of a schedule.
type Result struct {
	Seed       uint64
	Hosts      int
	Releases   int
	Events     int // committed to the log
	Steps      int // messages, timers and faults played
	Elapsed    clock.Duration
	Faults     []string // that were planned, in words
	Violations []audit.Violation
	// Affected counts the hosts that ever ran a bundle that harms them, by
	// bundle.
	Affected map[digest.Digest]int
	// Disrupted is the most hosts that were repaired at once.
	Disrupted int
	// Refused counts documents that hosts did not accept.
	Refused int
	// Labs counts what came of sessions and of what is below them, by kind and phase.
	Labs map[string]int
}

// epoch is when every world begins, on the server's clock.
const epoch clock.Instant = 1_700_000_000_000

// lookEvery is how often it is asked whether all is at rest while the log does not
// grow.
const lookEvery = 2 * clock.Second

// World is one schedule as it is played.
type World struct {
	cfg       Config
	rand      *rand.Rand
	now       clock.Instant
	queue     clock.Queue[task]
	polls     uint64
	steps     int
	fleet     *declared
	overrides []gate.AcceptedOverride // that operators signed, and have in files
	drafts    int                     // of such overrides
	docs      library
	bundles   map[digest.Digest]bundle
	listed    map[string][]fleet.ManifestRef
	version   uint64                      // of the newest release, counted over all epochs
	epoch     uint64                      // of keys, and the version of the newest root
	starts    []uint64                    // how many releases there were before each epoch
	rebuild   bool                        // the next release has the content of the last one
	built     map[string][]digest.Digest  // that content, by channel
	backTo    uint64                      // the release that is rolled back to, or zero
	verdicts  []event.ComplianceEvaluated // on the newest release
	// releases is what each version listed, by channel.
	releases  []map[string][]fleet.ManifestRef
	publisher *publisher // of a schedule with signed documents, or nil
	log       *store
	modelled  bool
	server    *server
	stale     *server // a leader that was replaced and does not know it, or nil
	paused    bool    // a leader that was replaced has yet to wake up
	hosts     map[string]*agent
	agents    []*agent // in the order of names
	plan      []fault
	faultsEnd clock.Instant // from here on no fault is injected
	end       clock.Instant
	impatient clock.Duration // after which operators end the wait of a restored server
	showed    clock.Instant  // by the server's clock, when it was set right
	found     []audit.Violation
	checks    checker
	sittings  []sitting
	roster    map[string]fleet.RosterHost // as sessions see it
	auditor   auditor                     // an operator who looks at evidence
	early     []intent                    // of operators who wait for the next release
	touched   bool                        // a host changed since the last look
	ending    bool                        // identities end in this schedule
	lying     bool                        // hosts are taken over in it
	lied      map[string]bool
	serials   int
	revoked   []fleet.Revocation // by the newest release
	removed   []string           // hosts that fleet files name no more
	looked    clock.Instant
	seen      int // events in the log at the last look
}

// after has run called d from now.
func (w *World) after(d clock.Duration, run func()) {
	w.queue.Push(w.now.Add(max(d, 0)), task{run: run})
}

func (w *World) trace(format string, a ...any) {
	if w.cfg.Trace != nil {
		w.cfg.Trace(w.now, fmt.Sprintf(format, a...))
	}
}

// between draws a duration.
func (w *World) between(lo, hi clock.Duration) clock.Duration {
	return lo + clock.Duration(w.rand.Int64N(int64(hi-lo)+1))
}

// Run plays one schedule to its end: a time with faults, then a calm time in
// which everything that can settle has to.
func Run(cfg Config) Result {
	w := build(cfg)
	w.play()
	return w.result()
}

func (w *World) play() {
	for w.queue.Len() > 0 && len(w.found) == 0 {
		at, t := w.queue.Pop()
		if at > w.end {
			w.violate("L3", "not at rest %s after the last fault: %s", w.end.Sub(w.faultsEnd), w.unsettled())
			break
		}
		w.now = at
		w.steps++
		if t.due() {
			t.run()
		}
		if w.touched {
			w.touched = false
			w.checkBudgets()
		}
		if w.now > w.faultsEnd && (w.now.Sub(w.looked) >= lookEvery || len(w.log.entries) != w.seen) {
			w.looked, w.seen = w.now, len(w.log.entries)
			w.checkMoves()
			w.checkPace()
			w.checkHonest()
			if w.settled() && w.atRest() { // the cheaper question first
				break
			}
		}
	}
	if len(w.found) == 0 {
		w.checkEnd()
	}
}

func (w *World) result() Result {
	r := Result{Seed: w.cfg.Seed, Hosts: len(w.agents), Releases: w.cfg.Releases, Events: len(w.log.entries), Steps: w.steps,
		Elapsed: w.now.Sub(epoch), Violations: w.found, Affected: map[digest.Digest]int{}, Disrupted: w.checks.repairing, Refused: w.checks.refused, Labs: w.checks.labs.phases}
	for i := range w.plan {
		r.Faults = append(r.Faults, w.plan[i].words)
	}
	for a := range w.checks.affected { // order-free: it only counts
		r.Affected[a.what]++
	}
	return r
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
	w := &World{cfg: cfg, now: epoch, checks: newChecker(), docs: library{}, bundles: map[digest.Digest]bundle{},
		epoch: 1, starts: []uint64{0}, built: map[string][]digest.Digest{},
		listed: map[string][]fleet.ManifestRef{}, hosts: map[string]*agent{}, lied: map[string]bool{}, faultsEnd: epoch.Add(cfg.Faulty)}
	w.end = w.faultsEnd.Add(max(4*clock.Hour, cfg.Faulty/15))
	if cfg.Drill != nil {
		w.fleet = cfg.Drill.fleet()
	} else {
		w.fleet = draw(r, cfg.Hosts)
	}
	// What is planned and what chance adds are drawn from streams of their own: a
	// fault that is left out does not change the others.
	w.rand = rand.New(rand.NewPCG(cfg.Seed, 0x4348414e4345))
	if cfg.Trust.of(cfg.Seed, 16) {
		w.publisher = newPublisher(w)
	}
	w.modelled = cfg.Model.of(cfg.Seed, 16)
	w.log = newStore(w)
	w.server = newServer(w)
	for i, name := range w.fleet.hosts {
		a := newAgent(w, name, clock.Instant(i+1)*clock.Instant(clock.Hour))
		a.stages = r.IntN(4) == 0
		if w.labs() {
			a.lodging = newLodging()
		}
		w.hosts[name] = a
		w.agents = append(w.agents, a)
		w.after(w.between(0, 20*clock.Second), a.enrol)
	}
	p := planning{w: w, r: rand.New(rand.NewPCG(cfg.Seed, 0x4d4953484150))}
	if cfg.Drill != nil {
		cfg.Drill.plan(&p)
	} else {
		p.all()
		p.operators()
	}
	for i := range w.plan {
		if m := &w.plan[i]; !slices.Contains(cfg.Without, i) {
			w.after(m.at.Sub(epoch), func() {
				w.trace("fault %d: %s", i, m.words)
				m.run()
			})
		}
	}
	w.after(cfg.Faulty, w.endFaults)
	w.after(cfg.Faulty, w.pass)
	return w
}

// pass has time go by where nothing else happens, so that a rest is seen.
func (w *World) pass() { w.after(5*clock.Second, w.pass) }

func (w *World) violate(invariant, format string, a ...any) {
	w.found = append(w.found, audit.Violation{Invariant: invariant, Message: fmt.Sprintf(format, a...)})
}
