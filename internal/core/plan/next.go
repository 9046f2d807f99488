package plan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Plan is what one run of the planner decided, already folded into the state.
type Plan struct {
	// Events are the decisions, in order, to commit as one transaction.
	Events []event.Entry
	// Next is when time alone will call for another run; zero when only an
	// event can.
	Next clock.Instant
}

// Next decides everything that may happen now and folds it into s. The same log
// and the same instants give the same decisions, whoever runs it. It looks only
// at channels that something touched and at hosts whose time has come, so a
// tick with nothing to do costs next to nothing.
func Next(s *State, now clock.Instant) (*Plan, error) {
	p := &planner{decider{s: s, now: now}}
	p.timers()
	for (len(s.dirty) > 0 || s.repairsDirty) && p.err == nil {
		for _, name := range s.ChannelNames() {
			if s.dirty[name] {
				delete(s.dirty, name)
				p.channel(s.Channels[name])
			}
		}
		if len(s.dirty) == 0 && s.repairsDirty {
			p.grantRepairs()
		}
	}
	return p.plan(s.timers.Next())
}

// NextRollbacks is the part of Next that a server goes on with while its log may lack what
// hosts know: failures end what they are failures of, and hosts are sent back.
func NextRollbacks(s *State, now clock.Instant) (*Plan, error) {
	p := &planner{decider{s: s, now: now}}
	for _, name := range s.ChannelNames() {
		c := s.Channels[name]
		r := s.Rollouts[c.Latest]
		if r == nil || c.Active != r.Manifest {
			continue
		}
		if w := r.Excess(); w >= 0 && !r.Phase.Ended() && !r.Reverting {
			p.failurePolicy(r, w)
		}
		if r.Reverting {
			p.grantRollbacks(r)
		}
	}
	return p.plan(0)
}

// planner carries one Next.
type planner struct{ decider }

// about begins to ask about a rollout for a purpose; what was asked about before is over.
func (p *planner) about(purpose gate.Purpose, r *rollout.Rollout) *facts {
	return p.s.ask(facts{now: p.now, purpose: purpose, r: r, c: p.s.Channels[r.Channel], i: -1})
}

// promotion is what keeps the open wave of a rollout.
func (p *planner) promotion(r *rollout.Rollout) *gate.Block {
	return gate.First(p.about(gate.ToPromote, r), gate.ToPromote, gate.AtOffer)
}

func (p *planner) plan(next clock.Instant) (*Plan, error) {
	if p.err != nil {
		p.err = fmt.Errorf("plan: %w", p.err)
	}
	return &Plan{Events: p.entries, Next: next}, p.err
}

// timers handles every host whose time has come, in the order of names: timers
// that no longer matter are dropped and must leave no trace in the decisions.
func (p *planner) timers() {
	var due []string
	for p.s.timers.Due(p.now) {
		_, t := p.s.timers.Pop()
		if t.channel != "" {
			if p.s.Channels[t.channel] != nil {
				p.s.dirty[t.channel] = true
			}
			continue
		}
		due = append(due, t.host)
	}
	slices.Sort(due)
	for _, name := range slices.Compact(due) {
		if h := p.s.Hosts[name]; h != nil {
			p.due(h)
		}
	}
}

func (p *planner) due(h *Host) {
	if h.offered() && h.Grant.Expires.Reached(p.now) {
		p.expired(h)
	}
	if f := h.Freeze; f != nil && f.Until.Reached(p.now) {
		p.add(h.Name, event.HostUnfrozen{Reason: "the freeze until " + f.Until.String() + " is over"})
	}
	if h.outstays(p.now) {
		p.s.markOccupied(h)
	}
	if h.NotBefore.Reached(p.now) {
		p.s.markHost(h)
	}
	p.s.repairsDirty = p.s.repairsDirty || h.Repair != nil
	if at, overdue := p.s.givenUp(h); at.Reached(p.now) {
		p.failSilently(h, at, overdue)
	}
	p.freeSlot(h)
}

// expired ends an offer that its host did not claim in time. One that is there has time off
// then, so that others get its slot.
func (p *planner) expired(h *Host) {
	var notBefore clock.Instant
	if b := h.backoff(h.Grant.Purpose); b != nil && h.Reachable() {
		notBefore = b.next(p.now)
	}
	p.endGrant(h, "expired before it was claimed", notBefore)
}

// channel decides for one channel.
func (p *planner) channel(c *Channel) {
	p.open(c)
	r := p.s.Rollouts[c.Latest]
	if r != nil && c.Active == r.Manifest && !r.Phase.Ended() {
		p.advance(c, r)
	}
	if r != nil && c.Active == r.Manifest && r.Phase == rollout.Failed {
		p.provenLate(r)
	}
	if r != nil && r.Reverting {
		p.grantRollbacks(r)
		p.endRevert(r)
	}
	p.serve(c, r)
	if last := p.s.Rollouts[c.Converged]; last != nil && c.Converged != c.Latest {
		p.serve(c, last)
	}
	if r != nil && c.Active == r.Manifest {
		p.recordBlock(r) // after the grants, so that it names what is left
	}
	p.open(c) // an ended rollout frees the queue
}

func (p *planner) move(r *rollout.Rollout, to rollout.Phase, reason string) {
	ev := event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(to), Reason: reason}
	if to == rollout.Terminal {
		ev.SkippedHosts = r.Away(0, event.MaxNamed)
	}
	p.add("", ev)
}

// endOffers takes back what was offered and not claimed.
func (p *planner) endOffers(r *rollout.Rollout, reason string) {
	if r.Total().By[rollout.Offered] == 0 {
		return
	}
	for i := range r.Members {
		if r.Members[i].Status == rollout.Offered {
			p.endGrant(p.s.host(r.Plan.Leaves[i].Host), reason, 0)
		}
	}
}

// advance fires the failure policy, promotes waves and ends the rollout.
func (p *planner) advance(c *Channel, r *rollout.Rollout) {
	if w := r.Excess(); w >= 0 && !r.Reverting {
		p.failurePolicy(r, w)
		return
	}
	if r.Reverting || r.Paused {
		return
	}
	for p.err == nil {
		last := r.Cursor >= len(r.Waves)-1
		if b := p.promotion(r); b != nil {
			if b.Detail == gate.Soak {
				p.s.wakeChannel(r.Channel, b.Earliest, p.now)
			}
			if p.forceSigned(r) && !r.Phase.Ended() {
				continue
			}
			break
		}
		if last {
			t := r.Total()
			words := prose.Join(prose.Count(t.By[rollout.Converged], "host")+" converged", prose.Some(t.By[rollout.AtTarget], "host", " ran the target already"),
				prose.Some(r.Skipped(), "host", prose.Verb(r.Skipped(), " was", " were")+" away and skipped"), prose.Some(t.By[rollout.Absent], "host", " not enrolled"))
			if left := r.LeftBehind(); left != "" {
				words += ", " + left
			}
			p.move(r, rollout.Terminal, words)
			return
		}
		n := &r.Waves[r.Cursor]
		p.add("", event.WavePromoted{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, WaveName: r.Plan.Header.Waves[r.Cursor].Name, Evidence: n.Evidence(), AtTarget: n.By[rollout.AtTarget],
			Failed: n.Failures, Skipped: n.Skipped(), Absent: n.By[rollout.Absent], SkippedHosts: r.Away(r.Cursor, event.MaxNamed), Reason: promotedBecause(n)})
	}
}

func promotedBecause(n *rollout.WaveCount) string {
	switch changing := n.Present() - n.By[rollout.AtTarget]; {
	case n.Present() == 0:
		return fmt.Sprintf("none of the %d hosts of this wave is enrolled", n.Members())
	case n.Evidence() == 0:
		return "nothing to change in this wave"
	default:
		return fmt.Sprintf("%d of %d hosts converged through their soak", n.Evidence(), changing)
	}
}

// converging tells a rollout that still hands out grants from one that only
// waits for the hosts on their way.
func (p *planner) converging(r *rollout.Rollout) {
	t := r.Total()
	waiting := r.Cursor < len(r.Waves)-1 || t.Ready() > 0
	switch {
	case !waiting && r.Phase == rollout.Active && t.Moving() > 0:
		p.move(r, rollout.Converging, "every host of the last wave is on its way")
	case waiting && r.Phase == rollout.Converging:
		p.move(r, rollout.Active, "hosts came that have no grant yet")
	}
}

// promotion asks whether the wave at the cursor is proven. The last wave may
// end without evidence of its own, since hosts that are away, or that failed
// within the limit, do not hold a rollout; but never a rollout without any
// evidence at all.
func (s *State) promotion(r *rollout.Rollout, now clock.Instant) *gate.Block {
	return gate.First(s.rolloutFacts(gate.ToPromote, r, now), gate.ToPromote, gate.AtOffer)
}

// proof is what the open waves have to show.
func (s *State) proof(r *rollout.Rollout) gate.Evidence {
	e := s.evidence(r, r.Cursor)
	for w := range r.Cursor { // hosts that came back to an earlier wave
		e.InFlight += r.Waves[w].Moving()
	}
	if e.Nobody {
		e.Absent = r.Total().By[rollout.Absent]
	}
	before := e.InFlight > r.Waves[r.Cursor].Moving()
	if r.Cursor >= len(r.Waves)-1 {
		t := r.Total()
		due := r.Due()
		before = before || due > e.Ready
		e.Ready = due
		switch {
		case t.Evidence() == 0: // earlier waves may have passed on an operator's word
			e.Hosts, e.AtTarget, e.Offline, e.Absent, e.Degraded = t.Present(), t.By[rollout.AtTarget], t.Skipped(), t.By[rollout.Absent], t.Unfit
		case e.MinPercent == 0: // the rest is away, or failed within the limit
			e.Converged = max(e.Converged, e.Needed())
		}
	}
	if before {
		e.Wave += " (with those before it)"
	}
	return e
}

func (s *State) evidence(r *rollout.Rollout, w int) gate.Evidence {
	n := &r.Waves[w]
	return gate.Evidence{Rollout: r.Name, Wave: r.Plan.Header.Waves[w].Name, Hosts: n.Present(), AtTarget: n.By[rollout.AtTarget],
		Converged: n.Evidence(), Degraded: n.Unfit, InFlight: n.Moving(), Ready: n.Ready(), Offline: n.Skipped(),
		MinSoaked: r.Plan.Header.Waves[w].MinSoaked, MinPercent: r.Plan.Header.Waves[w].MinSoakedPct,
		Absent: n.By[rollout.Absent], Nobody: len(r.Members) > 0 && r.Total().Present() == 0}
}

// recordBlock says what keeps a wave, when that has changed.
func (p *planner) recordBlock(r *rollout.Rollout) {
	if r.Phase.Ended() || r.Reverting || r.Paused || p.err != nil {
		return
	}
	p.converging(r)
	b := p.promotion(r)
	if b == nil {
		return
	}
	code := strconv.Itoa(r.Cursor) + "/" + b.Detail
	if r.Blocked == code {
		return
	}
	p.add("", event.WaveBlocked{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, WaveName: r.Plan.Header.Waves[r.Cursor].Name, Code: code, Reason: b.Message, Waits: p.waits(r)})
}

// waits says what the hosts wait for that the open waves of a rollout have left: the first
// gate that keeps each, as Why does. It looks at every member.
func (p *planner) waits(r *rollout.Rollout) (waits []event.HostWait) {
	gates := gate.Of(gate.ToUpdate, gate.AtOffer)
	at := make([]*event.HostWait, len(gates))
	f := p.about(gate.ToUpdate, r)
	for i := range r.Members {
		m := &r.Members[i]
		if r.Plan.Leaves[i].Wave > r.Cursor || m.Status != rollout.Waiting && m.Status != rollout.Refused {
			continue
		}
		f.at(i)
		k := slices.IndexFunc(gates, func(g *gate.Gate) bool { return g.Scope != gate.PerServer && g.Check(f, false) != nil })
		if k < 0 {
			continue // its grant comes with the next look
		}
		if at[k] == nil {
			at[k] = &event.HostWait{Gate: string(gates[k].Code), Reason: gates[k].Check(f, true).Message}
		}
		w := at[k]
		if w.Total++; len(w.Hosts) < event.MaxNamed {
			w.Hosts = append(w.Hosts, f.h.Name)
		}
	}
	for _, w := range at {
		if w != nil {
			waits = append(waits, *w)
		}
	}
	return waits
}

// failurePolicy halts the rollout or sends its hosts back. Either way nothing
// new is granted and what failed is quarantined on the channel.
func (p *planner) failurePolicy(r *rollout.Rollout, w int) {
	limit := r.Plan.Header.Policy.MaxFailures
	reason := fmt.Sprintf("wave %s has %s, %d allowed", r.Plan.Header.Waves[w].Name,
		prose.Count(r.Waves[w].Failures-r.Acknowledged[w], "failed host"), limit)
	p.quarantine(r)
	p.endOffers(r, reason)
	if r.Plan.Header.Policy.OnHealthFailure == fleet.Halt {
		p.move(r, rollout.Failed, reason)
		return
	}
	if r.Waves[w].Proven <= limit { // hosts go back only on the signed word of others
		p.move(r, rollout.Failed, prose.Clauses(reason, p.s.unproven(r, w)))
		return
	}
	p.add("", event.RolloutReverting{Rollout: r.Name, Manifest: r.Manifest, Wave: w, Reason: reason})
}

// quarantine refuses on the channel what members failed on, and reports whether
// that is news.
func (p *planner) quarantine(r *rollout.Rollout) (news bool) {
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		if (!m.Failed || m.Away) && m.Refused == "" {
			continue
		}
		if _, there := p.s.Channels[r.Channel].Quarantine[leaf.Target]; !there {
			why := "failed on host " + leaf.Host + " in " + r.Name
			if !m.Failed {
				why = "refused by host " + leaf.Host + " in " + r.Name + ": " + p.s.refusal(leaf.Host, leaf.Target, m.Refused)
			}
			p.add("", event.QuarantineAdded{Channel: r.Channel, Digest: leaf.Target, Rollout: r.Name, Reason: why})
			news = true
		}
	}
	return news
}
