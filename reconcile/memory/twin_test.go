package memory_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

var (
	refs   = []engine.Ref{{Kind: "k", ID: "a"}, {Kind: "k", ID: "b"}, {Kind: "l", ID: "a"}, {Kind: "l", ID: "b"}}
	cause  = engine.Cause{Trigger: engine.TriggerOperator, ID: "test"}
	policy = engine.Policy{}.WithDefaults()
)

func at(n int64) time.Time { return time.UnixMilli(n).UTC() }

func decided(s engine.Snapshot, now int64, d engine.Decision) engine.Record {
	causes := engine.CausesOf(cause)
	in := engine.Input{Snap: &s, Policy: &policy, Causes: &causes, Now: at(now)}
	if rec, step := engine.BeforeObserve(in); step != engine.Proceed {
		return rec
	}
	return engine.AfterDecide(in, d, nil)
}

// shown is all that a store shows.
func shown(t testkit.T, s reconcile.Store) string {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	opened, err := s.Open(ctx)
	check(err)
	rows, err := s.List(ctx, reconcile.Filter{})
	check(err)
	out := fmt.Sprintf("%+v\n", opened)
	for _, r := range rows {
		snap, err := s.Load(ctx, r.Ref)
		check(err)
		h, err := s.History(ctx, r.Ref, 0, 0)
		check(err)
		raw, err := json.Marshal([]any{snap.Row, snap.TriggerN, len(snap.Children), len(snap.Events), h})
		check(err)
		out += fmt.Sprintf("%s %s %s\n", raw, snap.Row.State(), r.State())
		for _, e := range snap.Events {
			out += fmt.Sprintf("  event %d %s %s %s\n", e.N, e.ID, e.At, e.Data)
		}
	}
	return out
}

type poke struct{ N int }

func (poke) ActionName() string { return "poke" }

func anyDecision(t *rapid.T, s engine.Snapshot) engine.Decision {
	why := engine.NewReason("r", rapid.SampledFrom([]string{"", "<&> ∞"}).Draw(t, "words"))
	d := rapid.SampledFrom([]engine.Decision{
		engine.IsConverged(why), engine.Do(poke{1}, why), engine.Wait(why), engine.WaitUntil(at(5000), why), engine.Fail(why),
	}).Draw(t, "decision")
	if rapid.Bool().Draw(t, "reports") {
		d = d.WithReport(map[string]string{"<": rapid.StringN(0, 3, -1).Draw(t, "report")})
	}
	if n := len(s.Events); n > 0 && rapid.Bool().Draw(t, "handles") {
		d = d.WithHandled(s.Events[rapid.IntRange(0, n-1).Draw(t, "event")].N)
	}
	for _, ref := range refs[2:] {
		if s.Row.Ref.Kind == "k" && rapid.Bool().Draw(t, "child") {
			d = d.With(rapid.SampledFrom([]engine.Intent{engine.Upsert(ref, 1), engine.Upsert(ref, 2).WithOrder(1), engine.Delete(ref)}).Draw(t, "intent"))
		}
	}
	return d
}

// randomCall is one call, made of every store alike; it returns what the store answered.
func randomCall(t *rapid.T, s reconcile.Store, now int64) func(reconcile.Store) string {
	ctx := context.Background()
	ref := rapid.SampledFrom(refs).Draw(t, "ref")
	snap, err := s.Load(ctx, ref)
	switch what := rapid.SampledFrom([]string{"apply", "turn", "turn", "turn", "ack", "deliver", "trim", "purge"}).Draw(t, "call"); {
	case what == "turn" && err == nil:
		rec := decided(snap, now, anyDecision(t, snap))
		if rapid.IntRange(0, 9).Draw(t, "late") == 0 {
			rec.Expect--
		}
		return func(s reconcile.Store) string {
			out, err := s.Commit(ctx, rec)
			return fmt.Sprintf("%+v %v", out, err)
		}
	case what == "ack":
		return func(s reconcile.Store) string { return fmt.Sprint(s.Ack(ctx, ref, snap.TriggerN)) }
	case what == "deliver":
		e := engine.Event{
			Source: rapid.SampledFrom([]string{"", "s", "<s>"}).Draw(t, "source"), ID: rapid.StringN(0, 2, -1).Draw(t, "id"), Type: "t",
			Data: rapid.SampledFrom([]json.RawMessage{nil, []byte(`{"a":1}`), []byte(`{ "a": "<" }`)}).Draw(t, "data"),
		}
		return func(s reconcile.Store) string {
			r, err := s.Deliver(ctx, ref, e, at(now))
			return fmt.Sprintf("%+v %v", r, err)
		}
	case what == "trim":
		h := engine.History{Keep: rapid.IntRange(-1, 5).Draw(t, "keep"), Age: time.Duration(rapid.IntRange(0, 50).Draw(t, "age")) * time.Millisecond}
		return func(s reconcile.Store) string { return fmt.Sprint(s.Trim(ctx, ref, h, at(now))) }
	case what == "purge":
		return func(s reconcile.Store) string {
			n, err := s.Purge(ctx, ref.Kind, at(now))
			return fmt.Sprint(n, err)
		}
	}
	in := rapid.SampledFrom([]engine.Intent{
		engine.Upsert(ref, "<1>"), engine.Upsert(ref, 2), engine.Upsert(ref, 2).WithNotAfter(at(now + 20)),
		engine.Delete(ref), engine.Retry(ref), engine.Acknowledge(ref, "\"known\""),
	}).Draw(t, "intent")
	return func(s reconcile.Store) string {
		ch, err := s.Apply(ctx, in, at(now), cause)
		return fmt.Sprintf("%+v %v", ch, err)
	}
}

// TestJournalledWritesAreTheStore: a store folded from the encoded writes of another one is its
// copy after every call.
func TestJournalledWritesAreTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &reconciletest.Journal{}
		s, err := j.Open()
		for now := range int64(rapid.IntRange(1, 40).Draw(t, "calls")) {
			if err == nil {
				randomCall(t, s, 10*now+1)(s)
			}
			twin, failed := j.Open()
			if err != nil || failed != nil {
				t.Fatalf("%v, %v", err, failed)
			}
			if a, b := shown(t, s), shown(t, twin); a != b {
				t.Fatalf("the copy shows\n%s\nthe store\n%s", b, a)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				s = twin
			}
		}
	})
}

// TestAgreesWithSQLite: two implementations of one contract answer alike.
func TestAgreesWithSQLite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "agree")
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer os.RemoveAll(dir)
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer db.Close()
		stores := []reconcile.Store{memory.New(), migrated(t, db)}
		for now := range int64(rapid.IntRange(1, 30).Draw(t, "calls")) {
			call := randomCall(t, stores[0], 10*now+1)
			if a, b := call(stores[0]), call(stores[1]); a != b {
				t.Fatalf("memory answers\n%s\nSQLite\n%s", a, b)
			}
			if a, b := shown(t, stores[0]), shown(t, stores[1]); a != b {
				t.Fatalf("memory shows\n%s\nSQLite\n%s", a, b)
			}
		}
	})
}

func migrated(t *rapid.T, db *sql.DB) *sqlite.Store {
	s := sqlite.New(db)
	tx, err := db.Begin()
	if err == nil {
		err = s.Migrate(context.Background(), tx)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}
