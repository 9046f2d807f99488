package host

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/override"
)

// forbidden returns the signed word that keeps this host from an offer, or nil.
func (a *Agent) forbidden(o *Offer) *override.Taken {
	return a.Overrides.Forbids(o.Plan.Channel, o.Plan.Manifest, o.Plan.Target, o.Plan.Host)
}

// Ordered takes the verified words of operators, of a key epoch that ends earlier
// ones. It drops an offer that they forbid and that was not claimed yet: of one
// that was, only the server knows whether the claim came first. It reports whether
// any was news.
func (a *Agent) Ordered(host string, epoch uint64, words []override.Taken) (effects []Effect, news bool) {
	next := a.Overrides.Clone() // what others read of the old one does not change
	news = next.End(epoch)
	for _, t := range words {
		if t.Host != "" && t.Host != host || next.Take(t) != override.Fresh {
			continue
		}
		news = true
		if t.Action == fleet.OverrideUnquarantine && t.Channel == a.Plan.Channel {
			a.Quarantine = slices.DeleteFunc(slices.Clone(a.Quarantine), func(q QuarantineEntry) bool { return q.Digest == t.Bundle })
		}
	}
	a.Overrides = next
	if o := a.Offer; o != nil && o.Purpose == Forward && !o.Prepared {
		if t := a.forbidden(o); t != nil {
			effects = a.giveBack(DeclineOverride, t.Words())
		}
	}
	return effects, news
}
