package deploy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// owner is a host's children as the framework would hold them.
type owner struct {
	children map[engine.Ref]*engine.Child
}

func (o *owner) list() []engine.Child {
	var out []engine.Child
	for _, c := range o.children {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b engine.Child) int { return a.Ref.Compare(b.Ref) })
	return out
}

func (o *owner) apply(in engine.Intent) {
	switch in.Op {
	case engine.OpUpsert:
		o.children[in.Ref] = &engine.Child{Ref: in.Ref, Desired: in.Desired, Order: in.Order, NotAfter: in.NotAfter, Phase: engine.Pending}
	case engine.OpDelete:
		o.children[in.Ref].Delete, o.children[in.Ref].Phase = true, engine.Deleting
	}
}

func (o *owner) phase(kind, name string) engine.Phase {
	if c := o.children[engine.Ref{Kind: kind, ID: name}]; c != nil {
		return c.Phase
	}
	return ""
}

func (o *owner) desired(t *rapid.T, kind, name string) (d spec.Desired[json.RawMessage]) {
	testkit.Must(t, json.Unmarshal(o.children[engine.Ref{Kind: kind, ID: name}].Desired, &d))
	return d
}

func title(s string) string { return "h." + s }

// drawSet makes a valid set; a workspace depends on earlier ones alone.
func drawSet(t *rapid.T, label string) *spec.Set {
	s := &spec.Set{}
	pick := func(kind string) []string {
		var out []string
		for i := range 3 {
			if rapid.Bool().Draw(t, fmt.Sprint(label, kind, i)) {
				out = append(out, fmt.Sprint(kind[:1], i))
			}
		}
		return out
	}
	nets, vols := pick("network"), pick("volume")
	for _, n := range nets {
		s.Networks = append(s.Networks, spec.Network{Name: n})
	}
	for _, n := range vols {
		s.Volumes = append(s.Volumes, spec.Volume{Name: n})
	}
	for i := range 2 {
		s.Images = append(s.Images, spec.Image{Name: fmt.Sprint("i", i)})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, label+"workspaces") {
		w := spec.Workspace{Name: fmt.Sprint("w", i), Image: fmt.Sprint("i", i%2)}
		if len(nets) > 0 && rapid.Bool().Draw(t, "attached") {
			w.Networks = []spec.Attachment{{Network: rapid.SampledFrom(nets).Draw(t, "network")}}
		}
		if len(vols) > 0 && rapid.Bool().Draw(t, "mounted") {
			w.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: rapid.SampledFrom(vols).Draw(t, "volume"), Target: "/data"}}
		}
		if i > 0 && rapid.Bool().Draw(t, "depends") {
			on := rapid.IntRange(0, i-1).Draw(t, "on")
			w.DependsOn = []spec.Dependency{{Workspace: fmt.Sprint("w", on), Required: true,
				Condition: rapid.SampledFrom([]spec.Condition{spec.Started, spec.Healthy, spec.Completed}).Draw(t, "condition")}}
		}
		if rapid.Bool().Draw(t, "routed") {
			s.Routes = append(s.Routes, spec.Route{Name: w.Name, Workspace: w.Name, Port: 80})
		}
		s.Workspaces = append(s.Workspaces, w)
	}
	return s
}

// TestNothingBeforeWhatItNeeds drives random sets, one after the other, to
// their end: nothing is set before what it needs has converged, all that is
// declared converges, what the set before had alone is stopped and kept, and what
// neither has is gone.
func TestNothingBeforeWhatItNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &owner{children: map[engine.Ref]*engine.Child{}}
		var keep *spec.Set
		for round := range 3 {
			set := drawSet(t, fmt.Sprint("round", round))
			w := deploy.Want{Set: set, Keep: keep, Run: fmt.Sprint("run", round), Title: title}
			drive(t, o, w)
			settled(t, o, w)
			keep = set
		}
	})
}

func drive(t *rapid.T, o *owner, w deploy.Want) {
	for step := 0; ; step++ {
		if step > 500 {
			t.Fatalf("does not end: %+v", deploy.Next(w, o.list()))
		}
		p := deploy.Next(w, o.list())
		for _, in := range p.Intents {
			inOrder(t, o, w, in)
		}
		for _, in := range p.Intents {
			o.apply(in)
		}
		var open []*engine.Child
		for _, c := range o.list() {
			if c.Phase != engine.Converged && c.Phase != engine.Deleted {
				open = append(open, o.children[c.Ref])
			}
		}
		if len(open) == 0 {
			if len(p.Intents) > 0 {
				continue
			}
			if !p.Done() {
				t.Fatalf("stuck: %+v", p)
			}
			return
		}
		c := rapid.SampledFrom(open).Draw(t, "ends")
		if c.Delete {
			c.Phase = engine.Deleted
		} else {
			c.Phase = engine.Converged
		}
	}
}

// inOrder checks an intent against what it needs.
func inOrder(t *rapid.T, o *owner, w deploy.Want, in engine.Intent) {
	switch {
	case in.Op == engine.OpDelete && slices.Contains([]string{spec.KindNetwork, spec.KindVolume, spec.KindImage}, in.Ref.Kind):
		for _, c := range o.children {
			id := spec.ID{Kind: c.Ref.Kind, Name: c.Ref.ID}
			if c.Ref.Kind != spec.KindWorkspace || c.Phase == engine.Deleted || w.Set.Has(id) || w.Keep.Has(id) {
				continue
			}
			for _, n := range o.deployment(t, c.Ref.ID).Workspace.Needs() {
				if n.Kind == in.Ref.Kind && n.Name == in.Ref.ID {
					t.Fatalf("%s goes before %s is gone", in.Ref, c.Ref)
				}
			}
		}
	case in.Op == engine.OpUpsert && in.Ref.Kind == spec.KindWorkspace:
		var d spec.Desired[spec.Deployment]
		testkit.Must(t, json.Unmarshal(in.Desired, &d))
		if d.Suspended {
			return
		}
		for _, n := range d.Spec.Workspace.Needs() {
			if o.phase(n.Kind, n.Name) != engine.Converged || o.desired(t, n.Kind, n.Name).Run != w.Run {
				t.Fatalf("%s is set before %s", in.Ref, n.ID)
			}
		}
	}
}

// deployment is what a workspace is set to.
func (o *owner) deployment(t *rapid.T, name string) *spec.Deployment {
	var d spec.Desired[spec.Deployment]
	testkit.Must(t, json.Unmarshal(o.children[engine.Ref{Kind: spec.KindWorkspace, ID: name}].Desired, &d))
	return &d.Spec
}

// TestOneStopKeepsNothingOfOthers: what a workspace that does not stop has not used goes meanwhile, and what it uses
// once it is gone.
func TestOneStopKeepsNothingOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &owner{children: map[engine.Ref]*engine.Child{}}
		set := drawSet(t, "set")
		w := deploy.Want{Set: set, Run: "1", Title: title}
		drive(t, o, w)
		if len(set.Workspaces) == 0 {
			return
		}
		slow := rapid.SampledFrom(set.Workspaces).Draw(t, "slow").Name
		used := map[engine.Ref]bool{{Kind: spec.KindWorkspace, ID: slow}: true}
		for _, n := range o.deployment(t, slow).Workspace.Needs() {
			if n.Kind != spec.KindWorkspace {
				used[engine.Ref{Kind: n.Kind, ID: n.Name}] = true
			}
		}
		w.Set = nil
		end := func(all bool) {
			for range 3 {
				for _, in := range deploy.Next(w, o.list()).Intents {
					o.apply(in)
				}
				for ref, c := range o.children {
					if c.Delete && (all || ref.ID != slow || ref.Kind != spec.KindWorkspace) {
						c.Phase = engine.Deleted
					}
				}
			}
		}
		end(false)
		for ref, c := range o.children {
			if (c.Phase == engine.Deleted) == used[ref] {
				t.Fatalf("%s is %s while workspace %s, which uses %v, stops", ref, c.Phase, slow, used)
			}
		}
		end(true)
		for ref, c := range o.children {
			if c.Phase != engine.Deleted {
				t.Fatalf("%s is %s when all is over", ref, c.Phase)
			}
		}
	})
}

func settled(t *rapid.T, o *owner, w deploy.Want) {
	for ref, c := range o.children {
		id := spec.ID{Kind: ref.Kind, Name: ref.ID}
		switch {
		case w.Set.Has(id):
			if d := o.desired(t, id.Kind, id.Name); c.Phase != engine.Converged || d.Run != w.Run || d.Suspended {
				t.Fatalf("%s is declared and %s in %+v", id, c.Phase, d)
			}
		case w.Keep.Has(id) && id.Kind == spec.KindWorkspace:
			if d := o.desired(t, id.Kind, id.Name); c.Delete || !d.Suspended {
				t.Fatalf("%s may come back and is not suspended: %s %+v", id, c.Phase, d)
			}
		case w.Keep.Has(id) && id.Kind != spec.KindRoute:
			if c.Delete {
				t.Fatalf("%s may come back and is %s", id, c.Phase)
			}
		case c.Phase != engine.Deleted:
			t.Fatalf("nobody declares %s and it is %s", id, c.Phase)
		}
	}
}

// TestFailuresAreContained: what does not need the failed one goes on.
func TestFailuresAreContained(t *testing.T) {
	set := &spec.Set{
		Images: []spec.Image{{Name: "bad"}, {Name: "good"}},
		Workspaces: []spec.Workspace{
			{Name: "a", Image: "bad"}, {Name: "b", Image: "good"},
			{Name: "c", Image: "good", DependsOn: []spec.Dependency{{Workspace: "a", Condition: spec.Started}}},
		},
	}
	o := &owner{children: map[engine.Ref]*engine.Child{}}
	w := deploy.Want{Set: set, Run: "1", Title: title}
	for range 5 {
		for _, in := range deploy.Next(w, o.list()).Intents {
			o.apply(in)
		}
		for ref, c := range o.children {
			c.Phase = engine.Converged
			if ref.ID == "bad" {
				c.Phase = engine.Failed
			}
		}
	}
	p := deploy.Next(w, o.list())
	if len(p.Failed) != 1 || p.Failed[0].Ref.ID != "bad" || o.phase(spec.KindWorkspace, "b") != engine.Converged {
		t.Fatalf("%+v, b is %q", p, o.phase(spec.KindWorkspace, "b"))
	}
	if len(p.Waiting) != 2 || p.Waiting[0].For.Name != "bad" || p.Waiting[1].For.Name != "a" {
		t.Fatalf("waits are %+v", p.Waiting)
	}
}

// TestLeftWorkspaceMakesRoom: one that is left and holds the port stops before
// the new one is set.
func TestLeftWorkspaceMakesRoom(t *testing.T) {
	port := []spec.Port{{HostPort: 80, Port: 80, Protocol: "tcp"}}
	old := &spec.Set{Images: []spec.Image{{Name: "i"}}, Workspaces: []spec.Workspace{{Name: "web", Image: "i", Ports: port}}}
	next := &spec.Set{Images: []spec.Image{{Name: "i"}}, Workspaces: []spec.Workspace{{Name: "app", Image: "i", Ports: port}}}
	o := &owner{children: map[engine.Ref]*engine.Child{}}
	for _, w := range []deploy.Want{{Set: old, Run: "1", Title: title}, {Set: next, Keep: old, Run: "2", Title: title}} {
		for range 6 {
			for _, in := range deploy.Next(w, o.list()).Intents {
				if in.Ref.ID == "app" && o.phase(spec.KindWorkspace, "web") != engine.Converged {
					t.Fatal("app is set while web holds its port")
				}
				o.apply(in)
				break // one at a time
			}
			for _, c := range o.children {
				c.Phase = engine.Converged
			}
		}
	}
	if o.phase(spec.KindWorkspace, "app") != engine.Converged {
		t.Fatal("app was never set")
	}
}

// TestDependencyWithRestart: the nonce changes with the dependency and with
// nothing else.
func TestDependencyWithRestart(t *testing.T) {
	set := &spec.Set{
		Images: []spec.Image{{Name: "i", Ref: "i:1"}},
		Workspaces: []spec.Workspace{
			{Name: "db", Image: "i"},
			{Name: "web", Image: "i", DependsOn: []spec.Dependency{{Workspace: "db", Condition: spec.Started, Required: true, Restart: true}}},
		},
	}
	ask := func(run string) deploy.Request {
		o := &owner{children: map[engine.Ref]*engine.Child{}}
		for range 4 {
			for _, in := range deploy.Next(deploy.Want{Set: set, Run: run, Title: title}, o.list()).Intents {
				o.apply(in)
			}
			for _, c := range o.children {
				c.Phase = engine.Converged
			}
		}
		var d spec.Desired[spec.Deployment]
		testkit.Must(t, json.Unmarshal(o.children[engine.Ref{Kind: spec.KindWorkspace, ID: "web"}].Desired, &d))
		return deploy.Request{Verb: d.Verb, Nonce: d.Nonce}
	}
	first := ask("1")
	if first.Verb != spec.VerbRestart || first.Nonce == "" || ask("2") != first {
		t.Fatalf("asked %+v, then %+v", first, ask("2"))
	}
	set.Workspaces[1].WorkingDir = "/web"
	if ask("3") != first {
		t.Fatal("its own change asks for a restart")
	}
	set.Workspaces[0].WorkingDir = "/db"
	if got := ask("4"); got == first || got.Verb != spec.VerbRestart {
		t.Fatalf("the dependency changed: %+v", got)
	}
}
