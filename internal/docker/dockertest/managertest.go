package dockertest

// This file takes turns of one reconciler without the loop, so that a
// test sees each decision and each act.

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of Rows

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// Rows is an empty store of rows that lasts as long as the test.
func Rows(t testing.TB) *sqlite.Store {
	t.Helper()
	db := testkit.Value(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	rows := sqlite.New(db)
	tx := testkit.Value(db.BeginTx(t.Context(), nil))(t)
	testkit.Must(t, rows.Migrate(t.Context(), tx))
	testkit.Must(t, tx.Commit())
	return rows
}

// Row is one resource under a reconciler.
type Row[D, O any] struct {
	Manager  reconcile.Reconciler[D, O]
	Resource engine.Resource[D]
	Now      time.Time
}

// Turn is what came of taking turns.
type Turn struct {
	Name   string        // converged, wait, fail or error
	Reason engine.Reason // of the last decision
	Acts   []string      // names of the actions taken
	Err    error         // of Observe or Act
}

// New is a row of a kind and name that wants d.
func New[D, O any](m reconcile.Reconciler[D, O], kind, name string, d D) *Row[D, O] {
	return &Row[D, O]{Manager: m, Now: time.UnixMilli(1000).UTC(), Resource: engine.Resource[D]{Ref: engine.Ref{Kind: kind, ID: name}, Generation: 1, Desired: d}}
}

// Want changes what is desired.
func (r *Row[D, O]) Want(d D) *Row[D, O] {
	r.Resource.Desired = d
	r.Resource.Generation++
	return r
}

// Delete makes absence desired.
func (r *Row[D, O]) Delete() *Row[D, O] {
	r.Resource.Delete = true
	r.Resource.Generation++
	return r
}

// most bounds the acts of one Finish.
const most = 8

// Finish takes turns until a decision is not to act, or something fails. A
// decision that is not the same the second time, or changes what it was given,
// fails the test.
func (r *Row[D, O]) Finish(t testing.TB, ctx context.Context) Turn {
	t.Helper()
	var out Turn
	for {
		r.Now = r.Now.Add(time.Second)
		o, err := r.Manager.Observe(ctx, r.Resource)
		if err != nil {
			out.Name, out.Err = "error", err
			return out
		}
		d := r.decide(t, o)
		out.Name, out.Reason = d.Name(), d.Reason()
		if d.Action() == nil {
			if out.Name == "converged" {
				r.Resource.Status.ConvergedGeneration = r.Resource.Generation
			}
			return out
		}
		if len(out.Acts) == most {
			t.Fatalf("does not come to rest: %v, and then %s (%s)", out.Acts, d.Action().ActionName(), d.Reason())
		}
		out.Acts = append(out.Acts, d.Action().ActionName())
		if err := r.Manager.Act(ctx, r.Resource, d.Action()); err != nil {
			out.Name, out.Err = "error", err
			return out
		}
	}
}

func (r *Row[D, O]) decide(t testing.TB, o O) engine.Decision {
	t.Helper()
	v := engine.View[D, O]{Resource: r.Resource, Observed: o, Now: r.Now}
	before := encode(t, v)
	d := r.Manager.Decide(v)
	again := r.Manager.Decide(v)
	if d.Name() != again.Name() || d.Reason() != again.Reason() || encode(t, d.Action()) != encode(t, again.Action()) {
		t.Fatalf("one view, two decisions: %s and %s", d.Reason(), again.Reason())
	}
	if diff := cmp.Diff(before, encode(t, v)); diff != "" {
		t.Fatalf("Decide changed its view: %s", diff)
	}
	return d
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text := testkit.Value(json.Marshal(v))(t)
	return string(text)
}

// Must fails the test unless it ended with this decision, code and acts.
func (x Turn) Must(t testing.TB, name string, code engine.Code, acts ...string) Turn {
	t.Helper()
	if x.Name != name || x.Err == nil && x.Reason.Code != code || cmp.Diff(acts, x.Acts) != "" && len(acts)+len(x.Acts) > 0 {
		t.Fatalf("ended with %s (%s) after %v, error %v; expected %s (%s) after %v", x.Name, x.Reason, x.Acts, x.Err, name, code, acts)
	}
	return x
}
