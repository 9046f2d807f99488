package plan

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Next decides everything that may happen now and folds it into s. The same log
// and the same instants give the same decisions, whoever runs it. It looks only
// at channels that something touched and at hosts whose time has come, so a
// tick with nothing to do costs next to nothing.
func Next(s *State, now clock.Instant) (*Plan, error) {
	p := &planner{s: s, now: now, plan: &Plan{}}
	p.timers()
	for len(s.dirty) > 0 && p.err == nil {
		for _, name := range s.ChannelNames() {
			if s.dirty[name] {
				delete(s.dirty, name)
				p.channel(s.Channels[name])
			}
		}
	}
	if len(s.timers) > 0 {
		p.plan.Next = s.timers[0].at
	}
	return p.plan, p.err
}

// planner carries one Next.
type planner struct {
	s    *State
	now  clock.Instant
	plan *Plan
	err  error
}

// do folds a decision and keeps it for the log.
func (p *planner) do(a Action, hostName string, ev event.Event) {
	if p.err != nil {
		return
	}
	e, err := event.NewEntry(p.now, hostName, ev)
	if err == nil {
		err = p.s.fold(e, ev)
	}
	if err != nil {
		p.err = fmt.Errorf("plan: %w", err)
		return
	}
	p.plan.Decisions = append(p.plan.Decisions, Decision{Action: a, Entry: e})
}

// timers handles every host whose time has come, in the order of names: timers
// that no longer matter are dropped and must leave no trace in the decisions.
func (p *planner) timers() {
	var due []string
	for len(p.s.timers) > 0 && p.s.timers[0].at <= p.now {
		due = append(due, heap.Pop(&p.s.timers).(timer).host)
	}
	slices.Sort(due)
	for _, name := range slices.Compact(due) {
		if h := p.s.Hosts[name]; h != nil {
			p.due(h)
		}
	}
}

func (p *planner) due(h *Host) {
	if g := h.Grant; g != nil && !g.Claimed && g.Expires.Reached(p.now) {
		p.endGrant(h, "expired before it was claimed", 0)
	}
	if h.NotBefore.Reached(p.now) {
		p.s.markHost(h)
	}
	if h.SilentSince != 0 && !h.SilentFailure && h.Acting() && p.s.silentDeadline(h).Reached(p.now) {
		ev := event.HostFailedSilently{Rollout: h.Machine.Rollout, Manifest: h.Machine.Manifest, Deadline: p.s.silentDeadline(h)}
		if h.Grant != nil {
			ev.Rollout, ev.Manifest, ev.Grant = h.Grant.Rollout, h.Grant.Manifest, h.Grant.ID
		}
		p.do(failSilent{ev, h.Name}, h.Name, ev)
	}
}

func (p *planner) endGrant(h *Host, reason string, notBefore clock.Instant) {
	ev := event.GrantEnded{Grant: h.Grant.ID, Reason: reason, NotBefore: notBefore}
	p.do(endGrant{ev, h.Name}, h.Name, ev)
}

// markHost has the host's channels planned again.
func (s *State) markHost(h *Host) {
	for _, at := range h.seats {
		s.dirty[at.r.Channel] = true
	}
}

// Nudge has every channel planned again at the next Next. It decides nothing
// and changes nothing that is logged.
func (s *State) Nudge() { s.markAll() }

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
		p.sendBack(r)
		p.endRevert(r)
	}
	p.serve(c, r)
	if last := p.s.Rollouts[c.Converged]; last != nil && c.Converged != c.Latest {
		p.serve(c, last)
	}
	if r != nil && c.Active == r.Manifest {
		p.hold(r) // after the grants, so that it names what is left
	}
	p.open(c) // an ended rollout frees the queue
}

// pending returns the manifest that the channel should open next, or nil.
func (c *Channel) pending() *fleet.ManifestRef {
	if len(c.Manifests) == 0 || c.Manifests[0].Digest == c.Latest {
		return nil
	}
	return &c.Manifests[0]
}

// open starts the rollout of a new ref, queues it or says what holds it.
func (p *planner) open(c *Channel) {
	ref := c.pending()
	if ref == nil || p.err != nil {
		return
	}
	cur := p.s.Rollouts[c.Active]
	if cur != nil && (!cur.Phase.Ended() || cur.Reverting) {
		if c.OnNewRef != fleet.Supersede || cur.Reverting {
			p.queue(c, ref, cur)
			return
		}
	}
	if b := gate.CheckChannelEdges(c.Name, p.s.predecessors(c.Name)); b != nil {
		ev := event.RolloutDeferred{Channel: c.Name, TargetRef: ref.Rollout, BlockedBy: b.Detail, Reason: b.Words}
		if c.Deferral != ev.TargetRef+" "+ev.BlockedBy+" "+ev.Reason {
			p.do(deferRollout{ev}, "", ev)
		}
		return
	}
	if cur != nil && cur.Phase != rollout.Superseded && !cur.Final {
		p.move(cur, rollout.Superseded, ref.Rollout+" takes its place")
		p.endOffers(cur, "superseded by "+ref.Rollout)
	}
	ev := event.RolloutOpened{Rollout: ref.Rollout, Channel: c.Name, Ref: refOf(ref.Rollout, c.Name), Manifest: ref.Digest,
		Reason: "release " + strconv.FormatUint(p.s.Release.Version, 10) + " lists it first"}
	p.do(openRollout{ev}, "", ev)
	if r := p.s.Rollouts[ref.Digest]; r != nil && p.err == nil {
		p.move(r, rollout.Active, fmt.Sprintf("%d hosts in %d waves", len(r.Members), len(r.Waves)))
	}
}

func refOf(name, channel string) string { return name[len(channel)+1:] }

func (p *planner) queue(c *Channel, ref *fleet.ManifestRef, cur *rollout.Rollout) {
	if c.Queued == ref.Digest {
		return
	}
	ev := event.RolloutQueued{Channel: c.Name, TargetRef: ref.Rollout, Manifest: ref.Digest,
		Reason: "rollout " + cur.Name + " is " + string(cur.Phase)}
	if c.Queued != "" {
		ev.Dropped = c.Queued.Short()
	}
	p.do(queueRollout{ev}, "", ev)
}

// predecessors lists the channels that must be at rest before one may open.
func (s *State) predecessors(channel string) []gate.Predecessor {
	var before []gate.Predecessor
	for _, e := range s.Edges {
		if e.Gated != channel {
			continue
		}
		pre := gate.Predecessor{Channel: e.Gates, Reason: e.Reason}
		if c := s.Channels[e.Gates]; c != nil {
			// A reverted one holds like a halted one: what it led failed.
			if r := s.Rollouts[c.Latest]; r != nil && !r.Final && (!r.Phase.Ended() || r.Phase == rollout.Failed || r.Phase == rollout.Reverted) {
				pre.Rollout, pre.Phase = r.Name, string(r.Phase)
				pre.Halted, pre.Reverted = r.Phase == rollout.Failed, r.Phase == rollout.Reverted
			} else if ref := c.pending(); ref != nil {
				pre.Rollout, pre.Phase = ref.Rollout, "about to open"
			}
		}
		before = append(before, pre)
	}
	return before
}

func (p *planner) move(r *rollout.Rollout, to rollout.Phase, reason string) {
	ev := event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(to), Reason: reason}
	p.do(moveRollout{ev}, "", ev)
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
		if p.s.promotion(r) != nil {
			break
		}
		if last {
			t := r.Total()
			p.move(r, rollout.Terminal, fmt.Sprintf("%d hosts converged, %d had nothing to change, %d skipped",
				t.By[rollout.Converged], t.By[rollout.AtTarget], t.Offline))
			return
		}
		n := &r.Waves[r.Cursor]
		ev := event.WavePromoted{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, Evidence: n.By[rollout.Converged], AtTarget: n.By[rollout.AtTarget],
			Failed: n.Failures, Skipped: n.Offline, Reason: promotedBecause(n)}
		p.do(promoteWave{ev}, "", ev)
	}
}

func promotedBecause(n *rollout.WaveCount) string {
	if n.By[rollout.Converged] == 0 {
		return "nothing to change in this wave"
	}
	return fmt.Sprintf("%d hosts converged through their soak", n.By[rollout.Converged])
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
func (s *State) promotion(r *rollout.Rollout) *gate.Block {
	e := s.evidence(r, r.Cursor)
	for w := range r.Cursor { // hosts that came back to an earlier wave
		e.InFlight += r.Waves[w].Moving()
	}
	if r.Cursor >= len(r.Waves)-1 {
		t := r.Total()
		e.Ready = t.Ready()
		if t.By[rollout.Converged] > 0 { // the rest is away, or failed within the limit
			e.Converged = max(e.Converged, e.Needed())
		}
	}
	return gate.CheckPromotion(e)
}

func (s *State) evidence(r *rollout.Rollout, w int) gate.Evidence {
	n := &r.Waves[w]
	return gate.Evidence{Wave: r.Plan.Header.Waves[w].Name, Hosts: n.Members(), AtTarget: n.By[rollout.AtTarget],
		Converged: n.By[rollout.Converged], InFlight: n.Moving(), Ready: n.Ready(), Offline: n.Offline,
		MinSoaked: r.Plan.Header.Waves[w].MinSoaked}
}

// hold says what keeps a wave, when that has changed.
func (p *planner) hold(r *rollout.Rollout) {
	if r.Phase.Ended() || r.Reverting || r.Paused || p.err != nil {
		return
	}
	p.converging(r)
	b := p.s.promotion(r)
	if b == nil {
		return
	}
	code := strconv.Itoa(r.Cursor) + "/" + b.Detail
	if r.Held == code {
		return
	}
	ev := event.WaveHeld{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, Code: code, Reason: b.Words}
	p.do(holdWave{ev}, "", ev)
}

// failurePolicy halts the rollout or sends its hosts back. Either way nothing
// new is granted and what failed is quarantined on the channel.
func (p *planner) failurePolicy(r *rollout.Rollout, w int) {
	limit := r.Plan.Header.Policy.MaxFailures
	reason := fmt.Sprintf("wave %s has %d failed hosts, %d allowed", r.Plan.Header.Waves[w].Name,
		r.Waves[w].Failures-r.Acknowledged[w], limit)
	p.quarantine(r)
	p.endOffers(r, reason)
	if r.Plan.Header.Policy.OnHealthFailure == fleet.Halt {
		p.move(r, rollout.Failed, reason)
		return
	}
	if r.Waves[w].Proven <= limit { // hosts go back only on the signed word of others
		p.move(r, rollout.Failed, reason+"; silent hosts prove nothing to others, so none is sent back")
		return
	}
	ev := event.RolloutReverting{Rollout: r.Name, Manifest: r.Manifest, Wave: w, Reason: reason}
	p.do(revertRollout{ev}, "", ev)
}

// quarantine refuses on the channel what members failed on, and reports whether
// that is news.
func (p *planner) quarantine(r *rollout.Rollout) (news bool) {
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		if !m.Failed && m.Refused == "" {
			continue
		}
		if _, there := p.s.Channels[r.Channel].Quarantine[leaf.Target]; !there {
			ev := event.QuarantineAdded{Channel: r.Channel, Digest: leaf.Target, Reason: "failed on host " + leaf.Host + " in " + r.Name}
			p.do(addQuarantine{ev}, "", ev)
			news = true
		}
	}
	return news
}

// serve grants to the hosts of a rollout, which may be terminal: hosts that were
// away take it as they return. When more of them fail than its policy allows,
// what failed is quarantined, so that it does not break the others one by one as
// they come; the hosts that converged keep it, since an ended rollout reverts
// nobody.
func (p *planner) serve(c *Channel, r *rollout.Rollout) {
	if r != nil && r.Phase == rollout.Terminal && r.Plan != nil && r.Judged != r.Total().Failures {
		r.Judged = r.Total().Failures
		if w := r.Excess(); w >= 0 && p.quarantine(r) {
			p.endOffers(r, fmt.Sprintf("%d hosts of wave %s failed as they returned, %d allowed", r.Waves[w].Failures-r.Acknowledged[w],
				r.Plan.Header.Waves[w].Name, r.Plan.Header.Policy.MaxFailures))
		}
	}
	p.forward(c, r)
}

// forward grants the target to every host that no gate holds back.
func (p *planner) forward(c *Channel, r *rollout.Rollout) {
	if r == nil || p.err != nil || p.s.overlay(r) != nil {
		return
	}
	if gate.CheckFreshness(c.Name, p.s.Timestamp.IssuedAt, c.FreshnessWindow, p.now) != nil {
		return
	}
	active := p.s.Rollouts[c.Latest]
	for i := r.Holders.Next(0); i >= 0 && p.err == nil; i = r.Holders.Next(i + 1) {
		if r.Plan.Leaves[i].Wave <= r.Cursor {
			p.offer(c, r, active, i)
		}
	}
	for k := range r.Classes {
		class := &r.Classes[k]
		if class.Ready.Len() == 0 || class.Wave > r.Cursor {
			continue
		}
		for i := class.Ready.Next(0); i >= 0 && p.err == nil && !p.s.full(class.Budgets); i = class.Ready.Next(i + 1) {
			p.offer(c, r, active, i)
		}
	}
}

// offer grants a member the target unless a gate of its own holds it back.
func (p *planner) offer(c *Channel, r, active *rollout.Rollout, i int) {
	leaf := &r.Plan.Leaves[i]
	if h := p.s.host(leaf.Host); p.hostGates(c, r, active, h, leaf) {
		p.grant(h, r, host.Forward, leaf.Target, p.reasonFor(r, active, leaf))
	}
}

// hostGates asks the gates that differ from host to host.
func (p *planner) hostGates(c *Channel, r, active *rollout.Rollout, h *Host, leaf *fleet.Leaf) bool {
	switch {
	case h.Grant != nil || h.NotBefore > p.now:
		return false
	case c.Quarantine[leaf.Target] != "":
		return false
	case len(p.s.unmet(r, leaf)) > 0:
		return false
	}
	return active == nil || r == active || p.s.mayReturn(h, active)
}

// mayReturn reports whether a host may be given the last converged release
// although a newer rollout opened: its wave there is not open, or it went back
// from it. One that took a newer release and stays on it is ahead and never asked.
func (s *State) mayReturn(h *Host, newer *rollout.Rollout) bool {
	i, ok := newer.Plan.Leaf(h.Name)
	if !ok || newer.Phase.Ended() || newer.Reverting {
		return true
	}
	return newer.Members[i].Status == rollout.Back || newer.Plan.Leaves[i].Wave > newer.Cursor
}

func (p *planner) reasonFor(r, active *rollout.Rollout, leaf *fleet.Leaf) string {
	if r != active || r.Phase == rollout.Terminal {
		return "the host returned; " + r.Name + " is the last converged release"
	}
	return "wave " + r.Plan.Header.Waves[leaf.Wave].Name + " of " + r.Name + " is open"
}

// unmet lists the hosts that must converge before this one and have not.
func (s *State) unmet(r *rollout.Rollout, leaf *fleet.Leaf) []string {
	var unmet []string
	for _, name := range leaf.After {
		i, ok := r.Plan.Leaf(name)
		if !ok {
			continue
		}
		if st := r.Members[i].Status; st != rollout.Converged && st != rollout.AtTarget {
			unmet = append(unmet, name)
		}
	}
	return unmet
}

// grantName names a grant. The number alone comes again when the log is restored
// from a backup: the claim of one that was lost must never be taken for the
// claim of another manifest's, or of the way back.
func grantName(n uint64, manifest digest.Digest, purpose host.Purpose) string {
	return "g" + strconv.FormatUint(n, 10) + "-" + manifest.Short() + "-" + string(purpose)
}

func (p *planner) grant(h *Host, r *rollout.Rollout, purpose host.Purpose, target digest.Digest, reason string) {
	ev := event.Granted{Grant: grantName(p.s.Grants+1, r.Manifest, purpose), Rollout: r.Name, Target: target, Manifest: r.Manifest, Purpose: purpose,
		Expires: p.now.Add(r.Plan.Header.Policy.GrantExpiry), Reason: reason}
	if i, ok := r.Plan.Leaf(h.Name); ok {
		ev.Wave = r.Plan.Leaves[i].Wave
	}
	if len(h.budgets) > 0 {
		ev.Budgets = make(map[string]string, len(h.budgets))
		for _, id := range h.budgets {
			b, n := &p.s.budgets[id], 0
			if !h.InFlight() {
				n = 1
			}
			ev.Budgets[b.Selector] = strconv.Itoa(b.InFlight+n) + "/" + strconv.Itoa(b.Max) + " in flight"
		}
	}
	p.do(grant{ev, h.Name}, h.Name, ev)
}

// overlay returns why a rollout gives out no grants at all, or nil. A terminal
// rollout still serves hosts that return.
func (s *State) overlay(r *rollout.Rollout) *gate.Block {
	return gate.CheckOverlay(gate.Standing{
		Rollout: r.Name, Phase: string(r.Phase), Paused: r.Paused, Reason: firstOf(r.PauseReason, r.Reason),
		Halted: r.Phase == rollout.Failed && !r.Final, Reverting: r.Reverting,
		Ended: r.Phase.Ended() && r.Phase != rollout.Terminal,
	})
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
