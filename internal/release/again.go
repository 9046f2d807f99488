package release

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Again is a way back that a release takes: it gives hosts a bundle that the release before
// took from them.
type Again struct {
	Channel string `json:"channel"`
	// Rollout had the bundle given out, and Since took it back.
	Rollout string        `json:"rollout"`
	Since   string        `json:"since"`
	Bundle  digest.Digest `json:"bundle"`
	Hosts   []string      `json:"hosts"`
}

// again finds ways back among the plans that the release before lists, newest first.
func again(cp *fleet.ChannelPlan, old []VerifiedManifest) (out []Again) {
	if len(old) < 2 {
		return nil
	}
	targets := make([]map[string]digest.Digest, len(old))
	for i, vm := range old {
		targets[i] = map[string]digest.Digest{}
		for _, l := range vm.Leaves.Value() {
			if l.Removed == "" {
				targets[i][l.Host] = l.Target
			}
		}
	}
	for _, l := range cp.Leaves {
		now, is := targets[0][l.Host]
		if !is || now == l.Target || l.Removed != "" {
			continue
		}
		i := slices.IndexFunc(targets, func(t map[string]digest.Digest) bool { return t[l.Host] == l.Target })
		if i < 0 {
			continue
		}
		had, since := old[i].Header.Value(), old[i-1].Header.Value()
		one := Again{Channel: cp.Name, Rollout: had.Rollout(), Since: since.Rollout(), Bundle: l.Target}
		k := slices.IndexFunc(out, func(a Again) bool { return a.Bundle == one.Bundle && a.Rollout == one.Rollout })
		if k < 0 {
			k, out = len(out), append(out, one)
		}
		out[k].Hosts = append(out[k].Hosts, l.Host)
	}
	return out
}

// Given lists what the changed channels of the release give their hosts, by channel and
// bundle.
func (r *Release) Given() ([]plan.Given, error) {
	plans, err := r.Plans()
	if err != nil {
		return nil, err
	}
	var out []plan.Given
	for _, channel := range r.Changed {
		by := map[digest.Digest][]string{}
		m, err := plans.Manifest(plans.Resolved.Channels[channel].Manifests[0].Digest)
		if err != nil {
			return nil, err
		}
		for _, l := range m.Leaves {
			by[l.Target] = append(by[l.Target], l.Host)
		}
		for _, d := range slices.Sorted(maps.Keys(by)) {
			out = append(out, plan.Given{Channel: channel, Bundle: d, Hosts: by[d]})
		}
	}
	return out, nil
}
