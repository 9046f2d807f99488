package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
	"github.com/steadyfleet/steady/reconcile/storetest"
)

// TestContract holds the store to the contract of reconcile.Store. A file opened again is what
// the next process sees.
func TestContract(t *testing.T) {
	var files sync.Map
	storetest.Run(t, func(t *testing.T) reconcile.Store {
		file, again := files.LoadOrStore(t.Name(), filepath.Join(t.TempDir(), "test.db"))
		db := openDB(t, file.(string))
		s := sqlite.New(db)
		if !again {
			testkit.Must(t, inTx(t, db, func(tx *sql.Tx) error { return s.Migrate(t.Context(), tx) }))
		}
		return s
	})
}

func openDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := testkit.Value(sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func inTx(t *testing.T, db *sql.DB, f func(tx *sql.Tx) error) error {
	t.Helper()
	tx := testkit.Value(db.BeginTx(t.Context(), nil))(t)
	if err := f(tx); err != nil {
		testkit.Must(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func open(t *testing.T, opts ...sqlite.Option) (*sqlite.Store, *sql.DB) {
	t.Helper()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"))
	s := sqlite.New(db, opts...)
	testkit.Must(t, inTx(t, db, func(tx *sql.Tx) error { return s.Migrate(t.Context(), tx) }))
	return s, db
}

var (
	ref   = engine.Ref{Kind: "k", ID: "1"}
	cause = engine.Cause{Trigger: engine.TriggerOperator}
)

func TestOpenMigratesOnce(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"))
	s := testkit.Value(sqlite.Open(t.Context(), db))(t)
	testkit.Value(s.Apply(t.Context(), engine.Upsert(ref, 1), time.UnixMilli(10), cause))(t)
	again := testkit.Value(sqlite.Open(t.Context(), db))(t)
	if row, err := again.Get(t.Context(), ref); err != nil || row.Generation != 1 {
		t.Fatalf("%+v, %v", row, err)
	}
	testkit.Value(db.Exec("INSERT INTO reconcile_schema (version) VALUES (1000)"))(t)
	if _, err := sqlite.Open(t.Context(), db); err == nil || !strings.Contains(err.Error(), "run a newer one") {
		t.Fatalf("opened a schema of the future: %v", err)
	}
}

func TestApplyTxFollowsTheOwnersTransaction(t *testing.T) {
	var heard []string
	s, db := open(t, sqlite.WithOnTransition(func(ctx context.Context, tx *sql.Tx, tr engine.Transition) error {
		heard = append(heard, tr.Ref.String()+" "+string(tr.To))
		_, err := tx.ExecContext(ctx, "INSERT INTO mine (words) VALUES (?)", tr.Ref.String())
		return err
	}))
	testkit.Value(db.Exec("CREATE TABLE mine (words TEXT)"))(t)
	stop := errors.New("changed my mind")
	err := inTx(t, db, func(tx *sql.Tx) error {
		if _, err := s.ApplyTx(t.Context(), tx, engine.Upsert(ref, 1), time.UnixMilli(10), cause); err != nil {
			return err
		}
		if row, err := s.GetTx(t.Context(), tx, ref); err != nil || row.Phase != engine.Pending {
			t.Errorf("inside the transaction: %v, %v", row.Phase, err)
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), ref); !errors.Is(err, reconcile.ErrNotFound) {
		t.Fatalf("after a rollback: %v", err)
	}
	testkit.Must(t, inTx(t, db, func(tx *sql.Tx) error {
		_, err := s.ApplyTx(t.Context(), tx, engine.Upsert(ref, 1), time.UnixMilli(10), cause)
		return err
	}))
	var n int
	if err := db.QueryRow("SELECT count(*) FROM mine").Scan(&n); err != nil || n != 1 {
		t.Fatalf("the owner's table has %d rows, %v; want 1", n, err)
	}
	if len(heard) != 2 {
		t.Fatalf("heard %v", heard)
	}
}

func TestCallbackErrorRollsBack(t *testing.T) {
	full := errors.New("disk full")
	fail := false
	s, _ := open(t, sqlite.WithOnTransition(func(context.Context, *sql.Tx, engine.Transition) error {
		if fail {
			return full
		}
		return nil
	}))
	testkit.Value(s.Apply(t.Context(), engine.Upsert(ref, 1), time.UnixMilli(10), cause))(t)
	fail = true
	if _, err := s.Apply(t.Context(), engine.Upsert(ref, 2), time.UnixMilli(11), cause); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	if row, err := s.Get(t.Context(), ref); err != nil || row.Generation != 1 {
		t.Fatalf("generation %d, %v; want 1", row.Generation, err)
	}
}

func TestMigrate(t *testing.T) {
	s, db := open(t)
	if err := inTx(t, db, func(tx *sql.Tx) error { return s.Migrate(t.Context(), tx) }); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	testkit.Value(db.Exec("INSERT INTO reconcile_schema VALUES (99)"))(t)
	err := inTx(t, db, func(tx *sql.Tx) error { return s.Migrate(t.Context(), tx) })
	if err == nil || !strings.Contains(err.Error(), "run a newer one") {
		t.Fatalf("a schema from the future: %v", err)
	}
}
