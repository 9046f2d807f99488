package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Operators who open waves, by token and by signature, and what they accept: all
// of it takes a rollout that stands at the right place, so that they look again
// and again until it does.

// operators is how many have an override key.
const operators = 2

// operators plans what they do. Its numbers come from a stream of their own: a
// schedule in which they do nothing is what it was without them.
func (p *planning) operators() {
	w := p.w
	p.r = rand.New(rand.NewPCG(w.cfg.Seed, 0x4f50455241544f52))
	r := p.r
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			a := intent{w: w, action: []fleet.OverrideAction{fleet.OverridePromote, fleet.OverridePromote, fleet.OverrideBreakGlass}[r.IntN(3)],
				early: r.IntN(3) == 0, alone: r.IntN(4) == 0, token: r.IntN(4) == 0, paused: r.IntN(4) == 0, pick: r.IntN(1 << 16), tries: 1 + r.IntN(20)}
			if a.early && r.IntN(3) == 0 {
				a.action = []fleet.OverrideAction{fleet.OverridePause, fleet.OverrideCancel, fleet.OverrideRollback}[r.IntN(3)]
			}
			p.add(p.some(0), a.retry, "operators want to %s a rollout, at most %d times", a.action, a.tries)
		}
	}
	if r.IntN(10) == 0 {
		pick := r.IntN(1 << 16)
		at := p.some(0)
		p.add(at, func() { w.sign(pick) }, "an operator signs an override")
		p.add(at.Add(p.between(0, 2*clock.Minute)), func() { w.overrideByToken() }, "an operator defies by token what is signed")
		p.add(at.Add(p.between(0, 4*clock.Minute)), func() { w.server.liftOverrides() }, "operators end what is signed")
		p.add(at.Add(p.between(0, 8*clock.Minute)), w.pushOverrides, "operators push all that they ever signed")
	}
	if len(w.fleet.channels) > 0 && r.IntN(12) == 0 {
		back := 1 + r.Uint64N(uint64(w.cfg.Releases))
		p.add(p.some(0.3), func() { w.pushOld(back) }, "release r%d is rolled back to", back)
	}
	if w.fleet.evidence && r.IntN(4) > 0 {
		p.lasting()
	}
	if r.IntN(6) == 0 {
		visits, picks := 1+r.IntN(20), [2]int{r.IntN(4), r.IntN(4)}
		p.add(p.some(0), func() { w.retries(visits, picks[:]) }, "operators look %d times for a rollout to try again", visits)
	}
}

// retries has operators try again what ended badly, with a token or a signature as picked, as
// often as there are picks.
func (w *World) retries(visits int, picks []int) {
	s := w.server
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Latest]
		if s.away() || r == nil || r.Plan == nil || len(picks) == 0 {
			continue
		}
		before := r.RetriedAt
		if picks[0]%2 == 0 {
			s.try(plan.Retry(s.state, string(r.Manifest), "drill", "operator", s.now()))
		} else if r.Phase == rollout.Failed || r.Phase == rollout.Reverted || picks[0] == 3 {
			s.pushOverride(w.override(fleet.Override{Action: fleet.OverrideRetry, Channel: name, Manifest: r.Manifest}))
		}
		if r := s.state.Rollouts[r.Manifest]; r != nil && r.RetriedAt != before {
			picks = picks[1:]
		}
	}
	if visits > 0 && len(picks) > 0 && w.now < w.faultsEnd {
		w.after(30*clock.Second, func() { w.retries(visits-1, picks) })
	}
}

// lasting has a control fail for good on some hosts, and in half of the schedules
// an operator accept that.
func (p *planning) lasting() {
	w, r := p.w, p.r
	for range 1 + r.IntN(2) {
		a := w.agents[r.IntN(len(w.agents))]
		p.add(p.some(0), func() { a.unmet = true }, "a control of %s passes no more", a.name)
	}
	if r.IntN(3) > 0 {
		w.auditor = auditor{signs: r.IntN(3) > 0, early: r.IntN(2) == 0, visits: 20}
		p.add(p.some(0), w.accepts, "an operator reads the evidence from now on")
	}
}

// intent is what operators want of a rollout that is to come, or to get there.
type intent struct {
	w      *World
	action fleet.OverrideAction
	early  bool // as soon as its release is there
	alone  bool // one signs, and pushes it before the other has
	token  bool // the verb of a token will do, where there is one
	paused bool // the rollout is paused first
	pick   int
	tries  int
}

// retry tries, or comes again: some time later, or with the next release if there is to be
// something that has not opened.
func (a intent) retry() {
	w, s := a.w, a.w.server
	a.tries--
	switch done := !s.away() && a.try(s); {
	case done || a.tries <= 0 || w.now >= w.faultsEnd:
	case a.early:
		w.early = append(w.early, a)
	default:
		w.after(clock.Duration(10+a.pick%30)*clock.Second, a.retry)
	}
}

// foresee has operators sign about what a release has just brought.
func (w *World) foresee() {
	early := w.early
	w.early = nil
	for _, a := range early {
		a.retry()
	}
}

// try does what is wanted if there is a rollout for it.
func (a intent) try(s *server) bool {
	names := s.state.ChannelNames()
	if len(names) == 0 {
		return false
	}
	c := s.state.Channels[names[a.pick%len(names)]]
	r := s.state.Rollouts[c.Active]
	if a.early {
		return a.foresee(s, c)
	}
	if r == nil || r.Phase.Ended() || r.Plan == nil {
		return false
	}
	held := a.action == fleet.OverrideBreakGlass || r.Blocked != "" && s.state.Overrides.Promoted(r.Manifest, r.Plan.Header.Waves[r.Cursor].Name) == nil
	if !held {
		return false
	}
	if a.paused && !r.Paused {
		s.try(plan.Operate(s.state, plan.Pause, string(r.Manifest), "drill", "operator", s.now()))
	}
	if s.away() {
		return true
	}
	if a.token && a.action == fleet.OverridePromote {
		s.try(plan.Promote(s.state, string(r.Manifest), r.Plan.Header.Waves[r.Cursor].Name, "drill", "operator", s.now()))
	} else {
		a.sign(s, r)
	}
	return s.away() || r.Phase.Ended() || r.BreakGlass != "" || r.Forced(r.Cursor) != nil
}

// foresee signs about the newest manifest before its rollout opens, in all waves.
func (a intent) foresee(s *server, c *plan.Channel) bool {
	if len(c.Manifests) == 0 || s.state.Rollouts[c.Manifests[0].Digest] != nil {
		return false
	}
	m := a.w.docs[c.Manifests[0].Digest]
	if m == nil || len(m.Leaves) == 0 {
		return false
	}
	o := a.w.about(a.action, m, a.pick)
	if a.action != fleet.OverridePromote {
		a.push(s, o)
		return true
	}
	for i := range m.Header.Waves {
		if o.Wave = m.Header.Waves[i].Name; !s.away() && s.state.Overrides.Promoted(m.Digest, o.Wave) == nil {
			a.push(s, o)
		}
	}
	return true
}

// sign signs about the open wave.
func (a intent) sign(s *server, r *rollout.Rollout) {
	o := fleet.Override{Action: a.action, Channel: r.Channel, Manifest: r.Manifest}
	if a.action == fleet.OverridePromote {
		o.Wave = r.Plan.Header.Waves[r.Cursor].Name
	}
	a.push(s, o)
}

// push brings an override to the server, or, of an operator who does not wait for the
// other, half of one first.
func (a intent) push(s *server, o fleet.Override) {
	n := a.w.publisher
	if n == nil || !a.alone {
		s.pushOverride(a.w.override(o))
		return
	}
	t := a.w.draft(o)
	n.signed(&t, 1)
	s.pushOverride(t)
	if s.away() {
		return
	}
	n.cosign(&t)
	a.w.overrides = append(a.w.overrides, t)
	s.pushOverride(t)
}

// overrideByToken has an operator loosen by token all that is signed, which no token can.
func (w *World) overrideByToken() {
	s := w.server
	for _, t := range s.state.Overrides.List() {
		if s.away() {
			return
		}
		switch t.Action {
		case fleet.OverridePause:
			s.try(plan.Operate(s.state, plan.Resume, string(t.Manifest), "drill", "operator", s.now()))
		case fleet.OverrideQuarantine:
			s.try(plan.AddQuarantine(s.state, t.Channel, string(t.Bundle), "drill", "operator", s.now()))
			if !s.away() {
				s.try(plan.ClearQuarantine(s.state, t.Channel, string(t.Bundle), "drill", "operator", s.now()))
			}
		}
	}
}

// auditor is an operator who lets waves pass whose evidence is missing.
type auditor struct {
	signs  bool
	early  bool // if so, before a rollout opens
	visits int  // that are left once faults have ended
}

// accepts looks at every channel, now and later.
func (w *World) accepts() {
	s := w.server
	if w.now >= w.faultsEnd {
		w.auditor.visits--
	}
	for i, name := range s.state.ChannelNames() {
		if w.auditor.signs && w.auditor.early && !s.away() {
			intent{w: w, action: fleet.OverridePromote, early: true, pick: i}.try(s)
		}
		if r := s.awaiting(name); !s.away() && r != nil {
			wave := r.Plan.Header.Waves[r.Cursor].Name
			if w.auditor.signs && r.Forced(r.Cursor) == nil {
				s.pushOverride(w.override(fleet.Override{Action: fleet.OverridePromote, Channel: name, Manifest: r.Manifest, Wave: wave}))
			} else {
				s.try(plan.Promote(s.state, string(r.Manifest), wave, "drill", "operator", s.now()))
			}
		}
	}
	if w.auditor.visits > 0 {
		w.after(w.between(20*clock.Second, 90*clock.Second), w.accepts)
	}
}

// awaiting is the rollout of a channel whose open wave lacks evidence, or nil.
func (s *server) awaiting(channel string) *rollout.Rollout {
	r := s.state.Rollouts[s.state.Channels[channel].Active]
	if r == nil || r.Phase.Ended() || r.Paused || r.Reverting || r.Blocked != fmt.Sprintf("%d/evidence", r.Cursor) {
		return nil
	}
	return r
}

// audited reports whether the operator who looks at evidence has nothing to do.
func (w *World) audited() bool {
	if w.auditor.visits == 0 {
		return true
	}
	for _, name := range w.server.state.ChannelNames() {
		if w.server.awaiting(name) != nil {
			return false
		}
	}
	return true
}

// pushOld releases what an earlier release ran under a new version, as a rollback of
// releases does.
func (w *World) pushOld(version uint64) {
	if w.server.away() {
		w.after(10*clock.Second, func() { w.pushOld(version) })
		return
	}
	w.backTo = min(version, w.version)
	w.push()
	w.backTo = 0
}
