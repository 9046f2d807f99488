package lint_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// What plays a fleet drives the reducers that ship, and has nothing of the runtime around
// them. The controller of sessions is driven too: it runs in the world's goroutine. The benchmark's server is a
// process of its own.
func TestWorldsDriveTheReducers(t *testing.T) {
	const module = "github.com/steadyfleet/steady/internal/"
	for _, world := range []struct {
		name   string
		drives []string
		no     []string // packages, with /... those below as well
	}{
		{"sim", []string{"core/server", "core/agent", "control/sessions"}, []string{"control/..."}},
		{"driftsim", []string{"core/drift"}, []string{"control/..."}},
		{"forecast", []string{"core/server", "core/agent"}, []string{"control/...", "agent/..."}},
		{"replay", []string{"core/server", "core/agent"}, []string{"control/...", "agent/..."}},
		{"bench", []string{"core/agent"}, []string{"agent/daemon"}},
	} {
		out := testkit.Value(exec.Command("go", "list", "-deps", module+world.name).Output())(t)
		deps := strings.Fields(string(out))
		for _, reducer := range world.drives {
			if !slices.Contains(deps, module+reducer) {
				t.Errorf("internal/%s does not drive internal/%s", world.name, reducer)
			}
		}
		for _, path := range deps {
			for _, part := range world.no {
				below, all := strings.CutSuffix(module+part, "/...")
				if slices.Contains(world.drives, strings.TrimPrefix(path, module)) {
					continue
				}
				if path == below || all && strings.HasPrefix(path, below+"/") {
					t.Errorf("internal/%s has %s, a part of the runtime around a reducer", world.name, path)
				}
			}
		}
	}
}
