package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// filled opens a database with 1 000 rows.
func filled(b *testing.B) *sqlite.Store {
	b.Helper()
	db := testkit.Value(sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(off)"))(b)
	b.Cleanup(func() { _ = db.Close() })
	s := sqlite.New(db)
	tx := testkit.Value(db.Begin())(b)
	testkit.Must(b, s.Migrate(b.Context(), tx))
	for i := range 1000 {
		testkit.Value(s.ApplyTx(b.Context(), tx, engine.Upsert(benchRef(i), i), time.UnixMilli(1), cause))(b)
	}
	testkit.Must(b, tx.Commit())
	testkit.Value(s.Open(b.Context()))(b)
	return s
}

func benchRef(i int) engine.Ref { return engine.Ref{Kind: "k", ID: fmt.Sprint(i % 1000)} }

// BenchmarkLoad reads one of 1 000 rows with its parent and children: the whole
// cost of a turn that finds nothing to do, besides observing.
func BenchmarkLoad(b *testing.B) {
	s := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		testkit.Value(s.Load(b.Context(), benchRef(i)))(b)
	}
}

// BenchmarkCommit writes a row and one transition, without waiting for the disk.
func BenchmarkCommit(b *testing.B) {
	s := filled(b)
	policy := engine.Policy{}.WithDefaults()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		snap := testkit.Value(s.Load(b.Context(), benchRef(i)))(b)
		causes := engine.CausesOf(cause)
		d := engine.Wait(engine.NewReason("waiting", fmt.Sprint(i)))
		rec := engine.AfterDecide(engine.Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: time.UnixMilli(int64(i))}, d, nil)
		testkit.Value(s.Commit(b.Context(), rec))(b)
	}
}

// BenchmarkLoadChild reads one of 100 children of a parent that declares much.
func BenchmarkLoadChild(b *testing.B) {
	s := filled(b)
	parent := engine.Ref{Kind: "p", ID: "all"}
	testkit.Value(s.Apply(b.Context(), engine.Upsert(parent, strings.Repeat("x", 80_000)), time.UnixMilli(1), cause))(b)
	snap := testkit.Value(s.Load(b.Context(), parent))(b)
	child := func(i int) engine.Ref { return engine.Ref{Kind: "c", ID: fmt.Sprint(i % 100)} }
	var intents []engine.Intent
	for i := range 100 {
		intents = append(intents, engine.Upsert(child(i), strings.Repeat("y", 700)))
	}
	policy, causes := engine.Policy{}.WithDefaults(), engine.CausesOf(cause)
	d := engine.Wait(engine.NewReason("waiting", "")).With(intents...)
	testkit.Value(s.Commit(b.Context(), engine.AfterDecide(engine.Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: time.UnixMilli(2)}, d, nil)))(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		testkit.Value(s.Load(b.Context(), child(i)))(b)
	}
}
