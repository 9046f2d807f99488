package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// facts answers from the state what gates ask about one thing, for one purpose. It is
// used by one caller at a time.
type facts struct {
	s       *State
	now     clock.Instant
	purpose gate.Purpose
	claim   bool // of what the host was offered

	c      *Channel
	r      *rollout.Rollout
	h      *Host // nil: of no host alone
	i      int   // the member of r; -1: none
	class  *rollout.Class
	wave   int
	bundle digest.Digest
	hp     *fleet.HostPlan    // where windows and policy are not those of r's own plan
	next   *fleet.ManifestRef // of c, to open

	// q asks for people: also when time can clear what blocks.
	q        *Explainer
	restored Restored

	promotion gate.Evidence
	counted   bool // of promotion
	// uses, unmet, absent and sessions are what the last answer was made in.
	uses          []gate.Use
	unmet, absent []string
	sessions      []gate.Occupant
}

var _ gate.Facts = (*facts)(nil)

var purposes = map[host.Purpose]gate.Purpose{
	host.Update: gate.ToUpdate, host.Rollback: gate.ToRollback, host.Repair: gate.ToRepair, host.Reboot: gate.ToReboot,
}

// rolloutFacts is of a rollout as a whole; at and in narrow it.
func (s *State) rolloutFacts(p gate.Purpose, r *rollout.Rollout, now clock.Instant) *facts {
	return &facts{s: s, now: now, purpose: p, r: r, c: s.Channels[r.Channel], i: -1}
}

// at makes the facts those of a member.
func (f *facts) at(i int) *facts {
	leaf := &f.r.Plan.Leaves[i]
	f.h, f.i, f.wave, f.bundle = f.s.host(leaf.Host), i, leaf.Wave, leaf.Target
	return f
}

// in makes the facts those of a class of members.
func (f *facts) in(c *rollout.Class) *facts {
	f.h, f.i, f.wave, f.class = nil, -1, c.Wave, c
	return f
}

// repair makes the facts those of the repair that a host waits for.
func (f *facts) repair(h *Host) {
	f.purpose, f.h, f.i, f.bundle, f.hp = gate.ToRepair, h, -1, h.Repair.Bundle, f.s.hostPlan(h, h.Repair.Manifest)
	f.r, f.c = nil, nil
	if f.hp != nil {
		f.r, f.c = f.s.Rollouts[f.hp.Manifest], f.s.Channels[f.hp.Channel]
	}
}

// ask begins to ask about something in the place where the planner does, and ends what
// was asked before.
func (s *State) ask(about facts) *facts {
	f := &s.facts
	about.s, about.uses, about.unmet, about.absent, about.sessions = s, f.uses, f.unmet, f.absent, f.sessions
	*f = about
	return f
}

// claimFacts is of a host that claims what it was offered of a rollout.
func (s *State) claimFacts(h *Host, r *rollout.Rollout, now clock.Instant) facts {
	f := facts{s: s, now: now, purpose: purposes[h.Grant.Purpose], claim: true, h: h, i: -1, r: r, bundle: h.Grant.Target}
	if r == nil {
		return f
	}
	f.c = s.Channels[r.Channel]
	if r.Plan != nil {
		if i, ok := r.Plan.Leaf(h.Name); ok {
			f.i = i
		}
	}
	if f.purpose != gate.ToRollback {
		f.hp = s.hostPlan(h, r.Manifest)
	}
	return f
}

// openFacts is of the rollout that a channel should open next.
func (s *State) openFacts(c *Channel, now clock.Instant) *facts {
	return &facts{s: s, now: now, purpose: gate.ToOpen, c: c, next: c.pending(), i: -1}
}

func (f *facts) Behind() *gate.Block { return f.restored.Behind }

// Unheard is the host whose claim of a grant of an earlier process waits for what it
// has to say, and until when.
func (f *facts) Unheard() (string, clock.Instant) {
	if f.restored.Reported == nil || f.h == nil || f.h.Grant == nil || RunOf(f.h.Grant.ID) == f.s.run || f.restored.Reported(f.h.Name) {
		return "", 0
	}
	return f.h.Name, f.restored.Until
}

// RollCall is what budget would be full if hosts were in flight that a server which
// began a short time ago has not heard.
func (f *facts) RollCall() (*gate.Block, clock.Instant) {
	if f.restored.Missing == nil {
		return nil, 0
	}
	uses := f.Budgets()
	if len(uses) == 0 || gate.CheckBudgets(uses, false) != nil { // the gate of budgets refuses what is full
		return nil, 0
	}
	return f.fills(uses), f.restored.Until
}

// fills is the budget that missing hosts would fill, or nil. It takes no more of them than
// it needs to know. It is apart because what it walks with costs memory.
func (f *facts) fills(uses []gate.Use) *gate.Block {
	h := f.h
	for name := range f.restored.Missing {
		o := f.s.Hosts[name]
		if o == nil || o == h || o.inFlight && !(h.Machine.Staged() && o.idle) {
			continue // counted
		}
		for _, id := range o.budgets {
			i := slices.Index(h.budgets, id)
			if i < 0 {
				continue
			}
			if uses[i].InFlight++; uses[i].Full() {
				return gate.CheckBudgets(uses, true)
			}
		}
	}
	return nil
}

func (f *facts) Freshness() (string, clock.Instant, clock.Duration, clock.Instant) {
	return f.c.Name, f.s.Timestamp.IssuedAt, f.c.FreshnessWindow, max(f.now, f.s.floor())
}

func (f *facts) Override() (rollout, action, message string) {
	if t := f.s.Overrides.Restrictions(f.r.Channel, f.r.Manifest); t != nil && !f.r.Reverting {
		return f.r.Name, string(t.Action), t.Message()
	}
	return "", "", ""
}

// Status is of the rollout. What runs on a host was granted before, so a repair there
// minds no pause; but what is rolled back is not repaired first.
func (f *facts) Status() gate.RolloutStatus {
	r := f.r
	switch {
	case r == nil || f.c == nil:
		return gate.RolloutStatus{Rollout: f.h.Machine.Rollout, Phase: "not known here", Ended: true}
	case f.purpose != gate.ToRepair:
		return f.s.rolloutStatus(r)
	case f.c.Latest == r.Manifest && r.Reverting:
		if i, in := r.Plan.Leaf(f.h.Name); in && needsRollback(f.h, r, i) {
			return gate.RolloutStatus{Rollout: r.Name, Reverting: true, Reason: r.Reason}
		}
	}
	return gate.RolloutStatus{}
}

func (s *State) rolloutStatus(r *rollout.Rollout) gate.RolloutStatus {
	return gate.RolloutStatus{
		Rollout: r.Name, Phase: Status(r), Paused: r.Paused, Reason: cmp.Or(r.PauseReason, r.Reason),
		Halted: r.Phase == rollout.Failed && !r.Final, Blocked: len(s.Verdicts[r.Manifest]) > 0, Reverting: r.Reverting,
		Ended: r.Phase.Ended() && r.Phase != rollout.Terminal, Outdated: s.outdated(r),
	}
}

func (f *facts) Superseded() (name, rollout string) {
	m, g := &f.h.Machine, f.h.Grant
	goesOn := m.Staged() && m.Manifest == g.Manifest && m.Target == g.Target
	if f.purpose == gate.ToRepair {
		goesOn = m.AtRest() && m.Manifest == g.Manifest && f.hp != nil
	}
	if goesOn {
		return "", ""
	}
	return f.h.Name, cmp.Or(m.Rollout, g.Rollout)
}

func (f *facts) Freeze() (string, clock.Instant, string, clock.Instant) {
	z := f.h.Freeze
	if z == nil {
		return "", 0, "", 0
	}
	return f.h.Name, z.Until, z.Reason + " (" + z.Actor + ")", f.now
}

func (f *facts) Quarantine() (channel, bundle, reason, own string) {
	reason = f.s.quarantined(f.c, f.bundle, f.h.Name)
	if f.purpose == gate.ToUpdate && f.i >= 0 {
		if refused := f.r.Members[f.i].Refused; f.h.refusesItself(f.r, refused) {
			own, reason = f.r.Name, cmp.Or(reason, f.s.refusal(f.h.Name, f.bundle, cmp.Or(refused, "the host quarantined it as it went back from it")))
		}
	}
	if reason == "" {
		return "", "", "", ""
	}
	return f.c.Name, f.bundle.Short(), reason, own
}

func (f *facts) Windows() (string, []clock.Window, clock.Instant) {
	switch {
	case f.h == nil && len(f.class.Windows) > 0:
		return "these hosts", f.r.Plan.Header.WindowsOf(&fleet.Leaf{Windows: f.class.Windows}), f.now
	case f.h == nil:
	case f.hp != nil && len(f.hp.Windows) > 0:
		return "host " + f.h.Name, f.hp.Windows, f.now
	case f.hp == nil && f.i >= 0 && len(f.r.Plan.Leaves[f.i].Windows) > 0:
		return "host " + f.h.Name, f.r.Plan.Header.WindowsOf(&f.r.Plan.Leaves[f.i]), f.now
	}
	return "", nil, 0
}

func (f *facts) Queue() (pending, active, status string, earliest clock.Instant) {
	cur := f.s.Rollouts[f.c.Active]
	if !f.s.keeps(f.c, cur, f.next) {
		return "", "", "", 0
	}
	if f.q != nil {
		earliest = f.q.rollout(cur).opens
	}
	return f.next.Rollout, cur.Name, Status(cur), earliest
}

func (f *facts) ChannelEdges() (string, []gate.Predecessor) {
	if f.q == nil {
		return f.c.Name, f.s.predecessors(f.c.Name, 0)
	}
	return f.c.Name, f.s.predecessors(f.c.Name, f.now)
}

func (f *facts) Wave() (string, int, string, int, string, clock.Instant) {
	var opens clock.Instant
	if f.q != nil && f.wave > f.r.Cursor {
		opens = f.q.rollout(f.r).opens
	}
	waves := f.r.Plan.Header.Waves
	return f.r.Name, f.wave, waves[f.wave].Name, f.r.Cursor, waves[f.r.Cursor].Name, opens
}

// Canary is asked again when an offer is claimed: what a restored log had forgotten may
// have been tried since.
func (f *facts) Canary() (string, int, int, clock.Instant) {
	if f.i < 0 {
		return "", 0, 0, 0
	}
	tried, most := f.r.Canaries(f.i, f.now)
	var earliest clock.Instant
	switch {
	case most != 0 && f.r.SoakedAt > f.now:
		earliest = f.r.SoakedAt
	case most != 0 && f.q != nil:
		earliest = f.q.rollout(f.r).soaks
	}
	return f.r.Name, tried, most, earliest
}

func (f *facts) Identity() (name, status, reason string) {
	switch {
	case f.h.Ended != nil:
		reason = f.h.Ended.Reason
	case f.h.Parked != "":
		reason = host.ParkedMessage(f.h.Parked)
	case f.h.Leaving != nil:
		reason = f.h.Leaving.Reason
	}
	return f.h.Name, f.h.IdentityStatus(), reason
}

func (f *facts) Presence() (string, gate.Absence, clock.Instant) {
	h := f.h
	if h.Reachable() {
		return h.Name, gate.Absence{Presence: gate.Online}, f.now
	}
	at, _ := f.s.givenUp(h)
	return h.Name, gate.Absence{Presence: h.Presence(true), LastSeen: h.LastSeen, GivenUp: upcoming(at, f.now)}, f.now
}

func (f *facts) HostEdges() (string, []string, []string, clock.Instant) {
	unmet, absent := f.unmet[:0], f.absent[:0]
	leaf := &f.r.Plan.Leaves[f.i]
	for _, name := range leaf.After {
		if i, ok := f.r.Plan.Leaf(name); ok && !f.r.Members[i].Status.Arrived() {
			unmet = append(unmet, name)
			if f.r.Members[i].Status == rollout.Absent {
				absent = append(absent, name)
			}
		}
	}
	f.unmet, f.absent = unmet, absent
	var earliest clock.Instant
	if f.q != nil {
		earliest = f.s.arrivesAt(unmet, f.now)
	}
	return leaf.Host, unmet, absent, earliest
}

func (f *facts) Controls() (string, []string) { return f.r.Name, f.s.Verdicts[f.r.Manifest] }

// Evidence is of the hosts before the wave that is asked about.
func (f *facts) Evidence() (string, []gate.Outstanding) {
	before := f.wave
	if f.purpose == gate.ToPromote {
		before = f.r.Cursor + 1
	}
	return f.r.Name, f.s.outstandingBefore(f.r, before)
}

func (f *facts) Backoff() (until clock.Instant, last gate.Untaken, now clock.Instant) {
	b := &f.h.Backoff
	if f.purpose == gate.ToRepair {
		b = &f.h.Repair.Backoff
	}
	last = gate.Untaken{Code: b.DeclineCode, Detail: b.Detail}
	if f.purpose != gate.ToRepair && f.h.unwilling() {
		last.Given = b.Declines
	}
	return b.NotBefore, last, f.now
}

func (f *facts) Promotion() gate.Evidence {
	if !f.counted {
		f.promotion, f.counted = f.s.proof(f.r), true
		if f.q != nil {
			f.s.timeEvidence(&f.promotion, f.r, f.now)
		}
	}
	return f.promotion
}

// Soak looks at every member, and is asked last.
func (f *facts) Soak() (string, string, clock.Instant, clock.Instant) {
	return f.r.Name, f.r.Plan.Header.Waves[f.r.Cursor].Name, f.s.soakUntil(f.r), f.now
}
