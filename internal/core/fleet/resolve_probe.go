package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// probes merges the scopes of one host, widest first: a narrower probe of the
// same name replaces the whole.
func (r *resolver) probes(host string) []Probe {
	h := r.d.Hosts[host]
	merged := ProbeSet{}
	put := func(set ProbeSet) {
		for _, n := range keys(set) {
			merged[n] = set[n]
		}
	}
	put(r.in.BundleProbes[h.Bundle])
	put(r.d.Probes)
	for _, tag := range slices.Sorted(slices.Values(h.Tags)) {
		put(r.d.TagProbes[tag])
	}
	put(r.d.Channels[h.Channel].Probes)
	put(h.Probes)
	var out []Probe
	for _, n := range keys(merged) {
		out = append(out, resolveProbe(n, merged[n]))
	}
	if b := r.in.Bundles[h.Bundle]; b.Containers != nil && len(b.Containers.Workspaces) > 0 && !r.in.NoResources[h.Bundle] {
		out = append(out, Probe{Name: ResourcesName, Mode: Enforce, Interval: DefaultResourcesInterval,
			Timeout: DefaultProbeTimeout, Resources: &ResourcesProbe{}})
	}
	return out
}

func resolveProbe(name string, d ProbeDecl) Probe {
	timeout := DefaultProbeTimeout
	if d.Exec != nil {
		timeout = DefaultExecTimeout
	}
	p := Probe{
		Name: name, Mode: cmp.Or(d.Mode, Enforce),
		Interval: d.Interval.Or(DefaultProbeInterval),
	}
	p.Timeout = d.Timeout.Or(min(timeout, p.Interval))
	if d.HTTP != nil {
		p.HTTP = &HTTPProbe{URL: d.HTTP.URL, ExpectStatus: cmp.Or(d.HTTP.ExpectStatus, DefaultExpectStatus), BodyContains: d.HTTP.BodyContains}
	}
	if d.TCP != nil {
		p.TCP = &TCPProbe{Address: d.TCP.Address}
	}
	if e := d.Evidence; e != nil {
		p.Evidence = &EvidenceProbe{Path: e.Path, Framework: e.Framework, MaxAge: e.MaxAge.Or(DefaultEvidenceMaxAge)}
	}
	if d.Exec != nil {
		p.Exec = &ExecProbe{Command: slices.Clone(d.Exec.Command), ExpectExitCode: d.Exec.ExpectExitCode}
	}
	return p
}

// indexProbes lists each distinct probe once in the header, by name and then by
// content, and returns each host's indexes, ascending.
func indexProbes(m *Manifest, hosts []string, probes map[string][]Probe) map[string][]int {
	byKey := map[string]Probe{}
	for _, h := range hosts {
		for _, p := range probes[h] {
			byKey[probeKey(p)] = p
		}
	}
	all := keys(byKey)
	for _, k := range all {
		m.Probes = append(m.Probes, byKey[k])
	}
	index := map[string][]int{}
	for _, h := range hosts {
		for _, p := range probes[h] {
			i, _ := slices.BinarySearch(all, probeKey(p))
			index[h] = append(index[h], i)
		}
		slices.Sort(index[h])
	}
	return index
}

// probeKey orders probes by name, then by everything else.
func probeKey(p Probe) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic("fleet: a probe did not encode: " + err.Error())
	}
	return strings.Join([]string{p.Name, string(b)}, "\x00")
}
