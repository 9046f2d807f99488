package workspace_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/workspace"
)

// TestWhatIsReplacedNextIsNotAdjusted: a good container with the one before still
// there, which is to be replaced once more, is not changed in place first: the
// engine may refuse just that, such as CPUs where there is a quota.
func TestWhatIsReplacedNextIsNotAdjusted(t *testing.T) {
	main := workspace.Container{ID: "b", Name: "web", Role: workspace.Main, Replica: 2, State: workspace.Running, Begun: true, Ran: clock.Minute,
		Differences: []diff.Difference{
			{Field: "limit/cpu-quota", Class: diff.Replace, Cause: diff.Declared, Observed: "50000"},
			{Field: "limit/cpus", Class: diff.InPlace, Cause: diff.Declared, Desired: "250000000"},
		}}
	old := workspace.Container{ID: "a", Name: "web.1.old", Role: workspace.Old, Replica: 1, State: workspace.Exited, Begun: true}
	d := workspace.Decide(workspace.Want{Title: "web"}, workspace.Seen{Containers: []workspace.Container{main, old}}, 1)
	if _, ok := d.Action().(workspace.RemoveOld); !ok {
		t.Errorf("%s %v (%s)", d.Name(), d.Action(), d.Reason())
	}
}
