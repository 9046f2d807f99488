package fleet

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
