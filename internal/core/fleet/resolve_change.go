package fleet

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// massPercent is the largest share that a release may remove without consent.
const massPercent = 20

// massChange refuses a release that removes more than a fifth of the hosts, or
// of the resources of one bundle, unless allowMassChange is set. A host that
// keeps its name and loses its bundle counts as removed.
func (r *resolver) massChange(p *Plan) {
	prev := r.in.Previous
	if prev == nil || r.d.AllowMassChange {
		return
	}
	empty := r.in.Digests[""]
	before, gone, renamed := 0, 0, r.d.formerly()
	for _, h := range keys(prev.Roster.Hosts) {
		old := prev.Roster.Hosts[h]
		now, ok := p.Roster[h]
		if old.Removed != "" && (!ok || now.Removed == old.Removed) {
			continue // it was counted when it left
		}
		if !ok && !renamed[h] || ok && (now.Bundle == empty && old.Bundle != empty || now.Removed != "") {
			gone++
		}
		before++
	}
	if gone*100 > before*massPercent {
		r.c.errorf(at("hosts"), "%d of %d hosts of version %d are removed or lose their bundle: expected at most %d %% at once, or allowMassChange: true", gone, before, prev.Version, massPercent)
	}
	for _, d := range slices.Sorted(maps.Keys(prev.Bundles)) {
		old := prev.Bundles[d]
		now, ok := r.in.Bundles[old.Name]
		if !ok || old.Name == EmptyBundle {
			continue
		}
		total, lost := lostResources(old, now)
		if lost*100 > total*massPercent {
			r.c.errorf(at("bundles", old.Name), "%d of %d resources of bundle %q of version %d are removed: expected at most %d %% at once, or allowMassChange: true", lost, total, old.Name, prev.Version, massPercent)
		}
	}
}

func lostResources(old, now Bundle) (total, lost int) {
	have := map[spec.ID]bool{}
	for _, r := range now.Resources() {
		have[r] = true
	}
	for _, r := range old.Resources() {
		total++
		if !have[r] {
			lost++
		}
	}
	return total, lost
}

// lateBundles warns about a bundle that no wave before the last one tries.
func (r *resolver) lateBundles(p *Plan) {
	if r.in.Previous == nil {
		return
	}
	for _, cp := range p.Channels {
		last := len(cp.Header.Waves) - 1
		for last > 0 && cp.Header.Waves[last].Hosts == 0 {
			last--
		}
		if last <= 0 {
			continue
		}
		first := map[string]int{} // bundle name to the first wave where it changes
		for _, l := range cp.Leaves {
			old, ok := r.in.Previous.Roster.Hosts[l.Host]
			if !ok || old.Bundle == l.Target {
				continue
			}
			name := r.d.Hosts[l.Host].Bundle
			if l.Removed != "" {
				continue
			}
			if w, ok := first[name]; !ok || l.Wave < w {
				first[name] = l.Wave
			}
		}
		for _, name := range keys(first) {
			if first[name] == last && name != "" {
				r.c.warnf(at("bundles", name), "bundle %q changes first in the last wave %q of channel %q: expected an earlier wave to try it", name, cp.Header.Waves[last].Name, cp.Name)
			}
		}
	}
}
