package oracle

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// override reads what operators signed.
func (f *Facts) override(ev event.OverrideAccepted) {
	f.Overrides = append(f.Overrides, ev)
	if h := f.hosts[ev.Host]; ev.Action == fleet.OverrideRemove && h != nil && h.Incarnation == ev.Incarnation {
		h.Identity, h.Leaves = max(h.Identity, Leaving), ev.Epoch
	}
	if r := f.Find(ev.Manifest); r != nil {
		r.Paused = r.Paused || ev.Action == fleet.OverridePause
		r.Ordered = r.Ordered || ev.Action == fleet.OverrideRollback && r.Reverting
	}
}

// endOverrides ends those of earlier key epochs. What they quarantined stays.
func (f *Facts) endOverrides() {
	var kept []event.OverrideAccepted
	for _, o := range f.Overrides {
		if o.Epoch < f.Epoch && o.Host == "" && o.Bundle != "" && f.InForce(fleet.OverrideQuarantine, o.Channel, "", o.Bundle, "") {
			f.Channel(o.Channel).Quarantined[o.Bundle] = true
		}
		if o.Epoch >= f.Epoch {
			kept = append(kept, o)
		}
	}
	f.Overrides = kept
	for _, h := range f.hosts { // order-free: each by itself
		if h.Identity == Leaving && !h.Left && h.Leaves < f.Epoch {
			h.Identity = Valid
		}
	}
}

// topic is what an action decides: an action that ends another has its topic.
func topic(a fleet.OverrideAction) fleet.OverrideAction {
	switch a {
	case fleet.OverrideResume:
		return fleet.OverridePause
	case fleet.OverrideUnquarantine:
		return fleet.OverrideQuarantine
	case fleet.OverrideUnfreeze:
		return fleet.OverrideFreeze
	}
	return a
}

// SameTopic reports whether of two overrides only the later one is in force.
func SameTopic(a, b *fleet.Override) bool {
	return topic(a.Action) == topic(b.Action) && a.Manifest == b.Manifest && a.Bundle == b.Bundle && a.Host == b.Host && a.Channel == b.Channel && a.Wave == b.Wave
}

// last returns the last signed override of a topic, or nil.
func (f *Facts) last(a fleet.OverrideAction, channel string, manifest, bundle digest.Digest, host, wave string) *event.OverrideAccepted {
	var last *event.OverrideAccepted
	for i := range f.Overrides {
		o := &f.Overrides[i]
		if topic(o.Action) != topic(a) || o.Manifest != manifest || o.Bundle != bundle || o.Host != host || o.Wave != wave || manifest == "" && o.Channel != channel {
			continue
		}
		if last == nil || o.Version > last.Version || o.Version == last.Version && o.Action.Restricts() {
			last = o
		}
	}
	return last
}

// InForce reports whether the last signed override of a topic is this action. What stops
// a manifest is so until a retry of it is signed later.
func (f *Facts) InForce(a fleet.OverrideAction, channel string, manifest, bundle digest.Digest, host string) bool {
	last := f.last(a, channel, manifest, bundle, host, "")
	return last != nil && last.Action == a && !(manifest != "" && a.Restricts() && f.retriedAfter(last))
}

func (f *Facts) retriedAfter(o *event.OverrideAccepted) bool {
	again := f.last(fleet.OverrideRetry, "", o.Manifest, "", "", "")
	return again != nil && again.Version > o.Version
}

// Signed returns the override in force with a digest if it does this to a manifest.
func (f *Facts) Signed(override digest.Digest, a fleet.OverrideAction, manifest digest.Digest) *event.OverrideAccepted {
	for i := range f.Overrides {
		if o := &f.Overrides[i]; o.Digest == override && o.Action == a && o.Manifest == manifest {
			return o
		}
	}
	return nil
}

// blocked reports whether an override keeps a rollout from giving anything.
func (f *Facts) blocked(r *Rollout) bool {
	d := r.Manifest.Digest
	return f.InForce(fleet.OverridePause, "", d, "", "") || f.InForce(fleet.OverrideCancel, "", d, "", "") ||
		f.InForce(fleet.OverrideRollback, "", d, "", "") || f.InForce(fleet.OverrideFreeze, r.Channel, "", "", "")
}

// quarantined reports whether a bundle is refused to a host on a channel.
func (f *Facts) quarantined(channel string, bundle digest.Digest, host string) bool {
	return f.Channel(channel).Quarantined[bundle] || f.InForce(fleet.OverrideQuarantine, channel, "", bundle, "") ||
		f.InForce(fleet.OverrideQuarantine, channel, "", bundle, host)
}
