package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Presence as the server judges it.
const (
	offlineAfter = 180 * clock.Second
	tickGap      = 500 * clock.Millisecond
)

// server drives the planner as the real server does: one mutator, everything
// committed before it is answered.
type server struct {
	w        *World
	state    *plan.State
	log      []event.Entry
	audit    *audit.Log
	lastSeen map[string]clock.Instant
	down     bool
	term     uint64
	ticking  bool // a tick is scheduled
	next     clock.Instant
	lastTick clock.Instant
}

func newServer(w *World) *server {
	s := &server{w: w, state: plan.New(w.docs), audit: audit.NewLog(w.docs), lastSeen: map[string]clock.Instant{}, term: 1}
	s.watch()
	return s
}

// commit makes entries durable and has every checker look at them. A crash may
// come right before it, in which case nothing was ever said.
func (s *server) commit(entries []event.Entry, err error) bool {
	if err != nil {
		s.w.violate("core", "%v", err)
		return false
	}
	if len(entries) > 0 && s.w.faulty(0.0005) {
		s.w.trace("the server dies before a commit")
		s.crash()
		return false
	}
	for _, e := range entries {
		s.log = append(s.log, e)
		s.w.trace("log %d %s %s %s", len(s.log), e.Host, e.Type, e.Body)
		s.w.found = append(s.w.found, s.audit.Observe(uint64(len(s.log)), e)...)
	}
	if len(entries) > 0 {
		s.nudge()
	}
	return true
}

// nudge has a tick happen soon: at once for the first event, later ones
// collapse into the gap.
func (s *server) nudge() {
	if s.ticking || s.down {
		return
	}
	s.ticking = true
	s.w.after(max(0, s.lastTick.Add(tickGap).Sub(s.w.now)), s.tick)
}

func (s *server) tick() {
	s.ticking = false
	if s.down {
		return
	}
	s.lastTick = s.w.now
	p, err := plan.Next(s.state, s.w.now)
	if err != nil {
		s.w.violate("core", "%v", err)
		return
	}
	entries := make([]event.Entry, len(p.Decisions))
	for i, d := range p.Decisions {
		entries[i] = d.Entry
	}
	if !s.commit(entries, nil) {
		return
	}
	s.w.found = append(s.w.found, audit.Check(s.state, s.w.now)...)
	if again, err := plan.Next(s.state, s.w.now); err != nil || len(again.Decisions) > 0 {
		s.w.violate("S27", "a second tick at the same instant decides %d more things (%v)", len(again.Decisions), err)
	}
	if p.Next != 0 && p.Next != s.next {
		s.next = p.Next
		s.w.after(p.Next.Sub(s.w.now), s.nudge)
	}
}

// watch looks at presence every few seconds, like the server's presence worker.
func (s *server) watch() {
	s.w.after(5*clock.Second, s.watch)
	if s.down {
		return
	}
	for _, name := range s.w.fleet.hosts {
		if seen := s.lastSeen[name]; seen != 0 && s.w.now.Sub(seen) >= offlineAfter {
			s.commit(plan.Presence(s.state, name, false, seen, s.w.now))
		}
	}
}

func (s *server) seen(name string) {
	s.lastSeen[name] = s.w.now
	s.commit(plan.Presence(s.state, name, true, s.w.now, s.w.now))
}

// crash throws the state away and folds the log again.
func (s *server) crash() {
	if s.down {
		return
	}
	s.down = true
	s.w.trace("the server dies")
	s.w.after(s.w.between(clock.Second, 2*clock.Minute), func() {
		state := plan.New(s.w.docs)
		for _, e := range s.log {
			if err := state.Apply(e); err != nil {
				s.w.violate("S25", "fold the log: %v", err)
				return
			}
		}
		s.state, s.down, s.next, s.lastTick, s.ticking = state, false, 0, 0, false
		s.term++
		for name := range s.lastSeen { // order-free: every host gets the same grace
			s.lastSeen[name] = s.w.now
		}
		s.w.trace("the server is back at %d events", len(s.log))
		s.nudge()
	})
}

// push accepts a new release.
func (s *server) push() {
	if s.down {
		s.w.after(10*clock.Second, s.push)
		return
	}
	ev := s.w.release()
	ts := event.TimestampAccepted{Version: ev.Version, IssuedAt: s.w.now, Resolved: ev.Resolved}
	s.commit(plan.Record(s.state, "", s.w.now, ev, ts))
}

// operate has an operator press a verb that may or may not apply.
func (s *server) operate() {
	if s.down || len(s.state.Order) == 0 {
		return
	}
	r := s.state.Rollouts[s.state.Order[s.w.rand.IntN(len(s.state.Order))]]
	verb := []plan.Verb{plan.Pause, plan.Resume, plan.Cancel}[s.w.rand.IntN(3)]
	s.press(verb, r.Name)
}

// press tries a verb; one that does not apply changes nothing.
func (s *server) press(verb plan.Verb, rollout string) {
	entries, err := plan.Operate(s.state, verb, rollout, "drill", "operator", s.w.now)
	if refused := (*plan.VerbError)(nil); errors.As(err, &refused) {
		return
	}
	s.commit(entries, err)
}

// relent ends the operator's pauses, halts and quarantine-free waits: from here
// on every rollout has to settle.
func (s *server) relent() {
	if s.down {
		s.w.after(10*clock.Second, s.relent)
		return
	}
	for _, d := range s.state.Order {
		if r := s.state.Rollouts[d]; r != nil && r.Paused && !r.Phase.Ended() {
			s.press(plan.Resume, r.Name)
		}
	}
}

// quiet reports whether the server has nothing left to do by itself.
func (s *server) quiet() bool {
	if s.down || s.ticking {
		return false
	}
	for _, name := range s.state.ChannelNames() {
		if r := s.state.Rollouts[s.state.Channels[name].Active]; r != nil && !r.Phase.Ended() && !s.held(r) {
			return false
		}
	}
	return true
}

// held reports whether a rollout waits for something that only people can
// bring: evidence of a wave that can have none, a quarantined or refused
// target, or a host that failed for good.
func (s *server) held(r *rollout.Rollout) bool {
	t := r.Total()
	if t.Moving() > 0 {
		return false
	}
	for i := range r.Members {
		m := &r.Members[i]
		if m.Status != rollout.Waiting {
			continue
		}
		a, err := plan.Why(s.state, r.Plan.Leaves[i].Host, s.w.now)
		if err != nil || a.Block == nil {
			return false
		}
		if a.Block.Earliest != 0 {
			return false
		}
	}
	return true
}

// take verifies and ingests a batch as the server's handler does.
func (s *server) take(a *agent, batch []event.Entry) (acked uint64, ok bool) {
	h := s.state.Hosts[a.name]
	if h == nil || len(batch) == 0 || batch[0].Incarnation != h.Incarnation {
		return 0, false
	}
	for len(batch) > 0 && batch[0].HostSeq <= h.Seq {
		batch = batch[1:] // sent again
	}
	if len(batch) == 0 {
		return h.Seq, true
	}
	if batch[0].HostSeq != h.Seq+1 {
		return h.Seq, true // a gap: go on from here
	}
	head := event.HostHead{Incarnation: h.Incarnation, Seq: batch[len(batch)-1].HostSeq}
	if !s.commit(plan.Ingest(s.state, a.name, batch, head, s.w.now)) {
		return 0, false
	}
	return s.state.Hosts[a.name].Seq, true
}

// hash names a state by its content.
func hash(s *plan.State) (digest.Digest, []byte) {
	raw, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Append(nil, err)
	}
	return digest.Of(raw), raw
}

// refold checks that the log folds to the live state.
func (s *server) refold() error {
	fresh := plan.New(s.w.docs)
	for i, e := range s.log {
		if err := fresh.Apply(e); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	live, a := hash(s.state)
	again, b := hash(fresh)
	if live != again {
		i := 0
		for i < len(a) && i < len(b) && a[i] == b[i] {
			i++
		}
		cut := func(x []byte) []byte { return bytes.TrimSpace(x[max(0, min(i, len(x))-120):min(len(x), i+120)]) }
		return fmt.Errorf("live …%s… folded …%s…", cut(a), cut(b))
	}
	return nil
}
