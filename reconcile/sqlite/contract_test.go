package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

var (
	root   = engine.Ref{Kind: "root", ID: "r"}
	leafA  = engine.Ref{Kind: "leaf", ID: "a"}
	leafB  = engine.Ref{Kind: "leaf", ID: "b"}
	byHand = engine.Cause{Trigger: engine.TriggerOperator, ID: "test"}
	policy = engine.Policy{}.WithDefaults()
)

type kit struct {
	*testing.T
	ctx   context.Context
	store reconcile.Store
}

// TestContract holds the store to the contract of reconcile.Store.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(kit)
	}{
		{"an intent writes a row and its first transition", applies},
		{"an unknown ref is ErrNotFound", unknown},
		{"a commit with an old revision changes nothing", conflicts},
		{"a row survives unchanged in every field", keepsFields},
		{"children come in order and with their parent", loadsTree},
		{"a child of another parent is refused and nothing is written", ownership},
		{"raised triggers stay until they are acknowledged", outbox},
		{"terminal rows are not open", opens},
		{"lists filter", lists},
		{"history is trimmed but keeps the last of each phase", trims},
		{"a kind without history only announces", noHistory},
		{"purge removes what was retired long ago", purges},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, _ := open(t)
			c.run(kit{t, t.Context(), store})
		})
	}
}

// ms is so many milliseconds after the epoch.
func ms(n int64) time.Time { return time.UnixMilli(n).UTC() }

// storedRow is a row with all that is stored of it in the open.
type storedRow struct {
	Exported string
	State    string
}

func rowText(r engine.Row) storedRow {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return storedRow{string(raw), string(r.State())}
}

func (k kit) must(err error) { k.Helper(); testkit.Must(k.T, err) }

func (k kit) equal(got, want any) {
	k.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Transformer("State", rowText)); d != "" {
		k.Fatalf("(-want +got)\n%s", d)
	}
}

func (k kit) apply(in engine.Intent, now int64) engine.Change {
	k.Helper()
	ch, err := k.store.Apply(k.ctx, in, ms(now), byHand)
	k.must(err)
	return ch
}

func (k kit) load(ref engine.Ref) engine.Snapshot {
	k.Helper()
	s, err := k.store.Load(k.ctx, ref)
	k.must(err)
	return s
}

// turn commits the record of one decision on ref.
func (k kit) turn(ref engine.Ref, now int64, d engine.Decision) reconcile.Committed {
	k.Helper()
	s := k.load(ref)
	causes := engine.CausesOf(byHand)
	rec := engine.AfterDecide(engine.Input{Snap: &s, Policy: &policy, Causes: &causes, Now: ms(now)}, d, nil)
	c, err := k.store.Commit(k.ctx, rec)
	k.must(err)
	return c
}

func applies(k kit) {
	ch := k.apply(engine.Upsert(root, "one"), 10)
	k.equal(ch.Changed, true)
	k.equal(k.apply(engine.Upsert(root, "one"), 11).Changed, false)
	k.equal(k.apply(engine.Upsert(root, "two"), 12).Generation, int64(2))
	row, err := k.store.Get(k.ctx, root)
	k.must(err)
	k.equal([]any{string(row.Desired), row.Phase, row.Since(), row.Revision}, []any{`"two"`, engine.Pending, ms(12), int64(2)})
	hist, err := k.store.History(k.ctx, root, 0, 0)
	k.must(err)
	k.equal(len(hist), 2)
	k.equal(hist[0].Causes, []engine.Cause{byHand})
	k.equal([]engine.Phase{hist[0].From, hist[0].To, hist[1].From}, []engine.Phase{"", engine.Pending, engine.Pending})
	tail, err := k.store.History(k.ctx, root, 1, 1)
	k.must(err)
	k.equal(tail, hist[1:])
}

func unknown(k kit) {
	_, err := k.store.Load(k.ctx, root)
	k.equal(errors.Is(err, reconcile.ErrNotFound), true)
	_, err = k.store.Get(k.ctx, root)
	k.equal(errors.Is(err, reconcile.ErrNotFound), true)
	_, err = k.store.Commit(k.ctx, engine.Record{Row: engine.Row{Ref: root}})
	k.equal(errors.Is(err, reconcile.ErrConflict), true)
}

func conflicts(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	s := k.load(root)
	causes := engine.CausesOf(byHand)
	rec := engine.AfterDecide(engine.Input{Snap: &s, Policy: &policy, Causes: &causes, Now: ms(20)},
		engine.Wait(engine.NewReason("gate", "")).With(engine.Upsert(leafA, 1)), nil)
	k.apply(engine.Upsert(root, 2), 11)
	before := k.load(root)
	_, err := k.store.Commit(k.ctx, rec)
	k.equal(errors.Is(err, reconcile.ErrConflict), true)
	k.equal(k.load(root), before)
	_, err = k.store.Get(k.ctx, leafA)
	k.equal(errors.Is(err, reconcile.ErrNotFound), true)
}

func keepsFields(k kit) {
	k.apply(engine.Upsert(root, 1).WithOrder(3).WithNotAfter(ms(999)), 10)
	s := k.load(root)
	full := engine.Row{
		Ref: root, Created: s.Row.Created, Order: 3, Generation: 4, Revision: s.Row.Revision + 1,
		Desired: []byte(`{"a":[1,2]}`), Delete: true, Phase: engine.Failed, Reason: engine.NewReason("code", "words ∞ '"),
		Attempts: 8, ConvergedGen: 14, Transitions: s.Row.Transitions + 1,
	}
	k.must(full.SetState([]byte(`{"set":5,"convergeBy":4,"notAfter":6,"deleteBy":7,"steps":9,"retry":10,"action":"do {}","ok":true,"due":11,` +
		`"episode":12,"failed":13,"givenUp":true,"lives":2,"aborted":true,"escalated":15,"acked":16}`)))
	tr := engine.Transition{
		Ref: root, N: full.Transitions, Generation: 4, From: engine.Pending, To: engine.Failed, Attempt: 8, Reason: full.Reason,
		Action: "do {}", Error: "broken", Causes: []engine.Cause{byHand}, CauseCount: 9, At: ms(20), Duration: 21 * time.Millisecond, Escalated: true, Alert: true,
	}
	_, err := k.store.Commit(k.ctx, engine.Record{Write: true, Expect: s.Row.Revision, Row: full, Transitions: []engine.Transition{tr}, Now: ms(20)})
	k.must(err)
	k.equal(k.load(root).Row, full)
	hist, err := k.store.History(k.ctx, root, tr.N-1, 0)
	k.must(err)
	k.equal(hist, []engine.Transition{tr})
}

func loadsTree(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	c := k.turn(root, 20, engine.Wait(engine.NewReason("gate", "")).With(
		engine.Upsert(leafB, "b").WithOrder(2), engine.Upsert(leafA, "a").WithOrder(1)))
	k.equal(len(c.Transitions), 3) // the root waits, two children are born
	s := k.load(root)
	k.equal([]engine.Ref{s.Children[0].Ref, s.Children[1].Ref}, []engine.Ref{leafA, leafB})
	k.equal(s.Children[1].Created < s.Children[0].Created, true)
	child := k.load(leafA)
	k.equal(child.Parent.Ref, root)
	k.equal(child.Row.Parent, root)
}

func ownership(k kit) {
	other := engine.Ref{Kind: "root", ID: "other"}
	k.apply(engine.Upsert(root, 1), 10)
	k.apply(engine.Upsert(other, 1), 10)
	k.turn(root, 20, engine.Wait(engine.NewReason("gate", "")).With(engine.Upsert(leafA, "mine")))
	before, own := k.load(other), k.load(leafA)
	causes := engine.CausesOf(byHand)
	rec := engine.AfterDecide(engine.Input{Snap: &before, Policy: &policy, Causes: &causes, Now: ms(30)},
		engine.Wait(engine.NewReason("gate", "")).With(engine.Upsert(leafB, 1), engine.Upsert(leafA, "stolen")), nil)
	_, err := k.store.Commit(k.ctx, rec)
	var owned *engine.OwnerError
	k.equal(errors.As(err, &owned), true)
	k.equal(k.load(other), before)
	k.equal(k.load(leafA), own)
	_, err = k.store.Apply(k.ctx, engine.Delete(leafA), ms(40), byHand)
	k.equal(errors.As(err, &owned), true)
}

func outbox(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	c := k.turn(root, 20, engine.Wait(engine.NewReason("gate", "")).With(engine.Upsert(leafA, 1), engine.Upsert(leafB, 1)))
	k.equal(len(c.Raised), 2)
	o, err := k.store.Open(k.ctx)
	k.must(err)
	k.equal(o.Raised, c.Raised)
	k.equal(k.load(leafB).TriggerN, c.Raised[1].N)
	k.must(k.store.Ack(k.ctx, leafB, c.Raised[1].N))
	k.turn(leafA, 30, engine.IsConverged(engine.NewReason("ok", ""))) // acknowledges its own, raises the parent's
	o, err = k.store.Open(k.ctx)
	k.must(err)
	k.equal(len(o.Raised), 1)
	k.equal([]any{o.Raised[0].Ref, o.Raised[0].Cause}, []any{root, engine.Cause{Trigger: engine.TriggerChild, ID: "leaf/a#2"}})
}

func opens(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.apply(engine.Upsert(leafA, 1), 10)
	k.turn(root, 20, engine.Do(step{"go"}, engine.NewReason("absent", "")))
	k.apply(engine.Delete(leafA), 20)
	k.turn(leafA, 30, engine.IsConverged(engine.NewReason("gone", "")))
	o, err := k.store.Open(k.ctx)
	k.must(err)
	k.equal(o.Refs, []reconcile.OpenRef{{Ref: root, Acting: true}})
}

type step struct{ Name string }

func (s step) ActionName() string { return s.Name }

func lists(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.Wait(engine.NewReason("gate", "")).With(engine.Upsert(leafB, 1), engine.Upsert(leafA, 1)))
	for _, c := range []struct {
		f    reconcile.Filter
		want []engine.Ref
	}{
		{reconcile.Filter{}, []engine.Ref{leafA, leafB, root}},
		{reconcile.Filter{Kind: "leaf"}, []engine.Ref{leafA, leafB}},
		{reconcile.Filter{Parent: root}, []engine.Ref{leafA, leafB}},
		{reconcile.Filter{Phases: []engine.Phase{engine.Waiting, engine.Failed}}, []engine.Ref{root}},
	} {
		rows, err := k.store.List(k.ctx, c.f)
		k.must(err)
		var got []engine.Ref
		for _, r := range rows {
			got = append(got, r.Ref)
		}
		k.equal(got, c.want)
	}
}

func trims(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.IsConverged(engine.NewReason("ok", "")))
	for i := range 10 {
		k.turn(root, int64(30+i), engine.Wait(engine.NewReason(engine.Code("w"+string(rune('0'+i))), "")))
	}
	k.must(k.store.Trim(k.ctx, root, engine.History{Keep: 3}, ms(50)))
	hist, err := k.store.History(k.ctx, root, 0, 0)
	k.must(err)
	var ns []int64
	for _, t := range hist {
		ns = append(ns, t.N)
	}
	k.equal(ns, []int64{1, 2, 10, 11, 12})
	row, err := k.store.Get(k.ctx, root)
	k.must(err)
	k.equal(engine.Fold(hist), row.Status())
	k.must(k.store.Trim(k.ctx, root, engine.History{Keep: 50, Age: 5 * time.Millisecond}, ms(1000)))
	hist, err = k.store.History(k.ctx, root, 0, 0)
	k.must(err)
	k.equal(len(hist), 3) // the last of each phase
}

func noHistory(k kit) {
	k.apply(engine.Upsert(root, 1), 10)
	s := k.load(root)
	quiet := policy
	quiet.History.Keep = -1
	causes := engine.CausesOf(byHand)
	c, err := k.store.Commit(k.ctx, engine.AfterDecide(engine.Input{Snap: &s, Policy: &quiet, Causes: &causes, Now: ms(20)},
		engine.IsConverged(engine.NewReason("ok", "")), nil))
	k.must(err)
	k.equal(len(c.Transitions), 1)
	hist, err := k.store.History(k.ctx, root, 1, 0)
	k.must(err)
	k.equal(len(hist), 0)
}

func purges(k kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Upsert(leafB, 1), 10)
	k.apply(engine.Delete(leafA), 20)
	k.turn(leafA, 30, engine.IsConverged(engine.NewReason("gone", "")))
	n, err := k.store.Purge(k.ctx, "leaf", ms(30))
	k.must(err)
	k.equal(n, 0)
	n, err = k.store.Purge(k.ctx, "leaf", ms(31))
	k.must(err)
	k.equal(n, 1)
	rows, err := k.store.List(k.ctx, reconcile.Filter{})
	k.must(err)
	k.equal(len(rows), 1)
	hist, err := k.store.History(k.ctx, leafA, 0, 0)
	k.must(err)
	k.equal(len(hist), 0)
}
