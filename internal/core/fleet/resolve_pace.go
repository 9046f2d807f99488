package fleet

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Times are where a bundle's files declare how long a service may take, as FILE:LINE:COLUMN.
type Times struct{ Stop, Start string }

// pace gives the hosts of a channel as long for an activation as their bundles declare for themselves, and warns where
// the policy gives less: what is as slow as declared does not fail.
func (r *resolver) pace(cp *ChannelPlan, policy string) {
	var need clock.Duration
	why := ""
	seen := map[[2]digest.Digest]bool{}
	for _, l := range cp.Leaves {
		old := digest.Digest("")
		if r.in.Previous != nil {
			old = r.in.Previous.Roster.Hosts[l.Host].Bundle
		}
		pair := [2]digest.Digest{old, l.Target}
		if l.Removed != "" || seen[pair] {
			continue
		}
		seen[pair] = true
		name := r.d.Hosts[l.Host].Bundle
		p := r.in.Bundles[name].Containers.Pace()
		if r.in.Previous != nil { // what is replaced has its own time to stop
			if before := r.in.Previous.Bundles[old].Containers.Pace(); before.Stop > p.Stop {
				p.Stop, p.Stops = before.Stop, before.Stops
			}
		}
		if p.Stop+p.Start > need {
			need, why = p.Stop+p.Start, r.slow(name, p)
		}
	}
	declared := r.d.RolloutPolicies[policy].ActivationDeadline
	if declared.Set && declared.Duration < need {
		r.c.warnf(at("rolloutPolicies", policy, "activationDeadline"), "activationDeadline is %s, and %s: the hosts of channel %q are given %s; expected at least that, or shorter times of the services",
			declared.Duration, why, cp.Name, need)
	}
	cp.Header.Policy.ActivationDeadline = max(cp.Header.Policy.ActivationDeadline, need)
}

// slow words why a bundle may take its time.
func (r *resolver) slow(bundle string, p spec.Pace) string {
	out := fmt.Sprintf("bundle %q", bundle)
	place := func(text string) string {
		if text == "" {
			return ""
		}
		return " (" + text + ")"
	}
	times := r.in.Times[bundle]
	if p.Stop > 0 {
		out += fmt.Sprintf(" gives service %q %s to stop%s", p.Stops, p.Stop, place(times[p.Stops].Stop))
	}
	if p.Stop > 0 && p.Start > 0 {
		out += " and"
	}
	if p.Start > 0 {
		out += fmt.Sprintf(" gives service %q %s to be healthy%s", p.Starts, p.Start, place(times[p.Starts].Start))
	}
	return out
}
