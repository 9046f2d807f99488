package plan_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestPresencesAreWrittenDown holds the table of docs/states.md equal to the code.
func TestPresencesAreWrittenDown(t *testing.T) {
	page := testkit.Value(os.ReadFile("../../../docs/states.md"))(t)
	var want []string
	for _, row := range plan.Presences {
		want = append(want, fmt.Sprintf("| **%s** | %s | %s |", row.Presence, row.Means, row.Waves))
	}
	if !strings.Contains(string(page), strings.Join(want, "\n")+"\n") {
		t.Errorf("docs/states.md has another table than plan.Presences:\n%s", strings.Join(want, "\n"))
	}
}

// TestEveryHostHasOnePresence draws hosts: each has a presence of the table, silent ones
// act, and the gate of presence lets exactly those pass that are online or that the gate
// of identity holds.
func TestEveryHostHasOnePresence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &plan.Host{Name: "h", Incarnation: rapid.Uint64Range(0, 1).Draw(t, "incarnation"), Online: rapid.Bool().Draw(t, "online"),
			Overdue: rapid.Bool().Draw(t, "overdue"), SilentFailure: rapid.Bool().Draw(t, "silent"), Forked: rapid.Bool().Draw(t, "forked")}
		h.Machine.Phase = rapid.SampledFrom(host.Phases).Draw(t, "phase")
		if rapid.Bool().Draw(t, "ended") {
			h.Ended = &plan.Ended{Status: rapid.SampledFrom([]string{gate.Revoked, gate.Decommissioned}).Draw(t, "standing")}
		}
		declared := rapid.Bool().Draw(t, "declared")
		p, known := h.Presence(declared), false
		for _, row := range plan.Presences {
			known = known || row.Presence == p
		}
		identity := h.IdentityStatus() != "" && h.Incarnation != 0
		switch {
		case !known:
			t.Fatalf("%q is in no table", p)
		case (p == gate.Silent) && (h.Online || !h.Acting()), p == gate.Online && (!h.Online || h.Overdue), (p == gate.NeverEnrolled) != (h.Incarnation == 0):
			t.Fatalf("%+v is %s", h, p)
		case p != gate.Removed && (gate.CheckPresence("h", gate.Absence{Presence: p}, 1) == nil) != (p == gate.Online || identity):
			t.Fatalf("the gate lets %s pass, or holds it", p)
		}
	})
}
