package trust

import (
	"encoding/hex"
	"slices"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// The checks below run on payloads whose signature holds: they keep a mistaken
// release from crashing whoever reads it, and name what is wrong with it.

func checkResolved(r *fleet.Resolved) error {
	for name, c := range r.Channels {
		if err := fleet.CheckName(name); err != nil {
			return refuse(Malformed, "channel %v", err)
		}
		if c.FreshnessWindow <= 0 {
			return refuse(Malformed, "channel %s has no freshness window", name)
		}
		for _, m := range c.Manifests {
			if m.Digest == "" || m.Version == 0 {
				return refuse(Malformed, "channel %s lists a manifest without digest or version", name)
			}
		}
	}
	return nil
}

func checkRoster(r *fleet.Roster) error {
	for name, h := range r.Hosts {
		if err := fleet.CheckName(name); err != nil {
			return refuse(Malformed, "roster: host %v", err)
		}
		if err := fleet.CheckName(h.Channel); err != nil {
			return refuse(Malformed, "roster: host %s: channel %v", name, err)
		}
	}
	return nil
}

func checkManifest(m *fleet.Manifest) error {
	if err := fleet.CheckName(m.Channel); err != nil {
		return refuse(Malformed, "manifest: channel %v", err)
	}
	if m.Ref == "" || len(m.Ref) > 256 {
		return refuse(Malformed, "manifest of channel %s: the ref has %d bytes, expected 1 to 256", m.Channel, len(m.Ref))
	}
	name := m.Rollout()
	root, err := hex.DecodeString(m.LeavesRoot)
	if err != nil || len(root) != 32 || hex.EncodeToString(root) != m.LeavesRoot {
		return refuse(Malformed, "manifest %s: leavesRoot is not 64 lower-case hexadecimal digits", name)
	}
	p := m.Policy
	if p.OnHealthFailure != fleet.RollbackAndHalt && p.OnHealthFailure != fleet.Halt {
		return refuse(Malformed, "manifest %s: unknown onHealthFailure %q", name, p.OnHealthFailure)
	}
	if p.MaxFailures < 0 || p.ConfirmWindow < 0 || p.ActivationDeadline < 0 || p.SustainedFailure < 0 || p.GrantExpiry < 0 {
		return refuse(Malformed, "manifest %s: a number of the policy is negative", name)
	}
	hosts := 0
	for _, w := range m.Waves {
		if w.Soak < 0 || w.MinSoaked < 0 || w.MinSoakedPct < 0 || w.MinSoakedPct > 100 || w.Hosts < 0 {
			return refuse(Malformed, "manifest %s: a number of wave %q is negative", name, w.Name)
		}
		hosts += w.Hosts
	}
	if m.LeafCount < 0 || hosts != m.LeafCount {
		return refuse(Malformed, "manifest %s: %d leaves, and its waves have %d hosts", name, m.LeafCount, hosts)
	}
	for _, b := range m.Budgets {
		if b.Max < 1 || b.Members == "" {
			return refuse(Malformed, "manifest %s: budget %q needs a max of at least 1 and members", name, b.Selector)
		}
	}
	for i := range m.Windows {
		if err := m.Windows[i].Check(); err != nil {
			return refuse(Malformed, "manifest %s: %v", name, err)
		}
	}
	if m.Controls != "" && !slices.Contains(m.Critical, fleet.CriticalControls) {
		return refuse(Malformed, "manifest %s has controls and does not name them critical", name)
	}
	if len(m.Windows) > 0 && !slices.Contains(m.Critical, fleet.CriticalWindows) {
		return refuse(Malformed, "manifest %s has maintenance windows and does not name them critical", name)
	}
	if err := m.CheckCanary(); err != nil {
		return refuse(Malformed, "manifest %s: %v", name, err)
	}
	return checkProbes(m)
}

func checkProbes(m *fleet.Manifest) error {
	for _, p := range m.Probes {
		switch kinds := p.Kinds(); {
		case len(kinds) != 1:
			return refuse(Malformed, "manifest %s: probe %q checks %v and needs exactly one of http, tcp, exec, evidence and resources", m.Rollout(), p.Name, kinds)
		case (p.Resources != nil) != (p.Name == fleet.ResourcesName):
			return refuse(Malformed, "manifest %s: probe %q: the name %s and the check of resources belong together", m.Rollout(), p.Name, fleet.ResourcesName)
		case p.Mode != fleet.Enforce && p.Mode != fleet.Observe && p.Mode != fleet.Disabled:
			return refuse(Malformed, "manifest %s: probe %q has unknown mode %q", m.Rollout(), p.Name, p.Mode)
		case p.Interval <= 0 || p.Timeout <= 0:
			return refuse(Malformed, "manifest %s: probe %q needs an interval and a timeout", m.Rollout(), p.Name)
		case p.Exec != nil && len(p.Exec.Command) == 0:
			return refuse(Malformed, "manifest %s: probe %q has no command", m.Rollout(), p.Name)
		case p.Evidence != nil && (p.Evidence.Path == "" || p.Evidence.MaxAge < 0):
			return refuse(Malformed, "manifest %s: probe %q needs the path of its evidence", m.Rollout(), p.Name)
		}
	}
	return nil
}

func checkLeaf(m *fleet.Manifest, l *fleet.Leaf) error {
	if err := fleet.CheckName(l.Host); err != nil {
		return refuse(Malformed, "leaf: host %v", err)
	}
	if l.Wave < 0 || l.Wave >= len(m.Waves) {
		return refuse(Malformed, "leaf of %s: wave %d, and the manifest has %d", l.Host, l.Wave, len(m.Waves))
	}
	if l.Target == "" {
		return refuse(Malformed, "leaf of %s names no bundle", l.Host)
	}
	if !ascending(l.Probes, len(m.Probes)) || !ascending(l.Budgets, len(m.Budgets)) {
		return refuse(Malformed, "leaf of %s: probes and budgets must be ascending indexes into the manifest's lists", l.Host)
	}
	if !ascending(l.Windows, len(m.Windows)) {
		return refuse(Malformed, "leaf of %s: windows must be ascending indexes into the manifest's list", l.Host)
	}
	if !l.Removed.Known() {
		return refuse(Malformed, "leaf of %s: removed is %q, expected stop or wipe", l.Host, l.Removed)
	}
	for _, h := range l.After {
		if err := fleet.CheckName(h); err != nil {
			return refuse(Malformed, "leaf of %s: after %v", l.Host, err)
		}
	}
	return nil
}

func ascending(index []int, size int) bool {
	for i, n := range index {
		if n < 0 || n >= size || (i > 0 && index[i-1] >= n) {
			return false
		}
	}
	return true
}

func sortedNames(what string, names []string) error {
	for _, n := range names {
		if err := fleet.CheckName(n); err != nil {
			return refuse(Malformed, "%s %v", what, err)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		return refuse(Malformed, "the list of every %s is not sorted without duplicates", what)
	}
	return nil
}
