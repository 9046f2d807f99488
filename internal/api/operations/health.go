package operations

import (
	"context"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// server says how the process is that answers.
func (h *Handler) server(ctx context.Context, _ *none) (operator.Server, error) {
	at, err := h.c.LastBackup()
	problems := append([]health.ServerProblem{}, h.c.Unready(ctx)...)
	return operator.Server{Version: h.c.Version(), Term: h.c.Head().Term, StartedAt: h.c.Started(), LastBackup: at, Problems: problems}, err
}

// assess says how a host is.
type assess func(host string) health.Assessment

// fleetHealth sums up all hosts.
func fleetHealth(s *plan.State, totals health.Totals) operator.FleetHealth {
	out := operator.FleetHealth{Status: health.Worst(slices.Collect(maps.Keys(totals.Hosts))...), Totals: totals, Degraded: []operator.DegradedHost{}}
	for _, name := range s.HostNames() {
		if d := s.Hosts[name].Degraded; d != nil && len(out.Degraded) < operator.MaxDegradedHosts {
			out.Degraded = append(out.Degraded, operator.DegradedHost{Host: name, Degradation: *d})
		}
	}
	return out
}

// rolloutHealth counts the hosts of a rollout by how they are.
func rolloutHealth(r *rollout.Rollout, of assess) map[health.Status]int {
	if r == nil || r.Plan == nil {
		return nil
	}
	counts := map[health.Status]int{}
	for i := range r.Plan.Leaves {
		counts[of(r.Plan.Leaves[i].Host).Status]++
	}
	return counts
}
