package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// inBubble runs f with a lab of its own in fake time. setup changes the lab
// before its first process starts. The start is over when f begins: it would look at
// what f sets a second time, and SQLite's wait for its transactions takes fake time.
func inBubble(t *testing.T, setup func(*lab), f func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, inFile(t.TempDir()))
		defer l.close()
		if setup != nil {
			setup(l)
		}
		l.start()
		synctest.Wait()
		f(l)
		l.invariants()
	})
}

func TestP4ExhaustionIsBoundedAcrossRestartsAndP5EscalatesOnce(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", failsForEver)
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}}))
		for range 5 {
			pass(time.Second)
			l.killer.Crash()
			l.restart()
		}
		pass(time.Hour)
		l.wantPhase(leafRef("a"), engine.Failed)
		l.wantPhase(treeRef("t"), engine.Degraded)
		l.quiet()
		if n := l.w.acts["a#1"]; n > 3 {
			t.Fatalf("%d acts, want at most 3", n)
		}
		row, last := l.row(leafRef("a")), l.p.loop.LastTurn(context.Background(), leafRef("a"))
		if row.Reason.Code != engine.CodeExhausted || last.Decision != "do write" {
			t.Fatalf("%s after %s", mustJSON(row), mustJSON(last))
		}
		l.w.heal()
		l.set(engine.Retry(leafRef("a")))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
		l.wantPhase(treeRef("t"), engine.Converged)
	})
}

func TestAbortDeletesTheChildrenNewestFirstAndEscalates(t *testing.T) {
	inBubble(t, func(l *lab) { l.tree.OnChildFailure = engine.Abort }, func(l *lab) {
		l.w.breakLeaf("c", failsForEver)
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b", "c"}}))
		pass(10 * time.Second)
		l.w.heal()
		pass(time.Hour)
		l.wantPhase(treeRef("t"), engine.Failed)
		var gone []string
		for _, name := range []string{"a", "b", "c"} {
			l.wantPhase(leafRef(name), engine.Deleted)
			h := l.history(leafRef(name))
			gone = append(gone, fmt.Sprint(h[len(h)-1].At.UnixMilli(), name))
		}
		if !slices.IsSortedFunc(gone, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Fatalf("not deleted from the highest order down: %v", gone)
		}
		last := l.history(treeRef("t"))
		if f := last[len(last)-1]; !f.Escalated || !f.Alert || f.Reason.Code != engine.CodeChildFailed {
			t.Fatalf("the tree's end: %s", mustJSON(f))
		}
		// A new desired state starts afresh.
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a"}, Content: "2"}))
		pass(time.Minute)
		l.wantPhase(treeRef("t"), engine.Converged)
		l.quiet()
	})
}

func TestP9LateResultNeverOverwritesANewerGeneration(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", hangs)
		l.set(engine.Upsert(leafRef("a"), leaf{"old"}))
		pass(time.Second)
		l.wantPhase(leafRef("a"), engine.Acting)
		l.set(engine.Upsert(leafRef("a"), leaf{"new"}))
		pass(time.Second)
		l.wantPhase(leafRef("a"), engine.Converged)
		if s, _ := l.w.get("a"); s != "new" {
			t.Fatalf("the world holds %q", s)
		}
		if n := l.p.loop.Stats().Superseded; n != 1 {
			t.Fatalf("%d acts superseded, want 1", n)
		}
		for _, h := range l.history(leafRef("a")) {
			if h.Generation == 1 && h.N > 2 {
				t.Fatalf("the old generation was recorded after the new:\n%s", l.story(leafRef("a")))
			}
		}
	})
}

func TestActPastItsDeadlineIsCancelledAndCounted(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", hangs)
		l.set(engine.Upsert(leafRef("a"), leaf{"x"}))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
		if !slices.ContainsFunc(l.history(leafRef("a")), func(h engine.Transition) bool {
			return h.Reason.Code == engine.CodeActTimeout && h.Attempt == 1 && h.Duration == l.leaf.ActTimeout
		}) {
			t.Fatalf("no timeout in\n%s", l.story(leafRef("a")))
		}
	})
}

func TestPanicIsAnErrorWithACounter(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", panics)
		l.set(engine.Upsert(leafRef("a"), leaf{"x"}))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
		if n := l.p.loop.Stats().Panics; n != 1 {
			t.Fatalf("%d panics counted, want 1", n)
		}
	})
}

func TestSuccessIsBelievedOnlyAfterTheNextObserve(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", nothing, nothing, nothing, nothing)
		l.set(engine.Upsert(leafRef("a"), leaf{"x"}))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Failed)
		if n := l.w.acts["a#1"]; n != 3 {
			t.Fatalf("%d acts that changed nothing, want 3", n)
		}
	})
}

func TestGracefulStopIsNotAnAttempt(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.set(engine.Upsert(leafRef("a"), leaf{"x"}))
		for range 6 {
			l.w.breakLeaf("a", hangs)
			pass(time.Second)
			l.restart()
		}
		l.w.heal()
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
	})
}

func TestDriftIsReportedOrEnforcedOrHeld(t *testing.T) {
	drift := func(l *lab) {
		l.set(engine.Upsert(leafRef("a"), leaf{"x"}))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
		l.w.set("a", "by hand")
		l.p.loop.Enqueue(leafRef("a"), engine.Cause{Trigger: engine.TriggerExternal})
		pass(time.Second)
	}
	t.Run("report", func(t *testing.T) {
		inBubble(t, func(l *lab) { l.leaf.OnDrift = engine.Report }, func(l *lab) {
			drift(l)
			pass(time.Hour)
			l.wantPhase(leafRef("a"), engine.Drifted)
			if s, _ := l.w.get("a"); s != "by hand" {
				t.Fatalf("overwritten by %q", s)
			}
			l.set(engine.Upsert(leafRef("a"), leaf{"y"})) // a new intent is no drift
			pass(time.Second)
			l.wantPhase(leafRef("a"), engine.Converged)
		})
	})
	t.Run("enforce", func(t *testing.T) {
		inBubble(t, nil, func(l *lab) {
			drift(l)
			l.wantPhase(leafRef("a"), engine.Converged)
			if s, _ := l.w.get("a"); s != "x" {
				t.Fatalf("the world holds %q", s)
			}
		})
	})
	t.Run("held", func(t *testing.T) {
		held := true
		var asked reconcile.Repair
		inBubble(t, func(l *lab) {
			l.opts = append(l.opts, reconcile.WithRepairGate(func(_ context.Context, r reconcile.Repair) *engine.Block {
				asked = r
				if !held {
					return nil
				}
				return &engine.Block{Reason: engine.NewReason("no-repair-grant", "waiting for a claimed repair grant")}
			}))
		}, func(l *lab) {
			drift(l)
			l.wantPhase(leafRef("a"), engine.Drifted)
			if asked.Ref != leafRef("a") || asked.Action != (write{"x"}) {
				t.Fatalf("the gate was asked about %+v", asked)
			}
			if row := l.row(leafRef("a")); row.Reason.Code != "no-repair-grant" {
				t.Fatalf("blocked as %s", mustJSON(row))
			}
			held = false
			l.p.loop.Enqueue(leafRef("a"), engine.Cause{Trigger: engine.TriggerExternal, ID: "grant"})
			pass(time.Second)
			l.wantPhase(leafRef("a"), engine.Converged)
		})
	})
}

func TestP6NothingOutlivesItsCleanupDeadline(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		end := time.Now().Add(10 * time.Minute).UTC()
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}}).WithNotAfter(end))
		pass(9 * time.Minute)
		l.wantPhase(treeRef("t"), engine.Converged)
		child := l.row(leafRef("a"))
		if n := child.ChildView().NotAfter; !n.Equal(end) {
			t.Fatalf("the child may live until %s, its parent until %s", n, end)
		}
		l.w.breakLeaf("b", failsForEver)
		pass(2 * time.Minute)
		l.wantPhase(leafRef("a"), engine.Deleted)
		pass(4 * time.Minute)
		l.wantPhase(leafRef("b"), engine.Orphaned)
		l.wantPhase(treeRef("t"), engine.Deleted)
		h := l.history(leafRef("b"))
		if last := h[len(h)-1]; !last.Alert || last.At.After(end.Add(l.leaf.CleanupGrace)) {
			t.Fatalf("the orphan's end: %s", mustJSON(last))
		}
		l.quiet()
	})
}

func TestDeletionSurvivesADeadReconciler(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a"}}))
		pass(time.Minute)
		l.w.breakLeaf("a", failsForEver)
		l.set(engine.Delete(treeRef("t")))
		l.killer.Crash()
		l.stop()
		pass(time.Hour) // past every deadline, with nobody there
		l.start()
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Orphaned)
		l.wantPhase(treeRef("t"), engine.Orphaned) // its own time is over too, and what is below it is not gone
		l.quiet()
	})
}

func TestConvergeDeadlineFailsTheGeneration(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", hangs, hangs, hangs)
		end := time.Now().Add(time.Minute)
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a"}}).WithConvergeBy(end))
		pass(65 * time.Second)
		l.wantPhase(treeRef("t"), engine.Failed)
		h := l.history(treeRef("t"))
		if last := h[len(h)-1]; last.Reason.Code != engine.CodeConvergeBy || !last.At.Equal(end) || !last.Escalated {
			t.Fatalf("the tree's end: %s", mustJSON(last))
		}
		pass(10 * time.Minute)
		l.quiet()
	})
}

// TestConvergeByBindsUntilItConverged: what has converged in time may drift and be
// repaired after it; an operator's retry is not bound by what was missed.
func TestConvergeByBindsUntilItConverged(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		end := time.Now().Add(time.Minute)
		l.w.breakLeaf("b", hangs, hangs, hangs)
		for _, name := range []string{"a", "b"} {
			l.set(engine.Upsert(leafRef(name), leaf{"x"}).WithConvergeBy(end))
		}
		pass(2 * time.Minute)
		l.wantPhase(leafRef("b"), engine.Failed)
		l.w.heal()
		l.w.set("a", "by hand")
		l.p.loop.Enqueue(leafRef("a"), engine.Cause{Trigger: engine.TriggerExternal})
		l.set(engine.Retry(leafRef("b")))
		pass(time.Minute)
		l.wantPhase(leafRef("a"), engine.Converged)
		l.wantPhase(leafRef("b"), engine.Converged)
	})
}

// TestDeleteByOrphansBeforeTheGraceIsOver: the earlier of both ends a deletion.
func TestDeleteByOrphansBeforeTheGraceIsOver(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.w.breakLeaf("a", works, failsForEver)
		start := time.Now()
		in := engine.Upsert(leafRef("a"), leaf{"x"}).WithNotAfter(start.Add(10 * time.Minute))
		if _, err := l.p.store.Apply(context.Background(), in.WithDeleteBy(start), start, hand); err == nil {
			t.Error("accepted a deletion that is over before it begins")
		}
		end := start.Add(11 * time.Minute)
		l.set(in.WithDeleteBy(end)) // the grace is two minutes
		pass(11*time.Minute + time.Second)
		l.wantPhase(leafRef("a"), engine.Orphaned)
		h := l.history(leafRef("a"))
		if last := h[len(h)-1]; !last.Alert || !last.At.Equal(end) || last.Reason.Code != engine.CodeCleanupDeadline {
			t.Fatalf("the orphan's end: %s", mustJSON(last))
		}
		ended := slices.IndexFunc(h, func(x engine.Transition) bool { return x.Reason.Code == engine.CodeTimeEnded })
		if ended < 0 || h[ended].To != engine.Deleting || !h[ended].At.Equal(start.Add(10*time.Minute)) {
			t.Errorf("the deletion does not begin with the end of its time: %s", mustJSON(h))
		}
	})
}

// TestVerdictOverridesThePolicy: a parent answers the failure of one child for itself.
func TestVerdictOverridesThePolicy(t *testing.T) {
	parent := func(v engine.View[leaf, int]) engine.Decision {
		d := asDesired(v).With(engine.Upsert(leafRef("a"), leaf{"x"}))
		for _, c := range v.Children {
			if c.NeedsVerdict {
				d = d.WithVerdicts(engine.Verdict{Child: c.Ref, Generation: c.Generation, Action: engine.Abort})
			}
		}
		return d
	}
	synctest.Test(t, func(t *testing.T) {
		w, store := newWorld(), openStore(t)
		w.breakLeaf("a", failsForEver)
		c := reconcile.New(store, reconcile.WithPurityChecks())
		for _, err := range []error{
			reconcile.Register(c, "odd", odd{decide: parent}, engine.Policy{OnChildFailure: engine.Continue}),
			reconcile.Register(c, "leaf", leaves{w}, leafPolicy),
		} {
			testkit.Must(t, err)
		}
		testkit.Value(c.Apply(t.Context(), engine.Upsert(oddRef, leaf{}), hand))(t)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		testkit.Must(t, c.Run(ctx))
		wantRow(t, store, engine.Failed, engine.CodeChildFailed)
	})
}

func TestP11OperatorGoesBeforeAStartupFlood(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		const flood = 300
		for i := range flood {
			l.set(engine.Upsert(leafRef(fmt.Sprint("f", i)), leaf{"x"}))
		}
		pass(time.Minute)
		l.stop()
		for i := range flood {
			l.w.set(fmt.Sprint("f", i), "drifted") // so that each turn of the flood takes time
		}
		l.opts = append(l.opts, reconcile.WithWorkers(2))
		l.w.mu.Lock()
		clear(l.w.acts)
		l.w.mu.Unlock()
		l.start()
		synctest.Wait()
		l.set(engine.Upsert(leafRef("urgent"), leaf{"now"}))
		for range 1000 {
			if l.row(leafRef("urgent")).Phase == engine.Converged {
				break
			}
			pass(time.Millisecond)
		}
		l.wantPhase(leafRef("urgent"), engine.Converged)
		l.w.mu.Lock()
		before := len(l.w.acts)
		l.w.mu.Unlock()
		if before > 20 {
			t.Fatalf("%d turns of the flood went first", before)
		}
		pass(time.Minute)
	})
}
