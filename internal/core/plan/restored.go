package plan

import (
	"iter"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Restored is what a server knows beside the state: how far its log lacks, or may
// lack, what hosts know, as one that was restored from a backup does. The zero value
// holds nothing up.
type Restored struct {
	// Behind blocks everything but ways back, or is nil.
	Behind *gate.Block
	// Missing are the hosts that may be in flight without the state knowing; nil when
	// there are none. They count until an instant at most.
	Missing iter.Seq[string]
	Until   clock.Instant
}

// Claim is why the server may not take a host's claim of an offer yet, or nil.
func (r Restored) Claim(s *State, name, grant string) *gate.Block {
	h := s.Hosts[name]
	offered := h != nil && h.offered() && h.Grant.ID == grant
	if r.Behind != nil && !(offered && h.Grant.Purpose == host.Back) {
		return r.Behind
	}
	if r.Missing != nil && offered {
		return r.unsure(s, h)
	}
	return nil
}

// unsure is why the claim of a host's offer has to wait because hosts are missing: were
// they in flight, a budget would have no room. It is nil when there is room in any case,
// and takes no more of Missing than it needs to know.
func (r Restored) unsure(s *State, h *Host) *gate.Block {
	uses := s.beside(h)
	if len(uses) == 0 || gate.CheckBudgets(uses) != nil { // Claim itself refuses what is full
		return nil
	}
	for name := range r.Missing {
		o := s.Hosts[name]
		if o == nil || o == h || o.inFlight && !(h.Machine.Staged() && o.idle) {
			continue // counted
		}
		for _, id := range o.budgets {
			i := slices.Index(h.budgets, id)
			if i < 0 {
				continue
			}
			if uses[i].InFlight++; uses[i].InFlight >= uses[i].Max {
				return gate.CheckRollCall(gate.CheckBudgets(uses), r.Until)
			}
		}
	}
	return nil
}

// offered reports whether a host has a grant that it has not claimed.
func (h *Host) offered() bool { return h.Grant != nil && !h.Grant.Claimed }

// Restored makes the answers tell what the server itself waits for: a gate before all
// those that the state knows of.
func (q *Reasons) Restored(r Restored) *Reasons {
	q.restored = &r
	return q
}

// server is the gate of the server itself for a host, or nothing when only the state
// is asked.
func (q *Reasons) server(h *Host) []Gate {
	switch {
	case q.restored == nil:
		return nil
	case h.offered():
		return []Gate{{gate.Restore, q.restored.Claim(q.s, h.Name, h.Grant.ID)}}
	default:
		return []Gate{{gate.Restore, q.restored.Behind}}
	}
}

// unclaimed says of an offer that its claim has to wait for the server, if it has to.
func unclaimed(b *gate.Block) string {
	if b == nil {
		return ""
	}
	return "; its claim waits: " + b.Words
}
