package agent

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// OverridesReceived are verified overrides, of a key epoch that ends earlier ones.
// Those that name another host than Host are not taken; what removes a host removes this
// Incarnation of it alone. An offer that they forbid
// is dropped unless it was claimed: of one that was, only the server knows whether
// the claim came first.
type OverridesReceived struct {
	Host        string
	Incarnation uint64
	Epoch       uint64
	Overrides   []gate.AcceptedOverride
}

func (in OverridesReceived) apply(t *turn) error {
	s := t.s
	next := s.Overrides.Clone() // what others read of the old one does not change
	news := next.End(in.Epoch)
	if s.Removal != nil && !s.Removal.begun() && s.Removal.Epoch < in.Epoch {
		s.Removal, news = nil, true
	}
	for _, o := range in.Overrides {
		if o.Host != "" && o.Host != in.Host || next.Accept(o) != gate.OverrideNew {
			continue
		}
		news = true
		switch {
		case o.Action == fleet.OverrideRemove && o.Host == in.Host && o.Incarnation == in.Incarnation:
			t.remove(&o)
		case o.Action == fleet.OverrideUnquarantine && o.Channel == s.Plan.Channel:
			s.allow(o.Bundle)
		case o.Action == fleet.OverrideRetry && o.Manifest == s.Plan.Manifest:
			s.allow(s.Plan.Target)
		}
	}
	s.Overrides, t.Save = next, t.Save || news
	if o := s.Offer; o != nil && o.Purpose == host.Update && !o.Prepared {
		if f := s.forbidden(o); f != nil {
			t.giveBack(host.DeclineOverride, f.Message())
		}
	}
	return nil
}

// allow ends this host's own quarantine of a bundle.
func (s *State) allow(bundle digest.Digest) {
	s.Quarantine = slices.DeleteFunc(slices.Clone(s.Quarantine), func(q QuarantineEntry) bool { return q.Digest == bundle })
}
