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

// TestVolumesOfSessionsDecide: a kept volume is never removed by its row, and is in the bin before that is gone; whatever
// else is of a session is as with all volumes.
func TestVolumesOfSessionsDecide(t *testing.T) {
	m := storage.NewVolumes(storage.VolumeOptions{})
	rapid.Check(t, func(t *rapid.T) {
		o := storage.VolumeObserved{Title: "p.data", Exists: rapid.Bool().Draw(t, "exists"), AllowDelete: rapid.Bool().Draw(t, "allow")}
		o.Owned = o.Exists && rapid.Bool().Draw(t, "owned")
		o.Session = o.Owned && rapid.Bool().Draw(t, "session")
		if o.Session && rapid.Bool().Draw(t, "binned") {
			o.Binned = 7
		}
		if o.Session && rapid.Bool().Draw(t, "former") {
			o.Former = []string{"p.old"}
		}
		n := spec.Volume{Name: "data", Owner: "session/lab"}
		if rapid.Bool().Draw(t, "keep") {
			n.Keep = 5
		}
		r := engine.Resource[storage.DesiredVolume]{Generation: 3, Delete: rapid.Bool().Draw(t, "retire"), Desired: storage.DesiredVolume{Spec: n, Run: "r"}}
		d := m.Decide(engine.View[storage.DesiredVolume, storage.VolumeObserved]{Resource: r, Observed: o, Now: time.UnixMilli(5)})
		kept := o.Session && n.Keep > 0
		switch d.Action().(type) {
		case storage.Remove:
			if kept || !r.Delete || !o.Owned || !o.AllowDelete {
				t.Fatalf("data of %+v is removed", o)
			}
		case storage.Keep:
			if !kept || !r.Delete || o.Binned != 0 {
				t.Fatalf("%+v is put into the bin", o)
			}
		case storage.Reclaim:
			if r.Delete || o.Binned == 0 {
				t.Fatalf("%+v is taken out of the bin", o)
			}
		case storage.RetireFormer:
			if r.Delete || len(o.Former) == 0 || o.Binned != 0 {
				t.Fatalf("earlier ones of %+v are retired", o)
			}
		case nil:
			if d.Name() == "converged" && (kept && r.Delete && o.Binned == 0 || !r.Delete && (o.Binned != 0 || len(o.Former) > 0)) {
				t.Fatalf("converged with %+v", o)
			}
		}
	})
}
