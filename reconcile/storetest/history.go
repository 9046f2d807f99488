package storetest

import (
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func trims(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.IsConverged(because("ok")))
	for i := range 10 {
		k.turn(root, int64(30+i), engine.Wait(because(engine.Code("w"+string(rune('0'+i))))))
	}
	k.must(k.store.Trim(k.ctx, root, engine.History{Keep: 3}, ms(50)))
	k.reopen()
	h := k.history(root)
	var ns []int64
	for _, t := range h {
		ns = append(ns, t.N)
	}
	equal(k, ns, []int64{1, 2, 10, 11, 12})
	row, err := k.store.Get(k.ctx, root)
	k.must(err)
	equal(k, engine.Fold(h), row.Status())
	k.must(k.store.Trim(k.ctx, root, engine.History{Keep: 50, Age: 5 * time.Millisecond}, ms(1000)))
	equal(k, len(k.history(root)), 3) // the last of each phase
}

func noHistory(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	quiet := policy
	quiet.History.Keep = -1
	c, err := k.store.Commit(k.ctx, decided(k.load(root), quiet, 20, engine.IsConverged(because("ok"))))
	k.must(err)
	equal(k, len(c.Transitions), 1)
	equal(k, len(k.history(root)), 1)
}

func (k *kit) purge(kind string, before int64, want int) {
	k.Helper()
	n, err := k.store.Purge(k.ctx, kind, ms(before))
	k.must(err)
	equal(k, n, want)
}

func purges(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Upsert(leafB, 1), 10)
	k.gone(leafA, 30)
	k.purge("leaf", 30, 0)
	k.purge("root", 31, 0)
	k.purge("leaf", 31, 1)
	k.reopen()
	rows, err := k.store.List(k.ctx, reconcile.Filter{})
	k.must(err)
	equal(k, refs(rows), []engine.Ref{leafB})
	equal(k, len(k.history(leafA)), 0)
	equal(k, k.apply(engine.Upsert(leafA, 1), 40).Generation, 1)
	equal(k, k.load(leafA).Row.Created > k.load(leafB).Row.Created, true)
}

func purgesFromBelow(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, 1)))
	k.turn(root, 30, engine.Wait(because("gate")).With(engine.Delete(leafA)))
	k.turn(leafA, 40, engine.IsConverged(because("gone")))
	k.gone(root, 50)
	k.purge("root", 60, 0)
	k.purge("leaf", 60, 1)
	k.purge("root", 60, 1)
}

// purgesTriggers: nobody would ever acknowledge what was raised for a row that is gone.
func purgesTriggers(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Delete(leafA), 20)
	s := k.load(leafA)
	k.deliver(leafA, event("late", ""), 25)
	_, err := k.store.Commit(k.ctx, decided(s, policy, 30, engine.IsConverged(because("gone"))))
	k.must(err)
	equal(k, len(k.opened().Raised), 1)
	k.purge("leaf", 40, 1)
	k.reopen()
	equal(k, len(k.opened().Raised), 0)
}

// reopens compares all that a store shows of a life before and after.
func reopens(k *kit) {
	k.apply(engine.Upsert(root, 1).WithNotAfter(ms(10_000)), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, 1), engine.Upsert(leafB, 2).WithOrder(1)))
	k.turn(leafA, 30, engine.Do(step{"go"}, because("absent")))
	k.deliver(leafB, event("1", `{"done": true}`), 35)
	k.turn(leafB, 40, engine.Fail(because("broken")).WithReport(3))
	before := k.everything()
	k.reopen()
	equal(k, k.everything(), before)
	k.turn(root, 50, engine.IsConverged(because("ok")))
	equal(k, k.load(root).Row.Revision, 3)
}

func (k *kit) everything() []string {
	k.Helper()
	rows, err := k.store.List(k.ctx, reconcile.Filter{})
	k.must(err)
	out := []string{text(k.opened())}
	for _, r := range rows {
		out = append(out, text(k.load(r.Ref)), text(k.history(r.Ref)))
	}
	return out
}
