package sim

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// What hosts and people ask of a server.

// park answers a long-poll when there is a grant to offer, or after a while.
func (s *server) park(a *agent, answer func(*plan.Grant, clock.Instant)) {
	s.poll(a, s.w.now.Add(s.w.between(20*clock.Second, 60*clock.Second)), answer)
}

func (s *server) poll(a *agent, end clock.Instant, answer func(*plan.Grant, clock.Instant)) {
	delete(s.parked, a)
	g, wait := s.session(a.name).Offer(s.view(a.name), s.now())
	if g != nil || s.w.now >= end {
		answer(g, s.now())
		return
	}
	again := func() { s.poll(a, end, answer) }
	s.parked[a] = again
	if at := s.w.now.Add(wait); wait > 0 && at < end {
		end = at
	}
	s.w.polls++
	id := s.w.polls
	a.parkedAt = id
	s.w.after(end.Sub(s.w.now), func() {
		if a.parkedAt == id && s.parked[a] != nil && !s.down {
			again()
		}
	})
}

// answerPolls has a host's long-polls answered anew.
func (s *server) answerPolls(name string) {
	for a := s.w.hosts[name]; a != nil; a = a.copy {
		if again := s.parked[a]; again != nil {
			again()
		}
	}
}

// ingest verifies and ingests the end of a chain as the server's handler does. What it says
// besides is where the chain that it holds ends.
func (s *server) ingest(a *agent, chain, batch []event.Entry, said []event.Event) (acked uint64, ok bool) {
	h := s.state.Hosts[a.name]
	if h == nil || len(batch) == 0 || batch[0].Incarnation != h.Incarnation {
		return 0, false
	}
	if first := batch[0].HostSeq; first > h.Seq+1 {
		s.ahead(a, first-1)
		return h.Seq, true
	}
	head := event.HostHead{Incarnation: h.Incarnation, Seq: batch[len(batch)-1].HostSeq}
	if a.copied {
		var one bool
		if batch, head, one = s.parts(a, h, chain, batch); !one {
			s.forked(a, head.Seq)
			return 0, false
		}
		said = said[len(said)-len(batch):]
	}
	for len(batch) > 0 && batch[0].HostSeq <= h.Seq {
		batch, said = batch[1:], said[1:] // sent again
	}
	if len(batch) == 0 {
		if a.copied {
			s.w.checks.oneHistory(s, a, head.Seq)
		}
		return h.Seq, true
	}
	in := coreserver.Batch{Host: a.name, View: s.view(a.name), Entries: batch, Events: said, Head: head}
	if s.w.log.fromBytes() {
		in.Events = nil // decoded anew
	}
	if ok, refused := s.step(in); !ok || refused != nil {
		if refused != nil {
			s.w.violate("core", "%v", refused)
		}
		return 0, false
	}
	if a.copied {
		s.w.checks.oneHistory(s, a, head.Seq)
	}
	return s.state.Hosts[a.name].Seq, true
}

// claim commits a host's claim. It is not ok when the host is to ask again.
func (s *server) claim(a *agent, grant string, term uint64) (accepted, ok bool) {
	t := coreserver.Turn{Time: s.time()}
	err := s.core.Step(&t, coreserver.Claim{Host: a.name, Grant: grant, Term: term})
	accepted = err == nil
	if unsure := (*coreserver.UnsureError)(nil); errors.As(err, &unsure) {
		return false, false
	}
	if coreserver.Refused(err) {
		s.wake()
		return false, true
	}
	if len(t.Events) > 0 {
		s.w.checks.claimed(s, a)
		s.w.checks.given(s, a.name)
	}
	ok = s.append(t.Events, err)
	s.wake()
	return accepted, ok
}

// push accepts a new release.
func (w *World) push() {
	s := w.server
	if s.away() {
		w.after(10*clock.Second, w.push)
		return
	}
	ev := w.release()
	w.accept(ev)
}

// accept commits a release and its timestamp.
func (w *World) accept(ev event.ReleaseAccepted) {
	s := w.server
	ts := event.TimestampAccepted{Version: ev.Version, IssuedAt: w.now, Resolved: ev.Resolved}
	events := append(s.roots(), ev)
	for _, v := range w.verdicts {
		events = append(events, v)
	}
	if ok, _ := s.step(coreserver.Release{Events: append(events, ts), Revoked: w.revoked}); ok {
		w.checks.released = ev
		w.backedUp()
		s.withdrawn()
		w.foresee()
	}
}

// backedUp notes that a backup holds the fleet: every host enrolled and a
// release.
func (w *World) backedUp() {
	if w.log.whole != 0 || w.checks.released.Version == 0 {
		return
	}
	for _, a := range w.agents {
		if a.inc == 0 {
			return
		}
	}
	w.log.whole = len(w.log.entries)
}

// again pushes the newest release to a server that may have forgotten it, until a
// server has it: a push that a server dies at is repeated.
func (w *World) again() {
	s := w.server
	if s.away() {
		w.after(5*clock.Second, w.again)
		return
	}
	if w.rand.IntN(2) == 0 {
		w.pushOverrides() // before what they are about; what is refused now is taken below
	}
	if r := &w.checks.released; !s.away() && r.Epoch == w.epoch && s.edition().before(edition{r.Epoch, r.Version}) {
		w.accept(w.checks.released)
	}
	if s.away() {
		w.after(5*clock.Second, w.again)
		return
	}
	w.trust()
	w.pushOverrides()
	if w.now >= w.faultsEnd && !s.away() {
		s.liftOverrides()
	}
}

// verbs are all that an operator can press; one that does not apply changes
// nothing.
var verbs = []struct {
	name  string
	press func(s *server, pick int) ([]event.Entry, error)
}{
	{"pause", operate(plan.Pause)},
	{"resume", operate(plan.Resume)},
	{"cancel", operate(plan.Cancel)},
	{"quarantine clear", func(s *server, pick int) ([]event.Entry, error) {
		for _, name := range s.state.ChannelNames() {
			for _, d := range s.state.Order {
				if r := s.state.Rollouts[d]; r != nil && r.Plan != nil && r.Channel == name {
					for i := range r.Plan.Leaves {
						if t := r.Plan.Leaves[i].Target; s.state.Channels[name].Quarantine[t] != "" {
							return plan.ClearQuarantine(s.state, name, string(t), "drill", "operator", s.now())
						}
					}
				}
			}
		}
		return nil, &plan.VerbError{Reason: "nothing is quarantined"}
	}},
	{"quarantine add", func(s *server, pick int) ([]event.Entry, error) {
		r, err := s.pickRollout(pick)
		if err != nil || len(r.Plan.Leaves) == 0 {
			return nil, &plan.VerbError{Reason: "there is no bundle"}
		}
		return plan.AddQuarantine(s.state, r.Channel, string(r.Plan.Leaves[pick%len(r.Plan.Leaves)].Target), "drill", "operator", s.now())
	}},
	{"promote", func(s *server, pick int) ([]event.Entry, error) {
		r, err := s.pickRollout(pick)
		if err != nil {
			return nil, err
		}
		return plan.Promote(s.state, string(r.Manifest), r.Plan.Header.Waves[r.Cursor].Name, "drill", "operator", s.now())
	}},
	{"freeze", func(s *server, pick int) ([]event.Entry, error) {
		return plan.Freeze(s.state, s.pickHost(pick), s.now().Add(clock.Duration(1+pick%600)*clock.Second), "drill", "operator", s.now())
	}},
	{"unfreeze", func(s *server, pick int) ([]event.Entry, error) {
		return plan.Unfreeze(s.state, s.pickHost(pick), "drill", "operator", s.now())
	}},
	{"prune", func(s *server, pick int) ([]event.Entry, error) {
		return s.prune(plan.Retention{Age: clock.Minute, Keep: 1, Most: pick % 4})
	}},
}

// pickRollout picks a rollout whose plan is at hand.
func (s *server) pickRollout(pick int) (*rollout.Rollout, error) {
	if n := len(s.state.Order); n > 0 {
		if r := s.state.Rollouts[s.state.Order[pick%n]]; r != nil && r.Plan != nil {
			return r, nil
		}
	}
	return nil, &plan.VerbError{Reason: "there is no rollout"}
}

func (s *server) pickHost(pick int) string {
	names := s.state.HostNames()
	if len(names) == 0 {
		return "nobody"
	}
	return names[pick%len(names)]
}

func operate(verb plan.Verb) func(*server, int) ([]event.Entry, error) {
	return func(s *server, pick int) ([]event.Entry, error) {
		if len(s.state.Order) == 0 {
			return nil, &plan.VerbError{Reason: "there is no rollout"}
		}
		var name digest.Digest
		if name = s.state.Order[pick%len(s.state.Order)]; s.state.Rollouts[name] == nil {
			return nil, &plan.VerbError{Reason: "the rollout is gone"}
		}
		return plan.Operate(s.state, verb, string(name), "drill", "operator", s.now())
	}
}

// operate has an operator press a verb.
func (w *World) operate(verb, pick int) {
	s := w.server
	if s.away() {
		return
	}
	mayHalt, _ := s.pickRollout(pick)
	halts := verb == 0 && mayHalt != nil && !mayHalt.Phase.Ended() && !mayHalt.Paused
	s.try(verbs[verb].press(s, pick))
	if halts && !s.away() && !mayHalt.Paused {
		w.violate("L4", "an operator paused %s, which is %s, and it goes on", mayHalt.Name, mayHalt.Phase)
	}
}

func (s *server) try(entries []event.Entry, err error) {
	if refused := (*plan.VerbError)(nil); errors.As(err, &refused) {
		return
	}
	s.commit(entries, err)
}

// unpause ends the operators' pauses and freezes.
func (s *server) unpause() {
	s.liftOverrides()
	for _, name := range s.state.HostNames() {
		if s.state.Hosts[name].Freeze != nil {
			s.try(plan.Unfreeze(s.state, name, "drill", "operator", s.now()))
		}
	}
	for _, d := range s.state.Order {
		if r := s.state.Rollouts[d]; r != nil && r.Paused && !r.Phase.Ended() {
			s.try(plan.Operate(s.state, plan.Resume, string(d), "drill", "operator", s.now()))
		}
	}
}
