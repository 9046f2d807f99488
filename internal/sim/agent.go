package sim

import (
	"errors"
	"strconv"

	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
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

	core    host.Agent
	chain   []event.Entry // every event of this incarnation
	said    []event.Event // what each was made of
	acked   uint64
	inc     uint64
	trusted trust.State
	seen    edition       // the newest documents seen, where nothing is signed
	running digest.Digest // what really runs
	acting  digest.Digest // what is being activated, or empty
	stages  bool          // nothing is switched here without a reboot
	boasts  bool          // its heartbeats claim one event more than it has
	// its heartbeats go on and its reports do not, until faults end
	unreported bool
	unproven   bool            // a required control fails here
	unmet      bool            // another one fails here for good
	staged     int             // the boot in which something was staged, and one
	drift      map[string]bool // what a repair has to stop: true once that has begun
	serial     string          // of its certificate, and when that was issued
	issued     clock.Instant

	enrolments int32 // counts them: each gives another serial

	copied    bool   // its state is copied some time: chains and processes are told apart
	copy, of  *agent // a second agent on the same identity, and the first one
	fate      fate   // what people do once the server refuses it
	attended  bool   // they know of it
	left, out bool   // it stays cut off; it is off for good
	enrolling bool   // again

	// volatile
	life        int32 // counts lives; what an earlier one planned is void
	up          bool
	partitioned int
	sending     bool
	asked       int // the long-poll that is open
	parkedAt    uint64
	probing     int
	dueAt       clock.Instant
	follower    *verify.Follower
	heard       digest.Digest // which list of overrides it took whole, and in which epoch
	heardIn     uint64
	working     map[string]bool // repairs that are timed to end
	gaveUp      []string        // repairs that failed in the present window
	mark        uint64          // that the server gave this process last
	quiet       clock.Duration  // is left until the next beat
	wakes       func()          // is wake, which thousands of tasks run
}

func newAgent(w *World, name string, skew clock.Instant) *agent {
	a := &agent{w: w, name: name, key: name, skew: skew, drift: map[string]bool{}, working: map[string]bool{}}
	a.wakes = a.wake
	return a
}

func (a *agent) now() clock.Instant { return a.w.now + a.skew }

func (a *agent) bootID() string { return "boot" + strconv.Itoa(a.boot) }

// cut reports whether no message passes: by partition, or because the bundle
// that runs took the network down.
func (a *agent) cut() bool {
	return !a.up || a.partitioned > 0 || a.w.now < a.w.calm && a.w.bundles[a.running].on(a.name) == cutsContact
}

// later has run called in d if the agent still lives its present life.
func (a *agent) later(d clock.Duration, run func()) {
	w := a.w
	w.order++
	w.queue.push(task{at: w.now.Add(max(d, 0)), order: w.order, run: run, of: a, life: a.life})
}

// enrol gives the host its identity; the server has to be there for it.
func (a *agent) enrol() {
	s := a.w.server
	if a.out {
		return // it never does, or late
	}
	if s.down {
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
	a.inc, a.serial, a.issued, a.enrolling = ev.Incarnation, ev.Serial, s.now()/1000*1000, false
	if a.w.notary != nil {
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
	a.gaveUp, a.heard, a.heardIn = nil, "", 0
	a.w.trace("%s starts", a.name)
	if a.w.notary != nil {
		a.follow()
	}
	a.turn(func() []host.Effect {
		effects := a.step(host.Booted{BootID: a.bootID(), Current: a.running})
		return append(effects, a.core.Resume()...)
	})
	a.look()
	a.poll()
	a.beat()
	a.flush()
}

// crash ends the agent's process, or all of the machine; it comes back after a
// while. While a machine is off its own clock stands still.
func (a *agent) crash(down clock.Duration, reboot bool) {
	if !a.up || a.w.now >= a.w.calm {
		return
	}
	if reboot {
		a.boot++
		a.skew -= clock.Instant(down)
	}
	a.stop(down)
}

func (a *agent) stop(back clock.Duration) {
	if !a.up {
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

// turn is one transaction of the agent: what do changes and reports is durable
// together or not at all, and then its effects are carried out. A crash may come
// before and after the write.
func (a *agent) turn(do func() []host.Effect) {
	if !a.up {
		return
	}
	if a.w.faulty(HostCrash, 0.001) {
		a.w.trace("%s dies before a write", a.name)
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	effects := do()
	for _, e := range effects {
		if err := e.Run(durable{a}); err != nil {
			a.w.violate("core", "%v", err)
		}
	}
	if a.w.faulty(HostCrash, 0.002) {
		a.w.trace("%s dies between its journal and its effects", a.name)
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	for _, e := range effects {
		if err := e.Run(a); err != nil {
			a.w.violate("core", "%v", err)
		}
	}
	a.rest()
	a.flush()
}

// step moves the machine and journals what is notable.
func (a *agent) step(in host.Input) []host.Effect {
	before := a.core.Machine
	effects, report, err := a.core.Step(in, a.now())
	if illegal := (*host.IllegalError)(nil); errors.As(err, &illegal) {
		return nil
	}
	a.w.truth.stepped(a, &before, in)
	if report {
		ev, err := event.NewHostStepped(&before, &a.core.Machine, in)
		if err != nil {
			a.w.violate("core", "%v", err)
			return nil
		}
		a.record(ev)
	}
	return effects
}

// input is a turn of one step.
func (a *agent) input(in host.Input) { a.turn(func() []host.Effect { return a.step(in) }) }

// record puts an event into the outbox.
func (a *agent) record(ev event.Event) {
	e, err := event.NewEntry(a.now(), a.name, ev)
	if err != nil {
		a.w.violate("core", "%v", err)
		return
	}
	e.Incarnation, e.HostSeq = a.inc, uint64(len(a.chain))+1
	a.chain, a.said = append(a.chain, e), append(a.said, ev)
	a.w.truth.recorded(a, &e)
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
		if a.core.Repairs.Due().Reached(a.now()) {
			a.look()
		}
		a.turn(func() []host.Effect { return append(a.core.Expire(a.now()), a.step(host.Elapsed{})...) })
	})
}

// flush sends the outbox until it is acknowledged.
func (a *agent) flush() {
	if a.sending || !a.up || uint64(len(a.chain)) == a.acked || a.unreported {
		return
	}
	a.sending = true
	batch, said := a.chain[a.acked:len(a.chain):len(a.chain)], a.said[a.acked:len(a.chain):len(a.chain)]
	sent, acked := a.now(), a.acked
	a.w.send(a, func() {
		s := a.w.choose()
		if s.down || !s.seen(a, acked) {
			return
		}
		if acked, ok := s.take(a, batch, said); ok {
			a.w.truth.acknowledged(a, acked)
			a.w.send(a, func() { a.ackedBy(acked, sent) })
		}
	})
	a.later(a.w.between(2*clock.Second, 8*clock.Second), func() {
		a.sending = false
		a.flush()
	})
}

// ackedBy takes where the server says that it stands, which may be behind: it was
// restored from a backup, and is sent again what it forgot.
func (a *agent) ackedBy(upTo uint64, sent clock.Instant) {
	if upTo <= uint64(len(a.chain)) {
		a.acked = upTo
	}
	a.contact(sent)
	a.flush()
}

// contact tells the machine of an answer to a request made since activation.
func (a *agent) contact(sent clock.Instant) {
	if a.up && sent >= a.core.Machine.CompletedAt && (a.core.Machine.ConfirmBy != 0 || a.core.Machine.BlameBy != 0) {
		a.input(host.Contact{})
	}
}

// beat says again and again that the host is there; more often while the machine
// waits for contact.
func (a *agent) beat() {
	every := a.w.between(40*clock.Second, 70*clock.Second)
	if m := &a.core.Machine; m.ConfirmBy != 0 || m.BlameBy != 0 {
		every = a.w.between(3*clock.Second, 10*clock.Second)
	}
	a.quiet = every
	a.rests()
	a.greet()
}

// greet is one heartbeat. How far the host's events go is said to the process that the
// request was made to: one that begins later never hears it.
func (a *agent) greet() {
	sent, acked, process, mark := a.now(), a.acked, a.process(), a.mark
	if a.boasts && a.w.now < a.w.calm {
		acked = uint64(len(a.chain)) + 1
	}
	last, term, repairing := uint64(len(a.chain)), a.w.log.term, a.core.Repairs.Grant
	a.w.send(a, func() {
		s := a.w.choose()
		if s.down || !s.seen(a, acked) {
			return
		}
		mark := s.beats(a, process, mark)
		if s.down {
			return
		}
		if h := s.state.Hosts[a.name]; h != nil && h.Incarnation == a.inc {
			if s.term <= term && (repairing == "" || h.Grant != nil && h.Grant.Claimed && h.Grant.ID == repairing) {
				s.told[a.name] = last
			}
			at, words, root, release := h.Seq, s.words(), s.state.Root.Version, s.edition()
			a.w.send(a, func() {
				a.catchUp(root, release)
				a.learn(words)
				if process == a.process() {
					a.mark = mark
				}
				if at < a.acked && a.up {
					a.acked = at
					a.flush()
				}
				a.contact(sent)
			})
		}
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
	if m := &a.core.Machine; a.quiet <= 0 || m.ConfirmBy != 0 || m.BlameBy != 0 {
		a.beat()
		return
	}
	a.rests()
}

// poll asks for a grant and waits for one.
func (a *agent) poll() {
	a.asked++
	id, acked := a.asked, a.acked
	a.w.send(a, func() {
		s := a.w.choose()
		if s.down || a.asked != id || !s.seen(a, acked) {
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
		a.greet()
	})
}

// granted verifies a grant and hands it to the reducer. One that is offered again
// while it is under way is not verified again before its claim, as in the agent.
func (a *agent) granted(g plan.Grant, from origin) {
	var hp fleet.HostPlan
	if held := a.core.Offer; held != nil && held.Grant == g.ID {
		hp = held.Plan
	} else if p, ok := a.planOf(&g, from.release); ok {
		hp = p
	} else {
		return
	}
	o := host.Offer{Grant: g.ID, Purpose: g.Purpose, Term: from.term, Plan: hp, Reason: g.Reason,
		Expires: a.now().Add(g.Expires.Sub(from.at))}
	o.Within(hp.Windows, a.w.now.Add(a.wall), a.now(), trust.Slack)
	a.turn(func() []host.Effect {
		seen, held := a.core.MaxTerm, a.core.Offer
		again := held != nil && held.Grant == o.Grant && held.Prepared
		effects := a.core.Granted(o, a.now())
		a.w.truth.offered(a, &o, seen, again)
		return effects
	})
}
