package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// filled opens a database with 1 000 rows.
func filled(b *testing.B) *sqlite.Store {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	s := sqlite.New(db)
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Migrate(b.Context(), tx); err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		if _, err := s.ApplyTx(b.Context(), tx, engine.Upsert(benchRef(i), i), 1, cause); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func benchRef(i int) engine.Ref { return engine.Ref{Kind: "k", ID: fmt.Sprint(i % 1000)} }

// BenchmarkLoad reads one of 1 000 rows with its parent and children: the whole
// cost of a turn that finds nothing to do, besides observing.
func BenchmarkLoad(b *testing.B) {
	s := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Load(b.Context(), benchRef(i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommit writes a row and one transition, without waiting for the disk.
func BenchmarkCommit(b *testing.B) {
	s := filled(b)
	policy := engine.Policy{}.WithDefaults()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		snap, err := s.Load(b.Context(), benchRef(i))
		if err != nil {
			b.Fatal(err)
		}
		causes := engine.CausesOf(cause)
		d := engine.Wait(0, engine.Because("waiting", fmt.Sprint(i)))
		rec := engine.Turn(engine.Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: engine.Instant(i)}, d, engine.Hold{})
		if _, err := s.Commit(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadChild reads one of 100 children of a parent that declares much.
func BenchmarkLoadChild(b *testing.B) {
	s := filled(b)
	parent := engine.Ref{Kind: "p", ID: "all"}
	if _, err := s.Apply(b.Context(), engine.Upsert(parent, strings.Repeat("x", 80_000)), 1, cause); err != nil {
		b.Fatal(err)
	}
	snap, err := s.Load(b.Context(), parent)
	if err != nil {
		b.Fatal(err)
	}
	child := func(i int) engine.Ref { return engine.Ref{Kind: "c", ID: fmt.Sprint(i % 100)} }
	var intents []engine.Intent
	for i := range 100 {
		intents = append(intents, engine.Upsert(child(i), strings.Repeat("y", 700)))
	}
	policy, causes := engine.Policy{}.WithDefaults(), engine.CausesOf(cause)
	d := engine.Wait(0, engine.Because("waiting", "")).With(intents...)
	if _, err := s.Commit(b.Context(), engine.Turn(engine.Input{Snap: &snap, Policy: &policy, Causes: &causes, Now: 2}, d, engine.Hold{})); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Load(b.Context(), child(i)); err != nil {
			b.Fatal(err)
		}
	}
}
