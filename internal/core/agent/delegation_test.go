package agent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// TestP1DelegationIsNeverWiderThanDeclared: what is withdrawn ends at once, what
// is added waits for the host to run what it comes with.
func TestP1DelegationIsNeverWiderThanDeclared(t *testing.T) {
	d := func(kinds, allow []string, most int) *fleet.Delegation {
		return &fleet.Delegation{Kinds: kinds, Allow: allow, Bounds: spec.Bounds{MaxWorkspaces: most}}
	}
	owners := func(list ...string) *fleet.Delegation {
		return &fleet.Delegation{Kinds: []string{"volume"}, Allow: []string{}, Bounds: spec.Bounds{Owners: list}}
	}
	have := d([]string{"image", "workspace"}, []string{"exec", "logs"}, 3)
	for name, c := range map[string]struct {
		plan   *fleet.Delegation
		newest *agent.NewestPlan
		want   *fleet.Delegation
	}{
		"nothing newer":              {have, nil, have},
		"of another channel":         {have, &agent.NewestPlan{Channel: "lab", Target: "new"}, have},
		"withdrawn, not yet there":   {have, &agent.NewestPlan{Channel: "stable", Target: "new"}, nil},
		"withdrawn at the target":    {have, &agent.NewestPlan{Channel: "stable", Target: "old"}, nil},
		"added, not yet there":       {nil, &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: have}, nil},
		"added at the target":        {nil, &agent.NewestPlan{Channel: "stable", Target: "old", Delegation: have}, have},
		"changed, not yet there":     {have, &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: d([]string{"volume", "workspace"}, []string{"logs"}, 9)}, d([]string{"workspace"}, []string{"logs"}, 3)},
		"changed at the target":      {have, &agent.NewestPlan{Channel: "stable", Target: "old", Delegation: d([]string{"volume"}, nil, 9)}, d([]string{"volume"}, nil, 9)},
		"owners withdrawn":           {owners("session"), &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: owners()}, owners([]string{}...)},
		"owners added":               {owners(), &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: owners("session")}, owners()},
		"owners as before":           {owners("session"), &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: owners("session")}, owners("session")},
		"the same at another bundle": {have, &agent.NewestPlan{Channel: "stable", Target: "new", Delegation: have}, have},
	} {
		state := agent.State{Plan: fleet.HostPlan{Channel: "stable", Delegation: c.plan}, Machine: host.State{Current: "old"}}
		got := state.Delegation(c.newest)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
