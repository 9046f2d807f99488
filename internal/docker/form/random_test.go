package form_test

import (
	"testing"

	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	core "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/random"
)

var named = random.Names{Images: []string{"plain", "rich"}, Networks: []string{"back", "far", "front"}, Volumes: []string{"data", "logs"}, Secrets: []string{"db", "tls"}}

// TestS36RandomSpecs makes containers of random specs on a real engine: neither
// the spec nor the same said otherwise differs, with and without baseline, and
// another spec's difference is cured by a container of that one.
func TestS36RandomSpecs(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := random.Workspace(workspace().Name, named).Draw(rt, "spec")
		respelled := random.Respelled(rt, s)
		id, err := w.try(t.Context(), s)
		if id != "" {
			defer func() {
				if _, err := w.api.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
					rt.Fatal(err)
				}
			}()
		}
		if err != nil {
			rt.Fatal(err)
		}
		c := w.inspect(t, id)
		rec, err := form.RecordWorkspace(w.deployment(s), w.inputs(s), c)
		if err != nil {
			rt.Fatal(err)
		}
		for _, base := range []*form.Record{nil, &rec} {
			for name, x := range map[string]core.Workspace{"the same": s, "respelled": respelled} {
				ds, err := form.Compare(w.deployment(x), w.inputs(x), c, base, w.rules())
				if err != nil {
					rt.Fatal(err)
				}
				for _, d := range ds {
					rt.Errorf("%s, baseline %v: %s", name, base != nil, d.Show())
				}
			}
		}
		other := random.Workspace(s.Name, named).Draw(rt, "another spec")
		want, err := form.Workspace(w.deployment(s), w.inputs(s))
		if err != nil {
			rt.Fatal(err)
		}
		wanted, err := form.Workspace(w.deployment(other), w.inputs(other))
		if err != nil {
			rt.Fatal(err)
		}
		ds, err := form.Compare(w.deployment(other), w.inputs(other), c, &rec, w.rules())
		if err != nil {
			rt.Fatal(err)
		}
		seen := fieldsOf(ds)
		for _, d := range ds {
			if d.Cause != diff.Declared {
				rt.Errorf("nobody changed it outside: %s", d.Show())
			}
		}
		for _, d := range diff.Compare(wanted, want, nil, w.rules()) {
			if seen[d.Field] == "" && d.Desired != w.rules().Default(d.Field) && d.Desired != form.Observed(c, w.inputs(s))[d.Field] {
				rt.Errorf("the specs differ, and the container does not: %s", d.Show())
			}
		}
	})
}
