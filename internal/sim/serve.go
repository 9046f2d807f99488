package sim

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// What hosts and people ask of a server.

// park answers a long-poll when there is a grant, or after a while.
func (s *server) park(a *agent, answer func(*plan.Grant, clock.Instant)) {
	now := s.now()
	reply := func() {
		g := s.offer(a.name)
		if g == nil {
			answer(nil, s.now())
			return
		}
		s.handed[a.name] = s.now()
		answer(g, s.now())
	}
	if s.offer(a.name) != nil && now.Sub(s.handed[a.name]) >= reofferAfter {
		reply()
		return
	}
	s.parked[a] = reply
	wait := s.w.between(20*clock.Second, 60*clock.Second)
	if s.offer(a.name) != nil {
		wait = reofferAfter
	}
	id := s.w.order
	a.parkedAt = id
	s.w.after(wait, func() {
		if a.parkedAt == id && !s.down {
			s.hand(a.name)
		}
	})
}

// hand answers a host's long-polls now.
func (s *server) hand(name string) {
	for a := s.w.hosts[name]; a != nil; a = a.copy {
		if reply := s.parked[a]; reply != nil {
			delete(s.parked, a)
			reply()
		}
	}
}

// offer is a copy of the grant that a host is told of, or nil.
func (s *server) offer(name string) *plan.Grant {
	h := s.state.Hosts[name]
	if h == nil || h.Grant == nil || h.Grant.Expires.Reached(s.now()) && !h.Grant.Claimed {
		return nil
	}
	g := *h.Grant
	return &g
}

// take verifies and ingests a batch as the server's handler does. What it says
// besides is where the chain that it holds ends.
func (s *server) take(a *agent, batch []event.Entry, said []event.Event) (acked uint64, ok bool) {
	h := s.state.Hosts[a.name]
	if h == nil || len(batch) == 0 || batch[0].Incarnation != h.Incarnation {
		return 0, false
	}
	if first := batch[0].HostSeq; first > h.Seq+1 {
		s.w.truth.owes(s, a, first-1)
		s.safe.Claim(a.name, a.inc, first-1, s.now())
		return h.Seq, true
	}
	head := event.HostHead{Incarnation: h.Incarnation, Seq: batch[len(batch)-1].HostSeq}
	if a.copied {
		var one bool
		if batch, head, one = s.parts(a, h, batch); !one {
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
			s.w.truth.oneHistory(s, a, head.Seq)
		}
		return h.Seq, true
	}
	entries, err := s.ingest(a.name, batch, said, head)
	if !s.commit(entries, err) {
		return 0, false
	}
	if a.copied {
		s.w.truth.oneHistory(s, a, head.Seq)
	}
	return s.state.Hosts[a.name].Seq, true
}

// ingest decodes a batch in those schedules that read all bytes.
func (s *server) ingest(name string, batch []event.Entry, said []event.Event, head event.HostHead) ([]event.Entry, error) {
	if s.w.log.fromBytes() {
		return plan.Ingest(s.state, name, batch, head, s.now())
	}
	return plan.IngestRead(s.state, name, batch, said, head, s.now())
}

// restored is what the server knows of its log beside the state.
func (s *server) restored() plan.Restored {
	now := s.now()
	return plan.Restored{Behind: s.safe.Block(s.state.Hosts, now), Until: s.roll.Until(),
		Missing: s.roll.Missing(s.state.Hosts, func(name string) (uint64, bool) {
			last, ok := s.told[name]
			return last, ok
		}, now)}
}

// claim commits a host's claim.
func (s *server) claim(a *agent, grant string, term uint64) (accepted, ok bool) {
	if term > s.term || s.restored().Claim(s.state, a.name, grant) != nil {
		return false, term > s.term
	}
	entries, err := plan.Claim(s.state, a.name, grant, s.now())
	accepted = err == nil
	if refused := (*plan.ClaimRefusedError)(nil); errors.As(err, &refused) {
		err = nil
	}
	if len(entries) > 0 {
		s.w.truth.claimed(s, a)
	}
	return accepted, s.commit(entries, err)
}

// push accepts a new release.
func (w *World) push() {
	s := w.server
	if s.down {
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
	entries, err := plan.Record(s.state, "", s.now(), append(events, ts)...)
	if err == nil && len(w.revoked) > 0 {
		var more []event.Entry
		more, err = s.ended()
		entries = append(entries, more...)
	}
	if s.commit(entries, err) {
		w.truth.released = ev
		w.backedUp()
		s.withdrawn()
	}
}

// backedUp notes that a backup holds the fleet: every host enrolled and a
// release.
func (w *World) backedUp() {
	if w.log.whole != 0 || w.truth.released.Version == 0 {
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
	if s.down {
		w.after(5*clock.Second, w.again)
		return
	}
	early := w.rand.IntN(2) == 0
	if early {
		w.remind()
	}
	if r := &w.truth.released; !s.down && r.Epoch == w.epoch && s.edition().before(edition{r.Epoch, r.Version}) {
		w.accept(w.truth.released)
	}
	if s.down {
		w.after(5*clock.Second, w.again)
		return
	}
	w.trust()
	if !early {
		w.remind()
	}
	if w.now >= w.calm && !s.down {
		s.loosen()
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
	{"prune", func(s *server, _ int) ([]event.Entry, error) {
		return s.prune(plan.Retention{Age: clock.Minute, Keep: 1})
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
	if s.down {
		return
	}
	mayHalt, _ := s.pickRollout(pick)
	halts := verb == 0 && mayHalt != nil && !mayHalt.Phase.Ended() && !mayHalt.Paused
	s.try(verbs[verb].press(s, pick))
	if halts && !s.down && !mayHalt.Paused {
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
	s.loosen()
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
