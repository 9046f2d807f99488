package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Repair is drift that a host may only repair under a grant.
type Repair struct {
	host.RepairNeed
	// Place is where it stands in the line: first come, first served.
	Place uint64 `json:"place"`
	Backoff
}

// Resource names what is to be repaired, for people.
func (r *Repair) words() string {
	words := strings.Join(r.Resources[:min(len(r.Resources), 3)], ", ")
	if more := len(r.Resources) - 3 + r.More; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

// grantReason is why a grant is given for it.
func (r *Repair) grantReason() string {
	if r.Reboot != "" {
		return "the repair of " + r.words() + " waits for a reboot: " + r.Reboot
	}
	return "drift of " + r.words() + " waits: " + r.Reason
}

// yields reports whether a grant gives way to a rollout: it lets a host repair or
// reboot and is not claimed.
func (g *Grant) yields() bool {
	return g != nil && (g.Purpose == host.Repair || g.Purpose == host.Reboot) && !g.Claimed
}

// rolloutGrant is the host's grant unless it is for a repair, or gives way.
func (h *Host) rolloutGrant() *Grant {
	if h.Grant != nil && (h.Grant.Purpose == host.Repair || h.Grant.yields()) {
		return nil
	}
	return h.Grant
}

// Repairing reports whether the host claimed a grant to repair and has not said
// that it is over.
func (h *Host) Repairing() bool {
	return h.Grant != nil && h.Grant.Purpose == host.Repair && h.Grant.Claimed
}

// repairsOnly reports whether that is all that the host does.
func (h *Host) repairsOnly() bool { return h.Repairing() && !h.Acting() }

// NeedsRepair reports whether the host waits for a grant to repair what it runs.
func (h *Host) NeedsRepair() bool {
	n, m := h.Repair, &h.Machine
	return n != nil && h.Grant == nil && m.AtRest() && n.Manifest == m.Manifest && n.Bundle == m.Current
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
		if h.Grant != nil && h.Grant.Purpose == host.Repair && h.Grant.ID == ev.Grant {
			h.Grant, h.Overdue = nil, h.Overdue && h.SilentFailure
		}
	}
	s.refresh(h)
}

// repairRequest is a place in the queue of hosts with something to repair.
type repairRequest struct {
	h     *Host
	place uint64
}

// enqueueRepair gives a host its place in the queue. Places only grow, so the line is in
// order; what is over drops out when the line is walked.
func (s *State) enqueueRepair(h *Host) {
	if h.Repair == nil {
		return
	}
	s.repairsDirty = true
	if h.queued != h.Repair.Place {
		h.queued = h.Repair.Place
		s.repairQueue = append(s.repairQueue, repairRequest{h, h.queued})
	}
}

// grantRepairs grants to the hosts that wait for a repair, in the order in which they
// asked, as far as no gate holds them. Rollouts were planned before: they may
// bring what cures the drift.
func (p *planner) grantRepairs() {
	s := p.s
	line := s.repairQueue
	s.repairQueue = s.repairQueue[:0]
	f := s.ask(facts{now: p.now})
	for _, at := range line {
		h := at.h
		if h.Repair == nil || h.Repair.Place != at.place {
			continue
		}
		s.repairQueue = append(s.repairQueue, at)
		if !h.NeedsRepair() || !h.Reachable() || s.full(h.budgets) || p.err != nil {
			continue
		}
		f.repair(h)
		switch b := gate.First(f, gate.ToRepair, gate.AtOffer); {
		case b == nil:
			hp := s.hostPlan(h, h.Machine.Manifest)
			p.issue(h, event.Granted{Rollout: h.Machine.Rollout, Manifest: h.Machine.Manifest, Purpose: host.Repair, Target: h.Machine.Current, Wave: hp.Wave,
				Reason: h.Repair.grantReason()}, hp.Windows, &hp.Policy)
		case b.Code == gate.Window && h.opening != b.Earliest:
			h.opening = b.Earliest
			s.wake(h.opening, h.Name)
		}
	}
	clear(line[len(s.repairQueue):])
	s.repairsDirty = false // a grant lets no other one through
}

// RepairAnswer says what a host waits to repair, or repairs.
type RepairAnswer struct {
	Resources []string `json:"resources"`
	More      int      `json:"more,omitempty"`
	Reason    string   `json:"reason"`
	// Reboot is what the repair staged and only a reboot brings into effect; empty without that.
	Reboot string `json:"reboot,omitempty"`
	GrantAnswer
}

// GrantAnswer says where a host stands with a grant beside those of rollouts.
type GrantAnswer struct {
	// Message says it in a sentence.
	Message string `json:"message"`
	// Grant is offered or claimed.
	Grant string `json:"grant,omitempty"`
	// Block is the first gate that holds it back.
	Block *gate.Block `json:"block,omitempty"`
	Gates []Gate      `json:"gates,omitempty"`
}

// offeredAnswer answers for a grant that waits for its claim.
func (q *Explainer) offeredAnswer(h *Host, is, to string) GrantAnswer {
	a := GrantAnswer{Grant: h.Grant.ID, Block: first(q.server(h))}
	a.Message = is + "was granted " + a.Grant + " to " + to + ", which expires at " + h.Grant.Expires.String() + unclaimed(a.Block)
	return a
}

// waitingAnswer answers for a grant that facts are asked about.
func (q *Explainer) waitingAnswer(f *facts, waits, free string) GrantAnswer {
	a := GrantAnswer{Message: waits + free, Gates: climb(q.gates(f))}
	if a.Block = first(a.Gates); a.Block != nil {
		a.Message = waits + ": " + a.Block.Message
	}
	return a
}

// whyRepair answers for the drift that a host reported, or is nil.
func (q *Explainer) whyRepair(h *Host) *RepairAnswer {
	if !h.Repairing() && !(h.Grant.yields() && h.Grant.Purpose == host.Repair) && !h.NeedsRepair() {
		return nil
	}
	a := &RepairAnswer{Resources: []string{}}
	if n := h.Repair; n != nil {
		a.Resources, a.More, a.Reason, a.Reboot = slices.Clone(n.Resources), n.More, n.Reason, n.Reboot
	}
	switch {
	case h.Repairing():
		a.Grant, a.Message = h.Grant.ID, "is repairing under grant "+h.Grant.ID
		switch {
		case a.Reboot != "" && !h.Overdue:
			a.Message = "is rebooting under grant " + h.Grant.ID + " to repair: " + a.Reboot
		case !h.Online:
			a.Message = "claimed " + h.Grant.ID + " to repair and went silent; it keeps its slot until it reports"
		case h.Overdue:
			a.Message = "claimed " + h.Grant.ID + " to repair and did not report in time that it is over; nobody waits for it, and it keeps its slot until it does"
		}
	case h.Grant.yields() && h.Grant.Purpose == host.Repair:
		a.GrantAnswer = q.offeredAnswer(h, "", "repair")
	default:
		f := &facts{s: q.s, q: q, now: q.now}
		f.repair(h)
		waits := "drift of " + h.Repair.words() + " waits for a grant"
		if a.Reboot != "" {
			waits = "the repair of " + h.Repair.words() + " waits for a reboot: " + a.Reboot + ", and for its grant"
		}
		a.GrantAnswer = q.waitingAnswer(f, waits, ", and nothing blocks it")
	}
	return a
}
