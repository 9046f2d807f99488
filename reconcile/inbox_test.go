package reconcile_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
)

// oddKind is the kind odd, made of a decision alone.
func oddKind(p engine.Policy, decide func(engine.View[leaf, int]) engine.Decision) reconcile.Kind {
	return reconcile.Of("odd", odd{decide: decide}, p)
}

// job waits for an event "result", and reports its data.
func job(v engine.View[leaf, int]) engine.Decision {
	for _, e := range v.Events {
		if e.Type == "result" {
			return engine.IsConverged(engine.NewReason("done", "")).WithReport(e.Data)
		}
	}
	d := engine.Wait(engine.NewReason("no-result", ""))
	if n := len(v.Events); n > 0 {
		d = d.WithHandled(v.Events[n-1].N)
	}
	return d
}

func ask(id, kind, data string) engine.Event {
	return engine.Event{Source: "/test", ID: id, Type: kind, Data: json.RawMessage(data)}
}

func TestAJobWaitsForItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reconciletest.NewLoop(t, oddKind(engine.Policy{}, job))
		l.Apply(engine.Upsert(oddRef, leaf{}))
		l.Advance(time.Hour)
		l.WantPhase(oddRef, engine.Waiting)
		l.Deliver(oddRef, ask("1", "progress", "1"))
		l.Advance(time.Second)
		row := l.Row(oddRef)
		if row.Phase != engine.Waiting || row.Handled() != 1 {
			t.Errorf("%s with %d events handled", row.Phase, row.Handled())
		}
		l.Deliver(oddRef, ask("2", "result", `"blue"`))
		l.Deliver(oddRef, ask("2", "result", `"red"`))
		l.Advance(time.Second)
		l.WantPhase(oddRef, engine.Converged)
		row = l.Row(oddRef)
		if string(row.Report()) != `"blue"` {
			t.Errorf("reports %s", row.Report())
		}
		h := l.History(oddRef)
		if last := h[len(h)-1]; !slices.Contains(last.Causes, engine.Cause{Trigger: engine.TriggerExternal, ID: "/test 2"}) {
			t.Errorf("converged for %v", last.Causes)
		}
		e, err := l.Controller().Explain(t.Context(), oddRef)
		if err != nil || len(e.Events) != 1 || e.Events[0].ID != "2" {
			t.Errorf("explains %+v, %v", e.Events, err)
		}
	})
}

// TestAnEventIsNotLostBetweenDeliveryAndTurn: what was kept is acted upon by the next process.
func TestAnEventIsNotLostBetweenDeliveryAndTurn(t *testing.T) {
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := storage(t.TempDir())
				for life := range 2 {
					store, closeIt, err := kept()
					if err != nil {
						t.Fatal(err)
					}
					c := reconcile.New(store, reconcile.WithPurityChecks())
					if err := oddKind(engine.Policy{}, job)(c); err != nil {
						t.Fatal(err)
					}
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					if life == 0 {
						if _, err := c.Apply(ctx, engine.Upsert(oddRef, leaf{}), hand); err != nil {
							t.Fatal(err)
						}
						if err := c.Run(ctx); err != nil {
							t.Fatal(err)
						}
						// Nobody is there to take a turn.
						if err := c.Deliver(t.Context(), oddRef, ask("1", "result", "7")); err != nil {
							t.Fatal(err)
						}
					} else if err := c.Run(ctx); err != nil {
						t.Fatal(err)
					}
					stop()
					row, err := store.Get(t.Context(), oddRef)
					want := []engine.Phase{engine.Waiting, engine.Converged}[life]
					if err != nil || row.Phase != want {
						t.Errorf("life %d: %s, %v; want %s", life, row.Phase, err, want)
					}
					if err := closeIt(); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// TestAnEventSurvivesEveryCrash: with the one who sends it again until it is accepted.
func TestAnEventSurvivesEveryCrash(t *testing.T) {
	reconciletest.CrashEverywhere(t, func(l *reconciletest.Loop) {
		l.Start(oddKind(engine.Policy{}, job))
		l.Apply(engine.Upsert(oddRef, leaf{}))
		l.Deliver(oddRef, ask("1", "progress", ""))
		l.Advance(time.Minute)
		l.Deliver(oddRef, ask("2", "result", `"blue"`))
		l.Advance(time.Minute)
	}, func(l *reconciletest.Loop) string {
		row := l.Row(oddRef)
		return l.State() + string(row.Report())
	})
}

// TestWhatWasNotSeenIsNotHandled: a decision cannot put aside events that come after its view.
func TestWhatWasNotSeenIsNotHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		l := reconciletest.NewLoop(t, oddKind(engine.Policy{}, func(v engine.View[leaf, int]) engine.Decision {
			seen = max(seen, len(v.Events))
			return engine.Wait(engine.NewReason("more", "")).WithHandled(1 << 40)
		}))
		l.Apply(engine.Upsert(oddRef, leaf{}))
		for _, id := range []string{"1", "2"} {
			seen = 0
			l.Deliver(oddRef, ask(id, "t", ""))
			l.Advance(time.Second)
			if seen != 1 {
				t.Errorf("event %s: %d seen", id, seen)
			}
		}
	})
}

// TestAReportReachesTheParent: with a turn of its own, and only when it changes.
func TestAReportReachesTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		parent := func(v engine.View[leaf, int]) engine.Decision {
			return engine.IsConverged(engine.NewReason("ok", "")).With(engine.Upsert(oddRef, leaf{}))
		}
		top := engine.Ref{Kind: "top", ID: "1"}
		l := reconciletest.NewLoop(t, oddKind(engine.Policy{}, func(v engine.View[leaf, int]) engine.Decision {
			return engine.IsConverged(engine.NewReason("ok", "")).WithReport(len(v.Events) / 2)
		}), reconcile.Of("top", odd{decide: parent, observe: func(r engine.Resource[leaf]) (int, error) {
			return 0, nil
		}}, engine.Policy{}), reconcile.Of("unused", odd{decide: asDesired}, engine.Policy{}))
		l.Apply(engine.Upsert(top, leaf{}))
		l.Advance(time.Second)
		l.WantPhase(top, engine.Converged)
		for i, want := range []string{"0", "1", "1", "2"} {
			before := l.Controller().Stats().Turns
			l.Deliver(oddRef, ask(string(rune('a'+i)), "t", ""))
			l.Advance(time.Second)
			turns := l.Controller().Stats().Turns - before
			e, err := l.Controller().Explain(t.Context(), top)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, string(e.Children[0].Report))
			if changed := i > 0 && heard[i] != heard[i-1]; heard[i] != want || turns != map[bool]int64{false: 1, true: 2}[changed] {
				t.Errorf("event %d: reports %v in %d turns, want %s", i, heard, turns, want)
			}
		}
	})
}
