package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// stepsText has one step a line.
func stepsText(steps []reconcile.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s %s", s.Ref, s.Decision)
		if s.Action != "" {
			fmt.Fprintf(&b, " %s%s", s.Action, s.Input)
		}
		if s.Delete {
			b.WriteString(" delete")
		}
		if s.Changed {
			b.WriteString(" changed")
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestPlanWritesAndActsOnNothing(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}, Content: "x"}))
		pass(time.Minute)
		shown := func() string {
			out := mustJSON(l.w.names()) + mustJSON(l.w.acts)
			for _, r := range l.rows() {
				out += mustJSON(r) + string(r.State()) + mustJSON(l.history(r.Ref))
			}
			return out
		}
		before := shown()
		for _, c := range []struct {
			in   engine.Intent
			want string
		}{
			{engine.Upsert(treeRef("new"), tree{Leaves: []string{"c"}, Content: "y"}), `tree/new converged changed; leaf/c do write{"Content":"y"} changed`},
			{engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}, Content: "x"}), "tree/t converged; leaf/a converged; leaf/b converged"},
			{
				engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "c"}, Content: "y"}),
				`tree/t converged changed; leaf/a do write{"Content":"y"} changed; leaf/c do write{"Content":"y"} changed; leaf/b do remove{} delete changed`,
			},
			{engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}, Content: "x"}).WithNotAfter(time.Now().Add(time.Hour)), "tree/t converged changed; leaf/a converged changed; leaf/b converged changed"},
			{engine.Delete(treeRef("t")), "tree/t delete children delete changed; leaf/b do remove{} delete changed"},
			{engine.Delete(treeRef("none")), ""},
		} {
			steps, err := l.p.loop.Plan(context.Background(), c.in)
			if got := stepsText(steps); err != nil || got != c.want {
				t.Errorf("%s of %s:\n%s, %v; want\n%s", c.in.Op, c.in.Ref, got, err, c.want)
			}
		}
		for _, in := range []engine.Intent{engine.Delete(leafRef("a")), engine.Upsert(engine.Ref{Kind: "none", ID: "1"}, 1), engine.Acknowledge(treeRef("t"), "")} {
			if _, err := l.p.loop.Plan(context.Background(), in); err == nil {
				t.Errorf("planned to %s %s", in.Op, in.Ref)
			}
		}
		pass(time.Second)
		if after := shown(); after != before {
			t.Errorf("a plan left\n%s\nof\n%s", after, before)
		}
		// What waits for its children to go goes on to wait.
		l.w.breakLeaf("b", hangs)
		l.set(engine.Delete(treeRef("t")))
		pass(time.Second)
		steps, err := l.p.loop.Plan(context.Background(), engine.Delete(treeRef("t")))
		if got := stepsText(steps); err != nil || got != "tree/t delete children delete" {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// TestPlanIsWhatTheNextTurnDecides: after any life the first step of a plan is the decision that is
// made once the intent is applied.
func TestPlanIsWhatTheNextTurnDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			l := newLab(t, inJournal())
			defer l.close()
			l.tree.OnChildFailure = rapid.SampledFrom([]engine.FailureAction{engine.Continue, engine.Abort}).Draw(t, "onChildFailure")
			l.start()
			for range rapid.IntRange(0, 15).Draw(t, "steps") {
				l.randomStep(t)
			}
			l.stop()
			in := anyIntent(t)
			var planned string
			decided := "nothing"
			l.note = func(ref engine.Ref, d engine.Decision) {
				if decided == "nothing" {
					decided = ref.String() + " " + d.Name() + " " + mustJSON(d.Action())
				}
			}
			l.first = func(c *reconcile.Controller) {
				steps, err := c.Plan(context.Background(), in)
				if err != nil {
					t.Fatalf("%v", err)
				}
				planned = firstDecided(steps)
				decided = "nothing" // but by the plan
				if _, err := c.Apply(context.Background(), in, hand); err != nil {
					t.Fatalf("%v", err)
				}
				c.Enqueue(in.Ref, hand) // also if nothing changed
			}
			l.opts = append(l.opts, reconcile.WithWorkers(1)) // an operator's turn is the first
			l.start()
			synctest.Wait()
			of, _, _ := strings.Cut(decided, " ")
			if planned != decided && (planned != "" || of == in.Ref.String()) {
				t.Fatalf("planned %q, decided %q:\n%s", planned, decided, l.story(in.Ref))
			}
		})
	})
}

// firstDecided is what the first of the steps decides, empty if it does not come to that.
func firstDecided(steps []reconcile.Step) string {
	if len(steps) == 0 || steps[0].Decision == "delete children" || steps[0].Decision == "none" {
		return ""
	}
	input := "null"
	if len(steps[0].Input) > 0 {
		input = string(steps[0].Input)
	}
	return steps[0].Ref.String() + " " + steps[0].Decision + " " + input
}

func anyIntent(t *rapid.T) engine.Intent {
	ref := treeRef(rapid.SampledFrom(treeNames).Draw(t, "planned"))
	if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
		return engine.Delete(ref)
	}
	kids := leafNames[ref.ID]
	in := engine.Upsert(ref, tree{Leaves: kids[:rapid.IntRange(0, len(kids)).Draw(t, "planned leaves")], Content: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "planned content")})
	if rapid.Bool().Draw(t, "ends") {
		in = in.WithNotAfter(time.Now().Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "after")) * time.Second))
	}
	return in
}
