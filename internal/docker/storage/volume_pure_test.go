package storage_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestS37VolumeDecide: data is removed only of this host's own volume that is to
// go, that nobody uses, and where the declaration allows it; what is there is
// never made again.
func TestS37VolumeDecide(t *testing.T) {
	m := storage.NewVolumes(storage.VolumeOptions{})
	testkit.Must(t, storage.VolumePolicy().WithDefaults().Validate())
	rapid.Check(t, func(t *rapid.T) {
		o := storage.VolumeObserved{Title: "p.data", Exists: rapid.Bool().Draw(t, "exists"), AllowDelete: rapid.Bool().Draw(t, "allow")}
		o.Owned = o.Exists && rapid.Bool().Draw(t, "owned")
		if rapid.Bool().Draw(t, "used") {
			o.Users = []string{"c"}
		}
		for _, f := range []string{"driver", "label/a"} {
			if rapid.Bool().Draw(t, f) {
				o.Differences = append(o.Differences, diff.Difference{Field: f, Class: diff.Blocked})
			}
		}
		r := engine.Resource[storage.DesiredVolume]{Generation: 3, Delete: rapid.Bool().Draw(t, "retire"), Desired: storage.DesiredVolume{Spec: spec.Volume{Name: "data"}, Run: "r"}}
		r.Status.ConvergedGeneration = rapid.Int64Range(0, 3).Draw(t, "converged")
		if rapid.IntRange(0, 3).Draw(t, "external") == 0 {
			r.Desired.Spec.External = "p.data"
		}
		d := m.Decide(engine.View[storage.DesiredVolume, storage.VolumeObserved]{Resource: r, Observed: o, Now: time.UnixMilli(5)})
		own := r.Desired.Spec.External == ""
		switch a := d.Action().(type) {
		case storage.Remove:
			if !own || !r.Delete || !o.Owned || !o.AllowDelete || len(o.Users) > 0 {
				t.Fatalf("data of %+v is removed", o)
			}
		case storage.Create:
			if !own || r.Delete || o.Exists || a.Lost != (r.Status.ConvergedGeneration > 0) || a.Lost != (d.Reason().Code == storage.CodeRecreated) {
				t.Fatalf("%+v is made, %+v", o, a)
			}
		case nil:
			if d.Name() == "converged" && !r.Delete && (!o.Exists || own && !o.Owned) {
				t.Fatalf("converged with %+v", o)
			}
		}
	})
}
