package network_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func drawFound(t *rapid.T) []network.Found {
	var out []network.Found
	for n := range rapid.IntRange(0, 4).Draw(t, "networks") {
		f := network.Found{ID: fmt.Sprint("id", n), Name: rapid.SampledFrom([]string{"p.front", "p.old"}).Draw(t, "name"), Created: int64(n), Owned: rapid.Bool().Draw(t, "owned")}
		if f.Name == "p.old" {
			f.Owned = true
		}
		for c := range rapid.IntRange(0, 2).Draw(t, "members") {
			f.Members = append(f.Members, network.Member{ID: fmt.Sprint(n, "-", c), Name: fmt.Sprint("c", n, "-", c), Ours: rapid.Bool().Draw(t, "ours"), Running: rapid.Bool().Draw(t, "running")})
		}
		if f.Owned && f.Name == "p.front" && rapid.Bool().Draw(t, "differs") {
			f.Differences = []diff.Difference{{Field: "driver", Class: diff.Replace, Desired: "bridge", Observed: "macvlan"}}
		}
		out = append(out, f)
	}
	return out
}

// step does to the engine what an action does.
func step(found []network.Found, a engine.Action) []network.Found {
	without := func(id string) []network.Found {
		return slices.DeleteFunc(slices.Clone(found), func(f network.Found) bool { return f.ID == id })
	}
	made := network.Found{ID: "made", Name: "p.front", Created: 99, Owned: true}
	switch a := a.(type) {
	case network.Create:
		return append(found, made)
	case network.Remove:
		return without(a.ID)
	case network.Replace:
		return append(without(a.ID), made)
	}
	panic("no such action")
}

// TestS37NetworkDecide: nothing is removed that is not this host's, that has
// somebody else's container on it, or that is declared external; acts come to
// rest; and a network that goes has nothing running on it.
func TestS37NetworkDecide(t *testing.T) {
	m := network.New(network.Options{})
	rapid.Check(t, func(t *rapid.T) {
		r := engine.Resource[network.Desired]{Delete: rapid.Bool().Draw(t, "retire"), Desired: network.Desired{Spec: spec.Network{Name: "front"}, Run: "r"}}
		if rapid.IntRange(0, 4).Draw(t, "external") == 0 {
			r.Desired.Spec.External = "p.front"
		}
		o := network.Observed{Title: "p.front", Found: drawFound(t)}
		for n := 0; ; n++ {
			d := m.Decide(engine.View[network.Desired, network.Observed]{Resource: r, Observed: o, Now: time.UnixMilli(5)})
			if d.Action() == nil {
				if d.Name() == "converged" && !r.Delete && r.Desired.Spec.External == "" && !slices.ContainsFunc(o.Found, func(f network.Found) bool { return f.Owned && f.Name == "p.front" && f.Differences == nil }) {
					t.Fatalf("converged without the network: %+v", o.Found)
				}
				return
			}
			if n > 6 {
				t.Fatalf("no rest: %s", d.Reason())
			}
			id := ""
			switch a := d.Action().(type) {
			case network.Remove:
				id = a.ID
			case network.Replace:
				id = a.ID
			}
			for _, f := range o.Found {
				if f.ID != id {
					continue
				}
				if !f.Owned || r.Desired.Spec.External != "" {
					t.Fatalf("%s of a network that is not this host's: %+v", d.Action().ActionName(), f)
				}
				for _, c := range f.Members {
					if !c.Ours || r.Delete && c.Running {
						t.Fatalf("%s of a network with %+v", d.Action().ActionName(), c)
					}
				}
			}
			o.Found = step(o.Found, d.Action())
		}
	})
}
