package sim

import (
	"encoding/json"
	"maps"
	"math/rand/v2"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// Agents whose stored state is set back: the database alone, beside its anchor, or the
// whole folder. What runs on the machine stays as it is. Nothing of what a host trusts,
// nor the overrides that it accepted, is set back here.

// setBacks has hosts of some schedules lose the newest part of their state, and a server
// claim events of a host that nobody signed. The draw is its own, so that other schedules stay as
// they are.
func (p *planning) setBacks() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x5e7bac))}
	if w.publisher != nil || q.r.IntN(8) != 0 {
		return
	}
	w.ending = true
	for range 1 + q.r.IntN(3) {
		a, at, f := w.agents[q.r.IntN(len(w.agents))], q.some(0.1), response(q.r.IntN(2))
		old, down := q.between(clock.Second, 5*clock.Minute), q.between(clock.Second, clock.Minute)
		switch q.r.IntN(5) {
		case 0:
			q.add(at, func() { a.disputed = true }, "the server claims to have more events of %s than it made, and proves none", a.name)
		case 1, 2:
			a.copied = true
			away := clock.Duration(q.r.IntN(2)) * q.between(10*clock.Second, 2*clock.Minute) // what it resumed is under way as it is told
			q.add(at, func() { w.setBack(a, f, old, down, true, away) }, "the folder of %s is set back by %s", a.name, old)
		default:
			a.copied = true
			q.add(at, func() { w.setBack(a, f, old, down, false, 0) }, "the database of %s is set back by %s beside its anchor", a.name, old)
		}
	}
}

// setBack keeps what a host has on disk now, and puts it back some time later; the host is
// then down, and does not reach the server for a while.
func (w *World) setBack(a *agent, f response, old, down clock.Duration, whole bool, away clock.Duration) {
	if a.inc == 0 || a.out || a.enrolling || a.copy != nil {
		return
	}
	var kept core.State
	raw, err := json.Marshal(&a.core)
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		w.violate("core", "%v", err)
		return
	}
	n, acked, serial := len(a.chain), a.acked, a.serial
	w.after(old, func() {
		if a.copy != nil || a.out || a.enrolling || a.serial != serial || a.core.Parked != nil || !a.up || len(a.chain) <= n || w.now >= w.faultsEnd {
			return
		}
		w.trace("%s loses its newest %d events", a.name, len(a.chain)-n)
		a.response = f
		a.stop(down)
		if away > 0 {
			a.partition(down + away)
		}
		kept.Overrides = a.core.Overrides
		a.core, a.chain, a.events, a.acked = kept, a.chain[:n:n], a.events[:n:n], acked
		a.setBack, a.acting, a.witnessed = true, "", witnessed{}
		for name := range a.drift { // order-free: what was begun is forgotten
			a.drift[name] = false
		}
		if whole {
			a.anchored = uint64(n)
		}
		maps.DeleteFunc(w.checks.starts, func(k grantOf, _ bool) bool { return k.host == a.key+"/"+a.serial })
	})
}

// behindAnchor is what the agent's shell finds at a start.
func (a *agent) behindAnchor() *core.Parked {
	if a.anchored <= uint64(len(a.chain)) {
		return nil
	}
	return &core.Parked{Code: host.ParkedBehind}
}

// chainOf is what the server has of a host's chain, as an answer to a heartbeat carries it.
func (s *server) chainOf(a *agent, h *plan.Host, answer *coreserver.HeartbeatAnswer) core.ServerChain {
	c := core.ServerChain{Newest: answer.Acked}
	switch {
	case a.disputed && a.w.now < a.w.faultsEnd:
		c.Newest = uint64(len(a.chain)) + 1
	case answer.Behind && a.setBack: // copies are left for the server to find
		c.Newest, c.Proven = h.Seq, true
		c.Differs = h.Seq > 0 && h.Seq <= uint64(len(a.chain)) && a.link(h.Seq).Hash != [32]byte(h.ChainHash)
	}
	return c
}

// compared takes that answer.
func (a *agent) compared(c core.ServerChain) {
	c.Last = uint64(len(a.chain))
	a.confirmed = a.confirmed || c.Newest <= c.Last && !c.Differs
	if a.up && c.Matters(a.core.Unconfirmed()) {
		if a.step(c); a.core.Parked != nil && !c.Proven {
			a.w.violate("S32", "%s is parked on a claim that nobody proved", a.name)
		}
	}
}

// mayAct checks that a host changes nothing once its state is known to be old, and nothing
// after a start before the server was asked.
func (t *checker) mayAct(a *agent, what string) {
	switch asked := a.w.now.Sub(a.startedAt) >= 10*clock.Second; {
	case a.core.Parked != nil:
		a.w.violate("S23", "%s %s and is parked", a.name, what)
	case a.anchored > uint64(len(a.chain)):
		a.w.violate("S23", "%s %s by a state that is older than its anchor", a.name, what)
	case !a.confirmed && !asked:
		a.w.violate("S23", "%s %s %s after its start, and the server has not said that its state is the newest", a.name, what, a.w.now.Sub(a.startedAt))
	}
}
