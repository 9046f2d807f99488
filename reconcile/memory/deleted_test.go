package memory_test

import (
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// TestAHundredThousandDeletedChildren: a parent loads as quickly with as many deleted children as
// without, from both stores.
func TestAHundredThousandDeletedChildren(t *testing.T) {
	const many = 100_000
	parent, child := engine.Ref{Kind: "k", ID: "p"}, engine.Ref{Kind: "l", ID: "c"}
	// once has a parent with one deleted child.
	once := func(s reconcile.Store) engine.Row {
		ctx := t.Context()
		testkit.Value(s.Apply(ctx, engine.Upsert(parent, 1), at(1), cause))(t)
		for i, in := range []engine.Intent{engine.Upsert(child, 1), engine.Delete(child)} {
			snap := testkit.Value(s.Load(ctx, parent))(t)
			testkit.Value(s.Commit(ctx, decided(snap, int64(10+i), engine.Wait(engine.NewReason("w", "")).With(in))))(t)
		}
		snap := testkit.Value(s.Load(ctx, child))(t)
		testkit.Value(s.Commit(ctx, decided(snap, 20, engine.IsConverged(engine.NewReason("gone", "")))))(t)
		testkit.Must(t, s.Ack(ctx, parent, 100))
		return testkit.Value(s.Get(ctx, child))(t)
	}
	quickest := func(s reconcile.Store) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range 20 {
			began := time.Now()
			if snap := testkit.Value(s.Load(t.Context(), parent))(t); len(snap.Children) != 0 {
				t.Fatalf("the parent has %d children, want none that is not deleted", len(snap.Children))
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	check := func(name string, s reconcile.Store, fill func(engine.Row)) {
		row := once(s)
		before := quickest(s)
		fill(row)
		if rows := testkit.Value(s.List(t.Context(), reconcile.Filter{Kind: "l"}))(t); len(rows) < many {
			t.Fatalf("%s: %d children, want %d", name, len(rows), many)
		}
		if after := quickest(s); after > 20*before+time.Millisecond {
			t.Errorf("%s: a load takes %s with %d deleted children, and %s with one", name, after, many, before)
		}
	}
	mem := memory.New()
	check("memory", mem, func(row engine.Row) {
		var w memory.Write
		for i := range many {
			row.Ref.ID, row.Created = fmt.Sprint("old-", i), int64(10+i)
			w.Rows = append(w.Rows, engine.StoredRow{Row: row, State: row.State()})
		}
		testkit.Must(t, mem.Fold(w))
	})
	db := testkit.Value(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "rows.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(off)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	check("sqlite", testkit.Value(sqlite.Open(t.Context(), db))(t), func(engine.Row) {
		const columns = `parent_kind, parent_id, ord, generation, revision, deleting, phase, code, message, attempts, converged_gen, transitions, since, state, desired`
		testkit.Value(db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
			INSERT INTO reconcile_resource (kind, id, created, `+columns+`)
			SELECT kind, 'old-' || i, 10 + i, `+columns+` FROM reconcile_resource, n WHERE kind = 'l'`, many))(t)
	})
}
