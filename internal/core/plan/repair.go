package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Repair is drift that a host may only repair under a grant.
type Repair struct {
	host.RepairNeed
	// Place is where it stands in the line: first come, first served.
	Place uint64 `json:"place"`
	// Declines counts grants declined in a row; NotBefore is when to ask again.
	Declines     int           `json:"declines,omitempty"`
	NotBefore    clock.Instant `json:"notBefore,omitempty"`
	DeclineCode  string        `json:"declineCode,omitempty"`
	DeclineWords string        `json:"declineWords,omitempty"`
}

// Resource names what is to be repaired, for people.
func (r *Repair) words() string {
	words := strings.Join(r.Resources[:min(len(r.Resources), 3)], ", ")
	if more := len(r.Resources) - 3 + r.More; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

// idle reports whether a grant gives way to a rollout: it lets a host repair or
// reboot and is not claimed.
func (g *Grant) idle() bool {
	return g != nil && (g.Purpose == host.Repair || g.Purpose == host.Reboot) && !g.Claimed
}

// rolloutGrant is the host's grant unless it is for a repair, or gives way.
func (h *Host) rolloutGrant() *Grant {
	if h.Grant != nil && (h.Grant.Purpose == host.Repair || h.Grant.idle()) {
		return nil
	}
	return h.Grant
}

// Repairing reports whether the host claimed a grant to repair and has not said
// that it is over.
func (h *Host) Repairing() bool {
	return h.Grant != nil && h.Grant.Purpose == host.Repair && h.Grant.Claimed
}

// NeedsRepair reports whether the host waits for a grant to repair what it runs.
func (h *Host) NeedsRepair() bool {
	n, m := h.Repair, &h.Machine
	return n != nil && h.Grant == nil && m.Settled() && n.Manifest == m.Manifest && n.Bundle == m.Current
}

// foldRepair takes what a host says of its repairs.
func (s *State) foldRepair(h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.RepairNeeded:
		if h.Repair == nil {
			s.Repairs++
			h.Repair = &Repair{Place: s.Repairs}
		}
		h.Repair.RepairNeed = ev.RepairNeed
	case event.RepairOver:
		h.Repair = nil
		if ev.Grant != "" && h.Repairing() && h.Grant.ID == ev.Grant {
			h.Grant = nil
		}
	}
	s.refresh(h)
}

// foldRepairGrant takes the life of a Repair grant apart from what it has in
// common with the others.
func (s *State) foldRepairGrant(h *Host, ev event.GrantEnded) {
	if h.Repair == nil || ev.NotBefore == 0 {
		return
	}
	h.Repair.Declines++
	h.Repair.NotBefore = ev.NotBefore
	s.wake(ev.NotBefore, h.Name)
}

// waiting is a place in the line of hosts with something to repair.
type waiting struct {
	h     *Host
	place uint64
}

// lineUp gives a host its place in the line. Places only grow, so the line is in
// order; what is over drops out when the line is walked.
func (s *State) lineUp(h *Host) {
	if h.Repair == nil {
		return
	}
	s.repairs = true
	if h.inLine != h.Repair.Place {
		h.inLine = h.Repair.Place
		s.line = append(s.line, waiting{h, h.inLine})
	}
}

// repair grants to the hosts that wait for a repair, in the order in which they
// asked, as far as no gate holds them. Rollouts were planned before: they may
// bring what cures the drift.
func (p *planner) repair() {
	s := p.s
	line := s.line
	s.line = s.line[:0]
	for _, at := range line {
		h := at.h
		if h.Repair == nil || h.Repair.Place != at.place {
			continue
		}
		s.line = append(s.line, at)
		if !h.NeedsRepair() || !h.Reachable() || s.full(h.budgets) || p.err != nil {
			continue
		}
		switch b := s.repairBlock(h, p.now); {
		case b == nil:
			p.grantRepair(h)
		case b.Code == gate.Window:
			s.wakeRepair(h, b.Earliest)
		}
	}
	clear(line[len(s.line):])
	s.repairs = false // a grant lets no other one through
}

func (p *planner) grantRepair(h *Host) {
	m := &h.Machine
	hp := p.s.hostPlan(h, m.Manifest)
	ev := event.Granted{Grant: grantName(p.s.Grants+1, m.Manifest, host.Repair), Rollout: m.Rollout, Manifest: m.Manifest,
		Purpose: host.Repair, Target: m.Current, Wave: hp.Wave, Expires: endsBy(hp.Windows, p.now, p.now.Add(hp.Policy.GrantExpiry)),
		Reason: "drift of " + h.Repair.words() + " waits: " + h.Repair.Reason, Budgets: p.budgetWords(h)}
	p.do(grant{ev, h.Name}, h.Name, ev)
}

// repairGates asks every gate about a repair that a host waits for. What runs
// there was granted before, so freshness, waves, edges and the pause of a rollout
// have no say; what a rollout takes back is not repaired first.
func (s *State) repairGates(h *Host, now clock.Instant) []Gate {
	n := h.Repair
	hp := s.hostPlan(h, n.Manifest)
	if hp == nil || s.Rollouts[n.Manifest] == nil {
		return []Gate{{gate.Overlay, gate.CheckOverlay(gate.Standing{Rollout: h.Machine.Rollout, Phase: "not known here", Ended: true})}}
	}
	reason := ""
	if c := s.Channels[hp.Channel]; c != nil {
		reason = s.quarantined(c, n.Bundle, h.Name)
	}
	return []Gate{
		{gate.Overlay, s.returning(h, hp)},
		{gate.Freeze, h.frozen(now)},
		{gate.Quarantine, gate.CheckQuarantine(hp.Channel, n.Bundle.Short(), reason)},
		{gate.Window, gate.CheckWindow("host "+h.Name, hp.Windows, now)},
		{gate.Identity, h.identityBlock()},
		{gate.Presence, s.presenceBlock(h, now)},
		{gate.Budget, gate.CheckBudgets(s.timedUses(h, s.uses(h), now))},
		{gate.Backoff, gate.CheckBackoff(n.NotBefore, n.DeclineCode, n.DeclineWords, now)},
	}
}

// returning blocks the repair of a host that is to go back from what it runs.
func (s *State) returning(h *Host, hp *fleet.HostPlan) *gate.Block {
	r, c := s.Rollouts[hp.Manifest], s.Channels[hp.Channel]
	if r == nil || c == nil || c.Latest != r.Manifest || !r.Reverting || !r.Marks[h.Name].Claimed && !r.Ordered || !needsBack(h, r) {
		return nil
	}
	return gate.CheckOverlay(gate.Standing{Rollout: r.Name, Reverting: true, Reason: r.Reason})
}

// repairBlock is the first gate that holds a repair, or nil.
func (s *State) repairBlock(h *Host, now clock.Instant) *gate.Block {
	return first(s.repairGates(h, now))
}

// fits reports whether a grant of a rollout finds room in the budgets of a host,
// which may use the slot that it holds.
func (s *State) fits(h *Host) bool { return gate.CheckBudgets(s.room(h)) == nil }

// room lists how full each budget of a host is without the slot that an idle
// grant holds; it is empty for a host that holds one otherwise.
func (s *State) room(h *Host) []gate.Use {
	if h.idles() {
		return s.active(h.budgets)
	}
	if h.Machine.InFlight() || h.SilentFailure || h.Grant != nil && !h.Grant.idle() {
		return nil
	}
	uses := s.uses(h)
	if h.Grant != nil {
		for i := range uses {
			uses[i].InFlight--
		}
	}
	return uses
}

// mayRepair refuses a claim of a Repair grant that time has overtaken.
func (s *State) mayRepair(h *Host, g *Grant, now clock.Instant) *gate.Block {
	m := &h.Machine
	hp := s.hostPlan(h, g.Manifest)
	if !m.Settled() || m.Manifest != g.Manifest || hp == nil {
		return gate.Overtaken(h.Name, m.Rollout)
	}
	if b := s.returning(h, hp); b != nil {
		return b
	}
	if b := gate.CheckWindow("host "+h.Name, hp.Windows, now); b != nil {
		return b
	}
	reason := ""
	if c := s.Channels[hp.Channel]; c != nil {
		reason = s.quarantined(c, g.Target, h.Name)
	}
	return gate.CheckQuarantine(hp.Channel, g.Target.Short(), reason)
}

// RepairAnswer says what a host waits to repair, or repairs.
type RepairAnswer struct {
	Resources []string `json:"resources"`
	More      int      `json:"more,omitempty"`
	Reason    string   `json:"reason"`
	// Words say where it stands, in a sentence.
	Words string `json:"words"`
	// Grant is offered or claimed.
	Grant string `json:"grant,omitempty"`
	// Block is the first gate that holds it back.
	Block *gate.Block `json:"block,omitempty"`
	Gates []Gate      `json:"gates,omitempty"`
}

// whyRepair answers for the drift that a host reported, or is nil; server is the gate
// that is asked first.
func (s *State) whyRepair(h *Host, server []Gate, now clock.Instant) *RepairAnswer {
	if !h.Repairing() && !(h.Grant.idle() && h.Grant.Purpose == host.Repair) && !h.NeedsRepair() {
		return nil
	}
	a := &RepairAnswer{Resources: []string{}}
	if n := h.Repair; n != nil {
		a.Resources, a.More, a.Reason = slices.Clone(n.Resources), n.More, n.Reason
	}
	switch {
	case h.Repairing():
		a.Grant, a.Words = h.Grant.ID, "is repairing under grant "+h.Grant.ID
		if !h.Online {
			a.Words = "claimed " + h.Grant.ID + " to repair and went silent; it keeps its slot until it reports"
		}
	case h.Grant.idle() && h.Grant.Purpose == host.Repair:
		a.Grant, a.Words = h.Grant.ID, "was granted "+h.Grant.ID+" to repair, which expires at "+h.Grant.Expires.String()
		a.Block = first(server)
		a.Words += unclaimed(a.Block)
	default:
		a.Gates = append(slices.Clip(server), s.repairGates(h, now)...)
		a.Words = "drift of " + h.Repair.words() + " waits for a grant, and nothing holds it back"
		if a.Block = first(a.Gates); a.Block != nil {
			a.Words = "drift of " + h.Repair.words() + " waits for a grant: " + a.Block.Words
		}
	}
	return a
}
