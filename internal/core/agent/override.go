package agent

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// OverridesReceived are verified overrides, of a key epoch that ends earlier ones.
// Those that name another host than Host are not taken. An offer that they forbid
// is dropped unless it was claimed: of one that was, only the server knows whether
// the claim came first.
type OverridesReceived struct {
	Host      string
	Epoch     uint64
	Overrides []gate.AcceptedOverride
}

func (in OverridesReceived) apply(t *turn) error {
	s := t.s
	next := s.Overrides.Clone() // what others read of the old one does not change
	news := next.End(in.Epoch)
	for _, o := range in.Overrides {
		if o.Host != "" && o.Host != in.Host || next.Accept(o) != gate.OverrideNew {
			continue
		}
		news = true
		if o.Action == fleet.OverrideUnquarantine && o.Channel == s.Plan.Channel {
			s.Quarantine = slices.DeleteFunc(slices.Clone(s.Quarantine), func(q QuarantineEntry) bool { return q.Digest == o.Bundle })
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
