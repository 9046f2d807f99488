package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Chance is a set of kinds of faults that are not planned: each comes up with a
// small probability wherever it can.
type FaultKind uint16

// The kinds.
const (
	Loss         FaultKind = 1 << iota // a message does not arrive
	Duplicate                          // it arrives twice
	Delay                              // it is overtaken by many others
	HostCrash                          // between any two writes of an agent
	ServerCrash                        // right before a commit
	SlowDownload                       // a preparation outlasts its grant
	Breakage                           // a download, a revert or a repair fails
	Lies                               // the server gives hosts wrong documents
	AllChance    = Lies<<1 - 1
)

var chanceNames = []string{"loss", "duplicates", "delays", "crashes of hosts", "crashes of the server", "slow downloads", "breakage", "lies"}

// Names lists the kinds in a set.
func (c FaultKind) Names() []string {
	var names []string
	for i, name := range chanceNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// faulty reports a fault of a kind with probability p while faults are on. It
// draws in any case, so that a kind that is quiet leaves the others' draws be.
func (w *World) faulty(kind FaultKind, p float64) bool {
	return w.now < w.faultsEnd && w.rand.Float64() < p && w.cfg.Disabled&kind == 0
}

// fault is something that is planned to happen.
type fault struct {
	at    clock.Instant
	words string
	run   func()
}

// planning draws what goes wrong, before anything happens.
type planning struct {
	w *World
	r *rand.Rand
}

func (p *planning) between(lo, hi clock.Duration) clock.Duration {
	return lo + clock.Duration(p.r.Int64N(int64(hi-lo)+1))
}

// some is an instant while faults are on, at the given part of that time or later.
func (p *planning) some(from float64) clock.Instant {
	d := p.w.cfg.Faulty
	return epoch.Add(p.between(clock.Duration(from*float64(d)), d))
}

func (p *planning) add(at clock.Instant, run func(), format string, a ...any) {
	p.w.plan = append(p.w.plan, fault{at: at, words: fmt.Sprintf("%s after %s", fmt.Sprintf(format, a...), at.Sub(epoch)), run: run})
}

func (p *planning) all() {
	w, r := p.w, p.r
	for i := range w.cfg.Releases {
		at := p.some(0)
		if i == 0 {
			at = epoch.Add(p.between(0, clock.Minute))
		}
		p.add(at, w.push, "a release is pushed")
	}
	for _, a := range w.agents {
		p.host(a)
	}
	for range r.IntN(3) {
		down := p.between(clock.Second, 2*clock.Minute)
		p.add(p.some(0), func() { w.server.crash(down) }, "the server dies for %s", down)
	}
	for range r.IntN(4) {
		verb, pick := r.IntN(len(verbs)), r.IntN(1<<16)
		p.add(p.some(0), func() { w.operate(verb, pick) }, "an operator presses %s", verbs[verb].name)
	}
	if r.IntN(4) == 0 {
		for range 1 + r.IntN(4) {
			pick := r.IntN(1 << 16)
			p.add(p.some(0), func() { w.sign(pick) }, "an operator signs an override")
		}
	}
	if r.IntN(4) == 0 {
		pause := p.between(clock.Second, 2*clock.Minute)
		p.add(p.some(0.1), func() { w.takeOver(pause) }, "the server is paused for %s and another takes over", pause)
	}
	if r.IntN(6) == 0 {
		jump := p.between(-10*clock.Minute, 10*clock.Minute)
		if r.IntN(4) == 0 { // by days: it stays, and hosts share its maintenance windows
			jump *= 6 * 24 * 30
			jump -= jump % clock.Day
		}
		p.add(p.some(0), func() { w.serverClock(jump) }, "the server's wall clock jumps by %s", jump)
	}
	if restores := r.IntN(8) == 0; restores && w.cfg.Restore != Never || w.cfg.Restore == Always {
		share := 0.2 + 0.8*r.Float64()
		down := p.between(clock.Second, 2*clock.Minute)
		p.add(p.some(0.2), func() { w.restore(share, down) }, "the server is restored from a backup of %.0f%% of its log", share*100)
	}
	p.lostTails()
	p.impatience()
	p.boasts()
	if !w.labs() {
		p.unenrolled()
	}
	p.silences()
	p.degrades()
	if w.labs() {
		p.labs()
	} else {
		p.facts()
		p.sessions()
	}
	p.drifts()
	if !w.labs() { // identities end where there are no sessions
		p.ends()
		p.setBacks()
	}
	p.prunes()
	p.rotations()
	if !w.labs() {
		p.liars()
	}
	w.modelled = w.modelled && !w.lying && !w.labs() // what liars report by no machine, the two may follow to different ends
}

// host plans what goes wrong on one host.
func (p *planning) host(a *agent) {
	w, r := p.w, p.r
	for range r.IntN(3) {
		down, reboot := p.between(clock.Second, 5*clock.Minute), r.IntN(3) == 0
		words := "dies"
		if reboot {
			words = "reboots"
		}
		p.add(p.some(0), func() { a.crash(down, reboot) }, "%s %s for %s", a.name, words, down)
	}
	if r.IntN(3) == 0 {
		d := p.between(clock.Second, 10*clock.Minute)
		p.add(p.some(0), func() { a.partition(d) }, "%s is partitioned for %s", a.name, d)
	}
	if r.IntN(12) == 0 {
		times, on, off := 3+r.IntN(6), p.between(clock.Second, clock.Minute), p.between(10*clock.Second, 4*clock.Minute)
		p.add(p.some(0), func() { w.flap(a, times, on, off) }, "%s flaps %d times, %s there and %s away", a.name, times, on, off)
	}
	if r.IntN(6) == 0 {
		jump := p.between(-2*clock.Day, 2*clock.Day)
		p.add(p.some(0), func() { a.wall += jump; a.lodge() }, "the wall clock of %s jumps by %s", a.name, jump)
	}
}

// degrades has hosts of some schedules fall over after they converged, and recover
// before the faults end. The draw is its own, so that other schedules stay as they are.
func (p *planning) degrades() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0xde64ade))
	if r.IntN(3) != 0 {
		return
	}
	for range 1 + r.IntN(4) {
		a, bundle := w.agents[r.IntN(len(w.agents))], r.IntN(4) > 0
		at := epoch.Add(clock.Duration(r.Int64N(int64(w.cfg.Faulty))))
		down := clock.Duration(r.Int64N(int64(20 * clock.Minute)))
		p.add(at, func() { w.degrade(a, bundle, min(down, w.faultsEnd.Sub(w.now))) }, "%s is degraded for %s", a.name, down)
		p.add(epoch.Add(w.cfg.Faulty), func() { w.recover(a) }, "%s recovers at last", a.name) // a backup may have lost that it did
	}
}

// degrade has the server decide that a host does not run what it should, and after a
// while that it does again. A server that is down at that time decides it later.
func (w *World) degrade(a *agent, bundle bool, down clock.Duration) {
	s := w.server
	h := s.state.Hosts[a.name]
	if s.away() || h == nil || h.Incarnation == 0 || h.Machine.Phase != host.Converged || h.Degraded != nil {
		return
	}
	ev := event.HostDegraded{Resources: []event.DegradedResource{{Resource: "workspace/api", State: "Error"}}, Bundle: bundle}
	if s.commit(plan.Record(s.state, a.name, s.now(), ev)) {
		w.after(max(down, 1), func() { w.recover(a) })
	}
}

func (w *World) recover(a *agent) {
	s := w.server
	if h := s.state.Hosts[a.name]; s.away() || s.waits() {
		w.after(10*clock.Second, func() { w.recover(a) })
	} else if h != nil && h.Degraded != nil && !s.commit(plan.Record(s.state, a.name, s.now(), event.HostRecovered{})) {
		w.after(10*clock.Second, func() { w.recover(a) })
	}
}

// boasts has a host of some schedules claim a history that it does not have. The draw
// is its own, so that other schedules stay as they are.
func (p *planning) boasts() {
	r := rand.New(rand.NewPCG(p.w.cfg.Seed, 0xb0a57))
	if r.IntN(12) != 0 {
		return
	}
	a := p.w.agents[r.IntN(len(p.w.agents))]
	at := epoch.Add(clock.Duration(r.Int64N(int64(p.w.cfg.Faulty))))
	p.add(at, func() { a.overclaims = true }, "%s begins to claim a longer history than it has", a.name)
}

// unenrolled has some hosts of a few schedules, or all of a channel, never enrol, or late.
// The draw is its own, so that other schedules stay as they are.
func (p *planning) unenrolled() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0x4e4556))
	if r.IntN(16) != 0 {
		return
	}
	w.ending = true
	channel, whole := w.fleet.channels[r.IntN(len(w.fleet.channels))], r.IntN(2) == 0
	for _, a := range w.agents {
		if there := r.IntN(4) > 0; whole && w.fleet.channelOf[a.name] != channel || !whole && there {
			continue
		}
		a.out = true
		if r.IntN(3) == 0 {
			at := epoch.Add(clock.Minute + clock.Duration(r.Int64N(int64(w.cfg.Faulty-clock.Minute)))) // its own attempt is over
			p.add(at, func() { a.out = false; a.enrol() }, "%s enrols late", a.name)
			continue
		}
		p.add(epoch, func() {}, "%s never enrols", a.name)
	}
}

// silences has hosts of some schedules keep up their heartbeats and report nothing. The
// draw is its own, so that other schedules stay as they are.
func (p *planning) silences() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0x51e4ce))
	if r.IntN(16) != 0 {
		return
	}
	for range 1 + r.IntN(2) {
		a := w.agents[r.IntN(len(w.agents))]
		at := epoch.Add(clock.Duration(r.Int64N(int64(w.cfg.Faulty))))
		p.add(at, func() { a.unreported = true }, "%s reports nothing from now on, and is there", a.name)
	}
}

// partition cuts a host off for a while.
func (a *agent) partition(d clock.Duration) {
	a.partitioned++
	a.w.trace("%s is partitioned", a.name)
	a.w.after(d, func() {
		if a.partitioned--; a.partitioned == 0 {
			a.w.trace("%s is reachable again", a.name)
		}
	})
}

// flap has a host come and go.
func (w *World) flap(a *agent, times int, on, off clock.Duration) {
	if times == 0 || w.now >= w.faultsEnd {
		return
	}
	a.partition(off)
	w.after(off+on, func() { w.flap(a, times-1, on, off) })
}

// cut reports whether a message gets nowhere.
func (w *World) lost(a *agent) bool { return a.cut() || w.faulty(Loss, 0.05) }

// send delivers a message between a host and the server after some time, unless
// it is lost; it may be delivered late, and twice.
func (w *World) send(a *agent, deliver func()) {
	if w.lost(a) {
		return
	}
	d := w.between(1, 200)
	if w.faulty(Delay, 0.03) {
		d = w.between(1, 30*clock.Second)
	}
	w.carry(a, d, deliver)
	if w.faulty(Duplicate, 0.03) {
		w.carry(a, w.between(1, 5*clock.Second), deliver)
	}
}

// carry has a message of a host, or to it, arrive in d.
func (w *World) carry(a *agent, d clock.Duration, deliver func()) {
	w.queue.Push(w.now.Add(d), task{run: deliver, of: a, life: a.enrolments, message: true})
}

// endFaults ends what people and machines could leave as it is for ever: from here
// on every rollout has to settle.
func (w *World) endFaults() {
	for _, a := range w.agents {
		a.wall, a.unreported = 0, false
		a.flush()
	}
	if w.stale != nil {
		w.stale.stop("ends")
	}
	// A clock that was far ahead stays there: what it stamped would wait for the
	// true time to come.
	if wall := w.server.wall; wall != 0 && wall <= 10*clock.Minute {
		w.showed = w.server.now()
		w.server.wall = 0
		w.server.crash(clock.Second)
	}
	if w.server.away() {
		w.after(10*clock.Second, w.endFaults)
		return
	}
	w.server.unpause()
}
