package hosting

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/container"
)

// TestDesiredOfEveryKindIsRead: routes and snapshots name a workspace where a
// deployment has one whole.
func TestDesiredOfEveryKindIsRead(t *testing.T) {
	for kind, c := range map[string]struct {
		desired any
		run     container.RunState
	}{
		container.KindWorkspace: {container.Desired[container.Deployment]{Spec: container.Deployment{Workspace: container.Workspace{Name: "job", State: container.Once}}, Parked: true}, container.Once},
		container.KindRoute:     {container.Desired[container.Route]{Spec: container.Route{Name: "web", Workspace: "web"}, Parked: true}, ""},
		container.KindSnapshot:  {container.Desired[container.Snapshot]{Spec: container.Snapshot{Name: "s", Workspace: "web"}, Parked: true}, ""},
		container.KindVolume:    {container.Desired[container.Volume]{Spec: container.Volume{Name: "data"}, Parked: true}, ""},
		"file":                  {map[string]any{"path": "x", "parked": true}, ""},
	} {
		raw, err := json.Marshal(c.desired)
		if err != nil {
			t.Fatal(err)
		}
		parked, run, err := desiredOf(kind, raw)
		if err != nil || !parked || run != c.run {
			t.Errorf("%s: parked %t, runs %q, %v", kind, parked, run, err)
		}
	}
}
