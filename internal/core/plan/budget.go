package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Budget is an active budget: of a manifest whose rollout is not over.
type Budget struct {
	gate.Use
	Members  []string
	Idle     int      // in flight, and waiting for the grant to reboot
	channels []string // that have members of it in a live rollout
}

// rebudget collects the budgets of every rollout whose plan is active and
// regroups the members of the live rollouts by them.
func (s *State) rebudget() {
	s.budgets, s.repairsDirty = s.budgets[:0], true
	for _, h := range s.Hosts { // order-free: it only clears
		h.budgets, h.memberships = h.budgets[:0], h.memberships[:0]
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
			s.addMemberships(r)
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

// addMemberships gives every member's host its place in a live rollout, regroups the
// members by budget, and tells the budgets whom they hold back.
func (s *State) addMemberships(r *rollout.Rollout) {
	r.Classify(func(i int) []int {
		h := s.host(r.Plan.Leaves[i].Host)
		h.memberships = append(h.memberships, membership{r, i})
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
	budget := Budget{Use: gate.Use{Selector: b.Selector, Max: b.Max}, Members: members}
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
	s.repairsDirty = true
	for _, id := range h.budgets {
		for _, name := range s.budgets[id].channels {
			s.dirty[name] = true
		}
	}
}

// Budgets lists how full the budgets are that the subject needs a slot of; none for a
// host that acts in the slot that it has. Others can have taken the slot of an offer
// before it is claimed: under claims that a restored log forgot, or by a budget that
// became smaller.
func (f *facts) Budgets() []gate.Use {
	h := f.h
	if h == nil {
		return f.used(f.class.Budgets, slotsOfNobody)
	}
	m, queued := &h.Machine, f.purpose == gate.ToRepair && !f.claim
	switch {
	case queued:
		return f.used(h.budgets, slotsOfNobody)
	case m.Staged() && (f.claim || h.Grant == nil):
		return f.used(h.budgets, slots{idle: true, own: h.inFlight && !h.idle})
	case m.InFlight() || h.SilentFailure || !f.claim && h.Grant != nil && !h.Grant.yields():
		return nil
	}
	return f.used(h.budgets, slots{own: h.inFlight})
}

// slots says which slots in use do not count against what asks for one: of hosts that
// wait for a reboot and change nothing, and its own.
type slots struct{ idle, own bool }

var slotsOfNobody slots

// used lists how full budgets are but for some slots.
func (f *facts) used(budgets []int, but slots) []gate.Use {
	f.uses = f.uses[:0]
	for _, id := range budgets {
		b := &f.s.budgets[id]
		u := b.Use
		if but.idle {
			u.InFlight -= b.Idle
		}
		if but.own {
			u.InFlight--
		}
		if f.q != nil && u.Full() {
			u.Earliest = f.s.slotFreeAt(b, f.h, f.now)
		}
		f.uses = append(f.uses, u)
	}
	return f.uses
}

// full reports whether one of some budgets has no slot left, as it has for most of the
// hosts that wait for a repair.
func (s *State) full(budgets []int) bool {
	for _, id := range budgets {
		if s.budgets[id].Full() {
			return true
		}
	}
	return false
}

// slotFreeAt is when time can free a slot that another host has in a budget: an offer
// ends, or a soak. Silence frees none.
func (s *State) slotFreeAt(b *Budget, h *Host, now clock.Instant) clock.Instant {
	var at clock.Instant
	for _, name := range b.Members {
		if other := s.Hosts[name]; other != nil && other != h && other.inFlight {
			if other.offered() {
				at = clock.Earliest(at, upcoming(other.Grant.Expires, now))
				continue
			}
			at = clock.Earliest(at, s.soakedAt(other, now))
		}
	}
	return at
}

// Budgets lists the active budgets: those of every plan that hosts may still be
// granted. The members are shared and must not be changed.
func (s *State) Budgets() []Budget { return slices.Clone(s.budgets) }

// BudgetsOf lists the active budgets that hosts of a channel's live rollouts are members of.
func (s *State) BudgetsOf(channel string) (list []Budget) {
	for i := range s.budgets {
		if slices.Contains(s.budgets[i].channels, channel) {
			list = append(list, s.budgets[i])
		}
	}
	return list
}
