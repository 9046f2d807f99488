package storetest

import (
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func applies(k *kit) {
	equal(k, k.apply(engine.Upsert(root, "one"), 10).Changed, true)
	equal(k, k.apply(engine.Upsert(root, "one"), 11).Changed, false)
	equal(k, k.apply(engine.Upsert(root, "two"), 12).Generation, 2)
	row, err := k.store.Get(k.ctx, root)
	k.must(err)
	equal(k, []any{string(row.Desired), row.Phase, row.Since(), row.Revision}, []any{`"two"`, engine.Pending, ms(12), int64(2)})
	h := k.history(root)
	equal(k, len(h), 2)
	equal(k, h[0].Causes, []engine.Cause{byHand})
	equal(k, []engine.Phase{h[0].From, h[0].To, h[1].From}, []engine.Phase{"", engine.Pending, engine.Pending})
	tail, err := k.store.History(k.ctx, root, 1, 1)
	k.must(err)
	equal(k, tail, h[1:])
}

func unknown(k *kit) {
	_, err := k.store.Load(k.ctx, root)
	k.is(err, reconcile.ErrNotFound)
	_, err = k.store.Get(k.ctx, root)
	k.is(err, reconcile.ErrNotFound)
	_, err = k.store.Commit(k.ctx, engine.Record{Row: engine.Row{Ref: root}})
	k.is(err, reconcile.ErrConflict)
	k.must(k.store.Ack(k.ctx, root, 7))
	equal(k, len(k.history(root)), 0)
}

func conflicts(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	rec := decided(k.load(root), policy, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, 1)))
	k.apply(engine.Upsert(root, 2), 11)
	before := k.load(root)
	_, err := k.store.Commit(k.ctx, rec)
	k.is(err, reconcile.ErrConflict)
	equal(k, k.load(root), before)
	_, err = k.store.Get(k.ctx, leafA)
	k.is(err, reconcile.ErrNotFound)
}

func keepsFields(k *kit) {
	k.apply(engine.Upsert(root, 1).WithOrder(3).WithNotAfter(ms(999)), 10)
	s := k.load(root)
	full := engine.Row{
		Ref: root, Created: s.Row.Created, Order: 3, Generation: 4, Revision: s.Row.Revision + 1,
		Desired: []byte(`{"a":[1,2]}`), Delete: true, Phase: engine.Failed, Reason: engine.NewReason("code", "words ∞ '"),
		Attempts: 8, ConvergedGen: 14, Transitions: s.Row.Transitions + 1,
	}
	k.must(full.SetState([]byte(`{"set":5,"convergeBy":4,"notAfter":6,"deleteBy":7,"steps":9,"retry":10,"action":"do {}","ok":true,"due":11,` +
		`"episode":12,"failed":13,"givenUp":true,"lives":2,"aborted":true,"escalated":15,"acked":16,"known":17,"report":"[1]","handled":18}`)))
	tr := engine.Transition{
		Ref: root, N: full.Transitions, Generation: 4, From: engine.Pending, To: engine.Failed, Attempt: 8, Reason: full.Reason,
		Action: "do {}", Error: "broken", Causes: []engine.Cause{byHand}, CauseCount: 9, At: ms(20), Duration: 21 * time.Millisecond, Escalated: true, Alert: true,
	}
	_, err := k.store.Commit(k.ctx, engine.Record{Write: true, Expect: s.Row.Revision, Row: full, Transitions: []engine.Transition{tr}, Now: ms(20)})
	k.must(err)
	equal(k, k.load(root).Row, full)
	h, err := k.store.History(k.ctx, root, tr.N-1, 0)
	k.must(err)
	equal(k, h, []engine.Transition{tr})
}

type step struct{ Name string }

func (s step) ActionName() string { return s.Name }

func opens(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.apply(engine.Upsert(leafA, 1), 10)
	k.turn(root, 20, engine.Do(step{"go"}, because("absent")))
	k.gone(leafA, 30)
	equal(k, k.opened().Refs, []reconcile.OpenRef{{Ref: root, Acting: true}})
}

func lists(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafB, 1), engine.Upsert(leafA, 1)))
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
		equal(k, refs(rows), c.want)
	}
}

func acknowledges(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	_, err := k.store.Apply(k.ctx, engine.Acknowledge(root, "early"), ms(15), byHand)
	if err == nil {
		k.Fatal("acknowledged what has no alert")
	}
	k.turn(root, 20, engine.Fail(because("broken")))
	failed := k.load(root).Row
	equal(k, failed.Alerts(), true)
	k.apply(engine.Acknowledge(root, "seen"), 30)
	k.reopen()
	known := k.load(root).Row
	equal(k, []any{known.Alerts(), known.Status(), known.Generation}, []any{false, failed.Status(), failed.Generation})
	h := k.history(root)
	last := h[len(h)-1]
	equal(k, []any{last.From, last.To, last.Action, last.Causes}, []any{engine.Failed, engine.Failed, `acknowledge "seen"`, []engine.Cause{byHand}})
	if _, err := k.store.Apply(k.ctx, engine.Acknowledge(root, "twice"), ms(40), byHand); err == nil {
		k.Fatal("acknowledged twice")
	}
	k.apply(engine.Retry(root), 50)
	k.turn(root, 60, engine.Fail(because("broken")))
	again := k.load(root).Row
	equal(k, again.Alerts(), true)
}
