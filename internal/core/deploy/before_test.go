package deploy_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestBrokenBefore: a release that does not change a service which did not work before does not fail for it, unless
// what it changes needs that service. Drawn: what each release changes, what breaks by itself between releases and
// what a release breaks, and whether the host goes back.
func TestBrokenBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const services = 4
		version, broken := [services]int{}, map[string]bool{}
		set := func() *spec.Set {
			s := &spec.Set{Images: []spec.Image{{Name: "i"}}}
			for i := range services {
				w := spec.Workspace{Name: fmt.Sprint("w", i), Image: "i", Hostname: fmt.Sprint("v", version[i])}
				if i == services-1 {
					w.DependsOn = []spec.Dependency{{Workspace: "w0", Condition: spec.Healthy, Required: true}}
				}
				s.Workspaces = append(s.Workspaces, w)
			}
			return s
		}
		o := &owner{children: map[engine.Ref]*engine.Child{}}
		good := set()
		walk(o, deploy.Want{Set: good, Run: "g0", Title: title}, broken)
		for round := 1; round <= 3; round++ {
			before := map[string]bool{}
			for i := range services { // time passes
				name := fmt.Sprint("w", i)
				broken[name] = rapid.Bool().Draw(t, "breaks "+name)
				before[name] = broken[name]
			}
			stand(o, broken)
			changed := map[string]bool{}
			for i := range services {
				if rapid.IntRange(0, 3).Draw(t, "changed") == 0 {
					name := fmt.Sprint("w", i)
					version[i] += 10 * round
					changed[name], broken[name] = true, false
				}
			}
			next, grant := set(), fmt.Sprint("g", round)
			w := deploy.Want{Set: next, Keep: good, Run: grant, Title: title}
			p := walk(o, w, broken)
			if hit := fmt.Sprint("w", rapid.IntRange(0, services-1).Draw(t, "hit")); rapid.Bool().Draw(t, "the release breaks one") {
				broken[hit] = true
				stand(o, broken)
				p = walk(o, w, broken)
			}

			failure := changed["w3"] && broken["w0"]
			for name, bad := range broken {
				if bad && (changed[name] || !before[name]) {
					failure = true
				}
			}
			if len(p.Failed) > 0 != failure || p.Done() == failure {
				t.Fatalf("round %d: changed %v, broken before %v, now %v: %+v", round, changed, before, broken, p)
			}
			if !failure {
				good = next
				continue
			}
			for name := range changed { // what was there before works as it did
				broken[name] = before[name]
			}
			p = walk(o, deploy.Want{Set: good, Keep: next, Run: deploy.BackRun(grant, 1), Title: title}, broken)
			if len(p.Failed) == 0 && slices.ContainsFunc(o.list(), func(c engine.Child) bool {
				return c.Phase == engine.Failed && !before[c.Ref.ID]
			}) {
				t.Fatalf("going back acknowledges what the release broke: %+v", o.list())
			}
			for _, c := range p.Failed {
				if before[c.Ref.ID] && !changed[c.Ref.ID] && !(changed["w3"] && c.Ref.ID == "w0") {
					t.Fatalf("going back fails for %s, which neither release changes: before %v", c.Ref, before)
				}
			}
			clear(broken) // a later attempt is there
			if p = walk(o, deploy.Want{Set: good, Keep: next, Run: deploy.BackRun(grant, 2), Title: title}, broken); !p.Done() {
				t.Fatalf("not back: %+v", p)
			}
			for i := range services {
				fmt.Sscanf(good.Workspaces[i].Hostname, "v%d", &version[i])
			}
		}
	})
}

// walk sets what the plan sets until nothing more is to be set. What is broken fails.
func walk(o *owner, w deploy.Want, broken map[string]bool) deploy.Plan {
	stand(o, broken)
	for {
		p := deploy.Next(w, o.list())
		if len(p.Intents) == 0 {
			return p
		}
		for _, in := range p.Intents {
			o.apply(in)
		}
		stand(o, broken)
	}
}

func stand(o *owner, broken map[string]bool) {
	for _, c := range o.children {
		if !c.Phase.Terminal() {
			c.Phase = engine.Converged
		}
		if broken[c.Ref.ID] {
			c.Phase = engine.Failed
		}
	}
}

// TestFirstReleaseIsNotExcused: a service that never worked is a failure of each release that has it.
func TestFirstReleaseIsNotExcused(t *testing.T) {
	set := &spec.Set{Images: []spec.Image{{Name: "i"}}, Workspaces: []spec.Workspace{{Name: "web", Image: "i"}}}
	o, broken := &owner{children: map[engine.Ref]*engine.Child{}}, map[string]bool{"web": true}
	for _, run := range []string{"g1", "g2"} {
		if p := walk(o, deploy.Want{Set: set, Run: run, Title: title}, broken); len(p.Failed) != 1 {
			t.Errorf("run %s: %+v", run, p)
		}
	}
}
