package sim

import (
	"strconv"

	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/trust"
)

// agent drives the agent's reducer as the real agent does: state and events are
// durable together, then the effects are carried out. What the fields above
// "volatile" hold survives a crash.
type agent struct {
	w    *World
	name string
	key  string         // its name to those who tell copies apart
	skew clock.Instant  // its clock is the world's and this
	wall clock.Duration // its wall clock is the world's and this
	boot int

	core       core.State
	chain      []event.Entry // every event of this incarnation
	events     []event.Event // what each was made of
	acked      uint64
	inc        uint64
	trusted    trust.State
	seen       edition       // the newest documents seen, where nothing is signed
	running    digest.Digest // what really runs
	acting     digest.Digest // what is being activated, or empty
	leaving    bool          // it goes back
	stages     bool          // nothing is switched here without a reboot
	overclaims bool          // its heartbeats claim one event more than it has
	liar       *liar         // has it, or nil
	// its heartbeats go on and its reports do not, until faults end
	unreported bool
	unproven   bool             // a required control fails here
	unmet      bool             // another one fails here for good
	facts      *event.HostFacts // of the machine; nil: the agent is too old to tell
	staged     int              // the boot in which something was staged, and one
	vain       int              // the boot that did not help a repair that rebooted for it, and one
	drift      map[string]bool  // what a repair has to stop: true once that has begun
	restaged   map[string]int   // of those, the boot in which the repair began to wait for the next, and one
	serial     string           // of its certificate, and when that was issued
	issued     clock.Instant

	enrolments int32 // counts them: each gives another serial

	witnessed witnessed // by the judge

	copied    bool     // its state is copied some time: chains and processes are told apart
	copy, of  *agent   // a second agent on the same identity, and the first one
	response  response // what people do once the server refuses it
	escalated bool     // they know of it
	setBack   bool     // its state is older than what it did, until it enrols again
	anchored  uint64   // the event that its anchor names
	left, out bool     // it stays cut off; it is off for good
	enrolling bool     // again

	lodging *lodging // nil where there are no sessions

	disputed bool // the server claims to have more of its events than there are

	// volatile
	startedAt   clock.Instant // on the world's clock
	confirmed   bool          // the server answered since, and has no newer events
	life        int32         // counts lives; what an earlier one planned is void
	up          bool
	partitioned int
	sending     bool
	asked       int // the long-poll that is open
	parkedAt    uint64
	probing     int64
	dueAt       clock.Instant
	follower    *verify.Follower
	listed      digest.Digest // which list of overrides it took whole, and in which epoch
	listedIn    uint64
	working     map[string]bool // repairs that are timed to end
	gaveUp      []string        // repairs that failed in the present window
	mark        uint64          // that the server gave this process last
	quiet       clock.Duration  // is left until the next beat
	wakes       func()          // is wake, which thousands of tasks run
}

func newAgent(w *World, name string, skew clock.Instant) *agent {
	a := &agent{w: w, name: name, key: name, skew: skew, drift: map[string]bool{}, restaged: map[string]int{}, working: map[string]bool{}}
	a.wakes = a.wake
	return a
}

func (a *agent) now() clock.Instant { return a.w.now + a.skew }

func (a *agent) bootID() string { return "boot" + strconv.Itoa(a.boot) }

// cut reports whether no message passes: by partition, or because the bundle
// that runs took the network down.
func (a *agent) cut() bool {
	return !a.up || a.partitioned > 0 || a.suffers(a.running) == cutsContact
}

// suffers is what a bundle does to the host now: what takes the network or the
// agent away ends with the time of faults, so that the host converges after it.
func (a *agent) suffers(bundle digest.Digest) defect {
	f := a.w.bundles[bundle].on(a.name)
	if (f == cutsContact || f == kills) && a.w.now >= a.w.faultsEnd {
		return sound
	}
	return f
}

// later has run called in d if the agent still lives its present life.
func (a *agent) later(d clock.Duration, run func()) {
	a.w.queue.Push(a.w.now.Add(max(d, 0)), task{run: run, of: a, life: a.life})
}

// enrol gives the host its identity; the server has to be there for it.
func (a *agent) enrol() {
	s := a.w.server
	if a.out {
		return // it never does, or late
	}
	if s.away() {
		a.w.after(5*clock.Second, a.enrol)
		return
	}
	if !s.admits(a.name) || !s.verifies(a.name) {
		a.w.after(30*clock.Second, a.enrol)
		return
	}
	ev := a.enrolled(s)
	if !s.commit(plan.Record(s.state, a.name, s.now(), ev)) {
		a.w.after(5*clock.Second, a.enrol)
		return
	}
	a.enrolments++
	if a.lodging != nil {
		a.lodging = newLodging()
	}
	a.inc, a.serial, a.issued, a.enrolling = ev.Incarnation, ev.Serial, s.now()/1000*1000, false
	if a.w.publisher != nil {
		a.trusted = s.begins()
	}
	a.w.backedUp()
	a.start()
}

func (a *agent) start() {
	a.up = true
	a.life++
	a.sending, a.dueAt, a.mark = false, 0, 0
	clear(a.working)
	a.gaveUp, a.listed, a.listedIn = nil, "", 0
	a.w.trace("%s starts", a.name)
	if a.w.publisher != nil {
		a.follow()
	}
	a.startedAt, a.confirmed = a.w.now, false
	a.lodgesAgain()
	a.step(core.Started{BootID: a.bootID(), Current: a.core.Machine.Current, SetBack: a.behindAnchor(), Confirm: true})
	a.poll()
	a.beat()
	a.flush()
}

// crash ends the agent's process, or all of the machine; it comes back after a
// while. While a machine is off its own clock stands still.
func (a *agent) crash(down clock.Duration, reboot bool) {
	if !a.up || a.lies() || a.w.now >= a.w.faultsEnd {
		return
	}
	if reboot {
		a.boot++
		a.lodging.reboot()
		a.skew -= clock.Instant(down)
	}
	a.stop(down)
}

func (a *agent) stop(back clock.Duration) {
	if !a.up || a.lies() {
		return
	}
	a.up = false
	a.w.touched = true
	a.w.trace("%s dies", a.name)
	life := a.life
	a.w.after(back, func() {
		if a.life == life {
			a.start()
		}
	})
}

// step is one transaction of the agent: what the reducer changes and reports is
// durable together or not at all, and then its effects are carried out. A crash may
// come before and after the write.
func (a *agent) step(in core.Input) {
	if !a.up || a.lies() {
		return
	}
	if a.w.faulty(HostCrash, 0.001) {
		a.w.trace("%s dies before a write", a.name)
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	before := a.core
	t, err := a.core.Step(in, a.now())
	if err != nil {
		a.w.violate("core", "%v", err)
	}
	a.w.checks.stepped(a, &before, in, &t)
	for _, ev := range t.Events {
		a.record(ev)
	}
	if a.w.faulty(HostCrash, 0.002) {
		a.w.trace("%s dies between its journal and its effects", a.name)
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	for _, e := range t.Effects {
		if err := e.Run(a); err != nil {
			a.w.violate("core", "%v", err)
		}
	}
	a.rest()
	a.flush()
}

// record puts an event into the outbox.
func (a *agent) record(ev event.Event) {
	e, err := event.NewEntry(a.now(), event.HostSubject(a.name), ev)
	if err != nil {
		a.w.violate("core", "%v", err)
		return
	}
	e.Incarnation, e.HostSeq = a.inc, uint64(len(a.chain))+1
	a.chain, a.events = append(a.chain, e), append(a.events, ev)
	a.anchored = max(a.anchored, e.HostSeq)
	a.w.checks.recorded(a, &e)
}

// rest sleeps until the reducer is due.
func (a *agent) rest() {
	due := a.core.Due()
	if due == 0 || due == a.dueAt {
		return
	}
	a.dueAt = due
	a.later(due.Sub(a.now()), func() {
		a.dueAt = 0
		a.step(core.Elapsed{})
	})
}

// flush sends the outbox until it is acknowledged.
func (a *agent) flush() {
	if a.sending || !a.up || a.lies() || uint64(len(a.chain)) == a.acked || a.unreported || a.core.Parked != nil {
		return
	}
	a.sending = true
	chain := a.chain
	batch, said := chain[a.acked:len(chain):len(chain)], a.events[a.acked:len(a.chain):len(a.chain)]
	era := a.core.Era()
	a.w.send(a, func() {
		s := a.w.choose()
		if s.away() || !s.seen(a) {
			return
		}
		if acked, ok := s.ingest(a, chain, batch, said); ok {
			a.w.checks.acknowledged(a, acked)
			served := s.served()
			a.w.send(a, func() { a.ackedBy(acked, core.Contact{Era: era, Served: served}) })
		}
	})
	a.later(a.w.between(2*clock.Second, 8*clock.Second), func() {
		a.sending = false
		a.flush()
	})
}

// ackedBy takes where the server says that it stands, which may be behind: it was
// restored from a backup, and is sent again what it forgot.
func (a *agent) ackedBy(upTo uint64, contact core.Contact) {
	if last := uint64(len(a.chain)); (core.Outbox{Oldest: 1, Acked: a.acked, Last: last}).Resume(0, upTo, "") == nil {
		a.acked = upTo
	}
	a.contact(contact)
	a.flush()
}

// contact is an answer to a request.
func (a *agent) contact(in core.Contact) {
	if a.core.AwaitsContact() {
		a.step(in)
	}
}

// beat says again and again that the host is there; more often while the machine
// waits for contact.
func (a *agent) beat() {
	every := a.w.between(40*clock.Second, 70*clock.Second)
	if a.core.AwaitsContact() {
		every = a.w.between(3*clock.Second, 10*clock.Second)
	}
	a.quiet = every
	a.rests()
	a.heartbeat()
}

// heartbeat says that the host is there and how far its events go, to the process that
// the request is made to: one that begins later never hears it.
func (a *agent) heartbeat() {
	if a.lies() {
		return
	}
	era, term, process := a.core.Era(), a.w.log.term, a.process()
	m := coreserver.Heartbeat{Incarnation: a.inc, LastSeq: uint64(len(a.chain)), Repairing: a.core.Repairs.Grant, Process: process, Mark: a.mark}
	m.Pending = m.LastSeq - a.acked
	if a.core.Parked != nil {
		m.Parked = a.core.Parked.Code
	}
	if a.overclaims && a.w.now < a.w.faultsEnd {
		m.LastSeq++
		m.Pending = 0
	}
	a.w.send(a, func() {
		s := a.w.choose()
		if s.away() || s.term > term || !s.seen(a) {
			return
		}
		answer := s.heartbeat(a, m)
		if h := s.state.Hosts[a.name]; s.away() || h == nil || h.Incarnation != a.inc {
			return
		}
		served := s.served()
		overrides, root, release := s.overrides(), s.state.Root.Version, s.edition()
		chain, life := s.chainOf(a, s.state.Hosts[a.name], &answer), a.life
		a.w.send(a, func() {
			if life == a.life {
				a.compared(chain)
			}
			if a.core.Parked != nil {
				return // it fetches and accepts nothing
			}
			a.measure()
			a.fetch()
			a.catchUp(root, release)
			a.receive(overrides)
			if process == a.process() {
				a.mark = answer.Mark
			}
			if acked, lost := (core.Outbox{Oldest: 1, Acked: a.acked}).Replay(answer.Acked); lost && a.up {
				a.acked = acked
				a.flush()
			}
			a.contact(core.Contact{Era: era, Served: served})
		})
	})
}

// rests sleeps a part of the interval between two beats.
func (a *agent) rests() {
	part := min(a.quiet, 10*clock.Second)
	a.quiet -= part
	a.later(part, a.wakes)
}

// wake waits for the rest of the interval, unless contact is wanted by now.
func (a *agent) wake() {
	if a.quiet <= 0 || a.core.AwaitsContact() {
		a.beat()
		return
	}
	a.rests()
}

// poll asks for a grant and waits for one.
func (a *agent) poll() {
	if a.lies() {
		return
	}
	a.asked++
	id := a.asked
	a.w.send(a, func() {
		s := a.w.choose()
		if s.away() || a.asked != id || !s.seen(a) {
			return
		}
		s.park(a, func(g *plan.Grant, at clock.Instant) {
			from := origin{term: s.term, release: s.edition(), at: at}
			a.w.send(a, func() {
				if a.asked == id && a.up {
					a.polled(g, from)
				}
			})
		})
	})
	a.later(75*clock.Second, func() {
		if a.asked == id {
			a.poll()
		}
	})
}

// origin is what a server adds to a grant: its term, its newest release, and when it
// answered.
type origin struct {
	term    uint64
	release edition
	at      clock.Instant
}

func (a *agent) polled(g *plan.Grant, from origin) {
	a.asked++
	if g == nil {
		a.poll()
		return
	}
	a.granted(*g, from)
	a.later(a.w.between(clock.Second, 5*clock.Second), a.poll)
}

// hungUp says that the server ended the connection.
func (a *agent) hungUp() {
	a.asked++
	a.later(a.w.between(clock.Second, 10*clock.Second), func() {
		a.poll()
		a.heartbeat()
	})
}

// granted verifies what a grant needs and gives it to the reducer.
func (a *agent) granted(g plan.Grant, from origin) {
	proof := a.core.Proof(g.ID, g.Purpose, g.Manifest)
	if proof == core.ProofIgnored {
		return
	}
	hp, newest, ok := a.planOf(&g, from.release, proof)
	if !ok {
		return
	}
	a.step(core.Granted{Grant: g.ID, Purpose: g.Purpose, Term: from.term, TTL: g.Expires.Sub(from.at), Reason: g.Reason, Plan: hp, Newest: newest,
		Wall: a.w.now.Add(a.wall), Slack: trust.Slack})
}
