package plan

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
)

// NamedByDigest are the kinds of subjects whose name is a digest.
var NamedByDigest = []string{event.KindManifest, event.KindBundle, event.KindOverride}

// FindDigest returns the digests that the state has of one of these kinds and that the
// short form, or the whole of one, names: sorted, none and more than one included.
func (s *State) FindDigest(kind, name string) []digest.Digest {
	found := map[digest.Digest]struct{}{}
	add := func(d digest.Digest) {
		if d != "" && (d.Short() == name || string(d) == name) {
			found[d] = struct{}{}
		}
	}
	switch kind {
	case event.KindManifest:
		s.manifests(add)
	case event.KindBundle:
		s.bundles(add)
	case event.KindOverride:
		for _, t := range s.Overrides.List() {
			add(t.Digest)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// manifests yields those of rollouts that are, were, or wait.
func (s *State) manifests(add func(digest.Digest)) {
	for d := range s.Rollouts { // order-free: a set is made of them
		add(d)
	}
	for i := range s.Pruned {
		add(s.Pruned[i].Manifest)
	}
	for _, c := range s.Channels { // order-free: a set is made of them
		for _, m := range c.Manifests {
			add(m.Digest)
		}
	}
}

// Live lists what hosts may still be given: the manifests of rollouts that are kept or may
// open, and the bundles that hosts run, are to run or may go back to.
func (s *State) Live() (manifests, bundles []digest.Digest) {
	given := map[digest.Digest]bool{"": true}
	add := func(d digest.Digest) {
		if !given[d] {
			given[d] = true
			bundles = append(bundles, d)
		}
	}
	s.given(add)
	for _, t := range s.Overrides.List() {
		add(t.Bundle)
	}
	manifests = slices.AppendSeq(manifests, maps.Keys(s.Rollouts)) // order-free: sorted below
	for _, c := range s.Channels {                                 // order-free: sorted below
		for _, m := range c.Manifests {
			manifests = append(manifests, m.Digest)
		}
	}
	slices.Sort(manifests)
	slices.Sort(bundles)
	return slices.Compact(manifests), bundles
}

// Undecided is when the oldest rollout opened that may still send hosts back for what others
// reported in it, or zero.
func (s *State) Undecided() (at clock.Instant) {
	for _, c := range s.Channels { // order-free: the least counts
		if r := s.Rollouts[c.Active]; r != nil {
			at = clock.Earliest(at, r.OpenedAt)
		}
	}
	return at
}

// given yields the bundles of hosts.
func (s *State) given(add func(digest.Digest)) {
	for _, h := range s.Hosts { // order-free: a set is made of them
		add(h.Machine.Current)
		add(h.Machine.From)
		add(h.Machine.Target)
		if h.Grant != nil {
			add(h.Grant.Target)
		}
	}
}

// bundles yields what hosts run, are to run, or must not.
func (s *State) bundles(add func(digest.Digest)) {
	s.given(add)
	for _, r := range s.Rollouts { // order-free: a set is made of them
		for i := 0; r.Plan != nil && i < len(r.Plan.Leaves); i++ {
			add(r.Plan.Leaves[i].Target)
		}
	}
	for _, c := range s.Channels { // order-free: a set is made of them
		for d := range c.Quarantine { // order-free: as above
			add(d)
		}
		if ref := c.pending(); ref != nil {
			if m, err := s.docs.Manifest(ref.Digest); err == nil { // the planner reports it when it opens the rollout
				for i := range m.Leaves {
					add(m.Leaves[i].Target)
				}
			}
		}
	}
	for _, t := range s.Overrides.List() {
		add(t.Bundle)
	}
}
