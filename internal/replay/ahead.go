package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// Fresh is a fleet in which every host is there, and waits for a release.
func Fresh(p *release.Plans, now clock.Instant) *forecast.Fleet {
	return &forecast.Fleet{Docs: p, Release: p.Accepted(), Start: now, Hosts: slices.Sorted(maps.Keys(p.Roster.Hosts)), Tags: tagsOf(p.Roster.Hosts)}
}

// Ahead is a fleet that begins where a history ends, with a release that is pushed then, if
// there is one. A channel of which it changes nothing keeps the manifest that the server has.
func Ahead(h *History, p *release.Plans, now clock.Instant) (*forecast.Fleet, error) {
	s, err := Fold(h, h, h.End())
	if err != nil {
		return nil, err
	}
	f := &forecast.Fleet{Docs: h, Start: now, Hosts: s.HostNames()}
	if p != nil {
		f = Fresh(p, now)
		f.Docs = both{p, h}
		err = keepPlans(f, s)
	} else {
		f.Tags, err = declared(h, s)
	}
	if err != nil {
		return nil, err
	}
	f.Start, f.Skew = max(now, s.Release.At), Skew(h)
	f.Snapshot, err = json.Marshal(s)
	return f, err
}

// keepPlans has channels keep the manifest that a state has where the release has the same plan.
func keepPlans(f *forecast.Fleet, s *plan.State) error {
	for i := range f.Release.Channels {
		c := &f.Release.Channels[i]
		old := s.Channels[c.Channel]
		if old == nil || len(old.Manifests) == 0 || len(c.Manifests) == 0 {
			continue
		}
		next, err := f.Docs.Manifest(c.Manifests[0].Digest)
		if err != nil {
			return err
		}
		if last, err := f.Docs.Manifest(old.Manifests[0].Digest); err == nil && release.SamePlan(last.Header, next.Header) {
			c.Manifests = old.Manifests
		}
	}
	return nil
}

// declared are the tags of the hosts of a state, by what proves the log. Where that lacks the
// roster no host has a tag.
func declared(h *History, s *plan.State) (map[string][]string, error) {
	var r fleet.Roster
	if raw := h.Blobs[s.Release.Roster]; raw != nil {
		if err := trust.Decode(raw, trust.MaxList, &r); err != nil {
			return nil, fmt.Errorf("the roster: %w", err)
		}
	}
	tags := tagsOf(r.Hosts)
	for _, name := range s.HostNames() {
		tags[name] = append([]string{}, tags[name]...) // a host that left has none
	}
	return tags, nil
}

func tagsOf(hosts map[string]fleet.RosterHost) map[string][]string {
	tags := make(map[string][]string, len(hosts))
	for name, h := range hosts { // order-free: each by itself
		tags[name] = h.Tags
	}
	return tags
}

// both gives the manifests of a release and those of a log.
type both struct{ first, then plan.Documents }

// Manifest returns a manifest of either.
func (b both) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m, err := b.first.Manifest(d); err == nil {
		return m, nil
	}
	return b.then.Manifest(d)
}
