package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Budget is an active budget: of a manifest whose rollout is not over.
type Budget struct {
	Selector string
	Max      int
	Members  []string
	InFlight int
	Idle     int      // in flight, and waiting for the grant to reboot
	channels []string // that have members of it in a live rollout
}

// rebudget collects the budgets of every rollout whose plan is active and
// regroups the members of the live rollouts by them.
func (s *State) rebudget() {
	s.budgets, s.repairs = s.budgets[:0], true
	for _, h := range s.Hosts { // order-free: it only clears
		h.budgets, h.seats = h.budgets[:0], h.seats[:0]
	}
	type key struct {
		members digest.Digest
		max     int
	}
	seen := map[key]bool{}
	for _, name := range s.ChannelNames() {
		for _, r := range s.live(s.Channels[name]) {
			for i, b := range r.Plan.Header.Budgets {
				if k := (key{b.Members, b.Max}); !seen[k] {
					seen[k] = true
					s.addBudget(b, r.Plan.Members[i])
				}
			}
		}
	}
	live := map[digest.Digest]bool{}
	for _, name := range s.ChannelNames() {
		for _, r := range s.live(s.Channels[name]) {
			s.seat(r)
			live[r.Manifest] = true
		}
		s.dirty[name] = true
	}
	for d, r := range s.Rollouts { // order-free: each is unbound by itself
		if !live[d] {
			r.Unbind()
		}
	}
}

// seat gives every member's host its place in a live rollout, regroups the
// members by budget, and tells the budgets whom they hold back.
func (s *State) seat(r *rollout.Rollout) {
	r.Classify(func(i int) []int {
		h := s.host(r.Plan.Leaves[i].Host)
		h.seats = append(h.seats, seat{r, i})
		return h.budgets
	})
	for k := range r.Classes {
		for _, id := range r.Classes[k].Budgets {
			if b := &s.budgets[id]; !slices.Contains(b.channels, r.Channel) {
				b.channels = append(b.channels, r.Channel)
			}
		}
	}
}

func (s *State) addBudget(b fleet.Budget, members []string) {
	id := len(s.budgets)
	budget := Budget{Selector: b.Selector, Max: b.Max, Members: members}
	for _, name := range members {
		h := s.host(name)
		h.budgets = append(h.budgets, id)
		if h.inFlight {
			budget.InFlight++
		}
		if h.idle {
			budget.Idle++
		}
	}
	s.budgets = append(s.budgets, budget)
}

// freed marks the channels that may move because a slot came free. Budgets span
// channels.
func (s *State) freed(h *Host) {
	s.repairs = true
	for _, id := range h.budgets {
		for _, name := range s.budgets[id].channels {
			s.dirty[name] = true
		}
	}
}

// full reports whether any of the budgets has no slot left.
func (s *State) full(budgets []int) bool {
	for _, id := range budgets {
		if s.budgets[id].InFlight >= s.budgets[id].Max {
			return true
		}
	}
	return false
}

// crowded refuses a claim of an offer when the budgets of the host have no room for
// it, or is nil. The slot was counted when it was offered, so others can only have
// taken it without the server's leave: under claims that a restored log forgot, or
// a budget that became smaller since. A host in flight acts in the slot that it has.
func (s *State) crowded(h *Host) *gate.Block { return gate.CheckBudgets(s.beside(h)) }

// beside lists how full the budgets of a host are without the slot of the offer that
// it is about to claim; nothing when it acts in a slot that it has.
func (s *State) beside(h *Host) []gate.Use {
	var uses []gate.Use
	switch m := &h.Machine; {
	case m.Staged():
		uses = s.active(h.budgets)
	case m.InFlight() || h.SilentFailure:
		return nil
	default:
		uses = s.uses(h)
	}
	for i := range uses {
		uses[i].InFlight-- // its own
	}
	return uses
}

// uses lists how full each budget of a host is.
func (s *State) uses(h *Host) []gate.Use {
	uses := make([]gate.Use, 0, len(h.budgets))
	for _, id := range h.budgets {
		b := &s.budgets[id]
		uses = append(uses, gate.Use{Selector: b.Selector, Max: b.Max, InFlight: b.InFlight})
	}
	return uses
}

// Budgets lists the active budgets: those of every plan that hosts may still be
// granted. The members are shared and must not be changed.
func (s *State) Budgets() []Budget { return slices.Clone(s.budgets) }
