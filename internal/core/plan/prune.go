package plan

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Retention says how long ended rollouts are kept whole. A rollout goes when it is
// older than Age and not among the last Keep of its channel, and at any age when it is not
// among the last Most, unless that is zero.
type Retention struct {
	Age        clock.Duration
	Keep, Most int
}

// DefaultRetention is what a server keeps unless it is told otherwise.
var DefaultRetention = Retention{Age: 90 * clock.Day, Keep: 10, Most: 50}

// PrunedRollout is what stays of a rollout: the log has the rest.
type PrunedRollout struct {
	Name     string        `json:"name"`
	Channel  string        `json:"channel"`
	Manifest digest.Digest `json:"manifest"`
	// Phase is where it ended.
	Phase    rollout.Phase `json:"phase"`
	OpenedAt clock.Instant `json:"openedAt"`
	EndedAt  clock.Instant `json:"endedAt"`
}

// Prune ends the retention of rollouts, oldest first. Never one that may still
// give out grants or that a host stands on: what is older and newer than it is
// still asked.
func Prune(s *State, keep Retention, now clock.Instant) ([]event.Entry, error) {
	d := &decider{s: s, now: now}
	var stood map[digest.Digest]bool
	for _, r := range s.expired(keep, now) {
		if stood == nil {
			stood = s.stoodOn()
		}
		if stood[r.Manifest] {
			continue
		}
		last := keep.Keep
		if !r.EndedAt.Add(keep.Age).Reached(now) {
			last = keep.Most
		}
		d.add("", event.RolloutPruned{Rollout: r.Name, Channel: r.Channel, Manifest: r.Manifest, Phase: string(r.Phase),
			Reason: fmt.Sprintf("it ended %s ago, and the last %d rollouts of channel %s are kept", now.Sub(r.EndedAt), last, r.Channel)})
	}
	return d.entries, d.err
}

// expired lists the rollouts whose retention is over, oldest first.
func (s *State) expired(keep Retention, now clock.Instant) []*rollout.Rollout {
	var out []*rollout.Rollout
	newer, seen := map[string]int{}, map[digest.Digest]bool{}
	for _, m := range slices.Backward(s.Order) {
		r := s.Rollouts[m]
		if r == nil || seen[m] {
			continue
		}
		seen[m] = true
		newer[r.Channel]++
		c := s.Channels[r.Channel]
		if c != nil && (m == c.Active || m == c.Latest || m == c.Converged) || newer[r.Channel] <= keep.Keep {
			continue
		}
		many := keep.Most > 0 && newer[r.Channel] > keep.Most
		if rollout.Legal(r.Phase, rollout.Pruned) && (many || r.EndedAt.Add(keep.Age).Reached(now)) {
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out
}

// Followed reports whether a newer rollout of the channel took the place of one: where its hosts
// stand now is no part of it any more.
func (s *State) Followed(r *rollout.Rollout) bool {
	return r.Plan == nil || s.Channels[r.Channel].Latest != r.Manifest
}

// stoodOn is the set of manifests that some host stands on.
func (s *State) stoodOn() map[digest.Digest]bool {
	stood := map[digest.Digest]bool{}
	for _, h := range s.Hosts { // order-free: it only fills a set
		stood[h.Machine.Manifest] = true
		if h.Grant != nil {
			stood[h.Grant.Manifest] = true
		}
		if h.Repair != nil {
			stood[h.Repair.Manifest] = true
		}
	}
	return stood
}

func (s *State) foldPruned(ev event.RolloutPruned) error {
	r := s.Rollouts[ev.Manifest]
	if r == nil || !rollout.Legal(r.Phase, rollout.Pruned) {
		return fmt.Errorf("rollout %s is pruned and is not over", ev.Rollout)
	}
	s.Pruned = append(s.Pruned, PrunedRollout{Name: r.Name, Channel: r.Channel, Manifest: r.Manifest, Phase: r.Phase, OpenedAt: r.OpenedAt, EndedAt: r.EndedAt})
	delete(s.Rollouts, ev.Manifest)
	s.Order = slices.DeleteFunc(s.Order, func(d digest.Digest) bool { return d == ev.Manifest })
	s.index()
	s.refreshOn(ev.Manifest)
	return nil
}

// index gives every rollout its place in the order of opening, and every name its
// newest rollout.
func (s *State) index() {
	s.names = make(map[string]digest.Digest, len(s.Order))
	for i, d := range s.Order {
		if r := s.Rollouts[d]; r != nil {
			r.Place, s.names[r.Name] = i, d
		}
	}
}

// FindPruned returns what is kept of a pruned rollout by name or by manifest
// digest, the latest of a name.
func (s *State) FindPruned(id string) (PrunedRollout, bool) {
	for _, r := range slices.Backward(s.Pruned) {
		if r.Name == id || string(r.Manifest) == id {
			return r, true
		}
	}
	return PrunedRollout{}, false
}
