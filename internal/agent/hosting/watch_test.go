package hosting

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestDesiredOfEveryKindIsRead: routes and snapshots name a workspace where a
// deployment has one whole.
func TestDesiredOfEveryKindIsRead(t *testing.T) {
	for kind, c := range map[string]struct {
		desired any
		run     spec.RunState
	}{
		spec.KindWorkspace: {spec.Desired[spec.Deployment]{Spec: spec.Deployment{Workspace: spec.Workspace{Name: "job", State: spec.Once}}, Suspended: true}, spec.Once},
		spec.KindRoute:     {spec.Desired[spec.Route]{Spec: spec.Route{Name: "web", Workspace: "web"}, Suspended: true}, ""},
		spec.KindSnapshot:  {spec.Desired[spec.Snapshot]{Spec: spec.Snapshot{Name: "s", Workspace: "web"}, Suspended: true}, ""},
		spec.KindVolume:    {spec.Desired[spec.Volume]{Spec: spec.Volume{Name: "data"}, Suspended: true}, ""},
		"file":             {map[string]any{"path": "x", "suspended": true}, ""},
	} {
		raw := testkit.Value(json.Marshal(c.desired))(t)
		d, err := desiredOf(kind, raw)
		if err != nil || !d.Suspended || d.run != c.run {
			t.Errorf("%s: suspended %t, runs %q, %v", kind, d.Suspended, d.run, err)
		}
	}
}
