package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/bounds"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// TestP1DelegationIsNeverWiderThanDeclared: what is withdrawn ends at once, what
// is added waits for the host to run what it comes with.
func TestP1DelegationIsNeverWiderThanDeclared(t *testing.T) {
	d := func(kinds, allow []string, most int) *fleet.Delegation {
		return &fleet.Delegation{Kinds: kinds, Allow: allow, Bounds: bounds.Bounds{MaxWorkspaces: most}}
	}
	have := d([]string{"image", "workspace"}, []string{"exec", "logs"}, 3)
	for name, c := range map[string]struct {
		plan   *fleet.Delegation
		newest *delegationDoc
		want   *fleet.Delegation
	}{
		"nothing newer":              {have, nil, have},
		"of another channel":         {have, &delegationDoc{Channel: "lab", Target: "new"}, have},
		"withdrawn, not yet there":   {have, &delegationDoc{Channel: "stable", Target: "new"}, nil},
		"withdrawn at the target":    {have, &delegationDoc{Channel: "stable", Target: "old"}, nil},
		"added, not yet there":       {nil, &delegationDoc{Channel: "stable", Target: "new", Delegation: have}, nil},
		"added at the target":        {nil, &delegationDoc{Channel: "stable", Target: "old", Delegation: have}, have},
		"changed, not yet there":     {have, &delegationDoc{Channel: "stable", Target: "new", Delegation: d([]string{"volume", "workspace"}, []string{"logs"}, 9)}, d([]string{"workspace"}, []string{"logs"}, 3)},
		"changed at the target":      {have, &delegationDoc{Channel: "stable", Target: "old", Delegation: d([]string{"volume"}, nil, 9)}, d([]string{"volume"}, nil, 9)},
		"the same at another bundle": {have, &delegationDoc{Channel: "stable", Target: "new", Delegation: have}, have},
	} {
		plan := fleet.HostPlan{Channel: "stable", Delegation: c.plan}
		got := delegated(&plan, "old", c.newest)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
