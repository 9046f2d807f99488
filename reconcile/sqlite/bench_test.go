package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"

	"database/sql"
	"path/filepath"
)

// BenchmarkLoad reads one of 1 000 rows with its parent and children: the whole
// cost of a turn that finds nothing to do, besides observing.
func BenchmarkLoad(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s := sqlite.New(db)
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Migrate(b.Context(), tx); err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		if _, err := s.ApplyTx(b.Context(), tx, engine.Upsert(engine.Ref{Kind: "k", ID: fmt.Sprint(i)}, i), 1, cause); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Load(b.Context(), engine.Ref{Kind: "k", ID: fmt.Sprint(i % 1000)}); err != nil {
			b.Fatal(err)
		}
	}
}
