package storetest

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/reconcile/engine"
)

func loadsTree(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	c := k.turn(root, 20, engine.Wait(because("gate")).With(
		engine.Upsert(leafB, "b").WithOrder(2), engine.Upsert(leafA, "a").WithOrder(1)))
	equal(k, len(c.Transitions), 3) // the root waits, two children are born
	s := k.load(root)
	equal(k, refs(s.Children), []engine.Ref{leafA, leafB})
	equal(k, s.Children[1].Created < s.Children[0].Created, true)
	child := k.load(leafA)
	equal(k, child.Parent.Ref, root)
	equal(k, child.Row.Parent, root)
}

// forgetsDeleted: what is deleted stays for its retention, and its parent's load has nothing of it.
func forgetsDeleted(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, "a")))
	cost := func() float64 { return testing.AllocsPerRun(10, func() { k.load(root) }) }
	before := cost()
	const many = 200
	child := func(i int) engine.Ref { return engine.Ref{Kind: "leaf", ID: "old-" + strconv.Itoa(i)} }
	var make, remove []engine.Intent
	for i := range many {
		make, remove = append(make, engine.Upsert(child(i), i)), append(remove, engine.Delete(child(i)))
	}
	k.turn(root, 30, engine.Wait(because("gate")).With(make...))
	equal(k, len(k.load(root).Children), many+1)
	k.turn(root, 40, engine.Wait(because("gate")).With(remove...))
	for i := range many {
		k.turn(child(i), 50, engine.IsConverged(because("gone")))
	}
	k.must(k.store.Ack(k.ctx, root, k.load(root).TriggerN))
	equal(k, refs(k.load(root).Children), []engine.Ref{leafA})
	if after := cost(); after > before+before/2 {
		k.Fatalf("a load takes %.0f allocations with %d deleted children, and %.0f without", after, many, before)
	}
	equal(k, k.load(child(7)).Row.Phase, engine.Deleted) // and is still there
	// One that is wanted again is a child as before.
	k.turn(root, 60, engine.Wait(because("gate")).With(engine.Upsert(child(7), "new")))
	equal(k, refs(k.load(root).Children), []engine.Ref{leafA, child(7)})
	equal(k, k.load(child(7)).Row.Generation, int64(3))
}

func ownership(k *kit) {
	other := engine.Ref{Kind: "root", ID: "other"}
	k.apply(engine.Upsert(root, 1), 10)
	k.apply(engine.Upsert(other, 1), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, "mine")))
	before, own := k.load(other), k.load(leafA)
	rec := decided(before, policy, 30, engine.Wait(because("gate")).With(engine.Upsert(leafB, 1), engine.Upsert(leafA, "stolen")))
	_, err := k.store.Commit(k.ctx, rec)
	var owned *engine.OwnerError
	equal(k, errors.As(err, &owned), true)
	equal(k, k.load(other), before)
	equal(k, k.load(leafA), own)
	_, err = k.store.Apply(k.ctx, engine.Delete(leafA), ms(40), byHand)
	equal(k, errors.As(err, &owned), true)
}

func outbox(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	c := k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, 1), engine.Upsert(leafB, 1)))
	equal(k, len(c.Raised), 2)
	equal(k, k.opened().Raised, c.Raised)
	equal(k, k.load(leafB).TriggerN, c.Raised[1].N)
	k.must(k.store.Ack(k.ctx, leafB, c.Raised[1].N))
	k.turn(leafA, 30, engine.IsConverged(because("ok"))) // acknowledges its own, raises the parent's
	k.reopen()
	o := k.opened()
	equal(k, len(o.Raised), 1)
	equal(k, []any{o.Raised[0].Ref, o.Raised[0].Cause}, []any{root, engine.Cause{Trigger: engine.TriggerChild, ID: "leaf/a#2"}})
	// A trigger that comes while a turn runs is not acknowledged by it.
	s := k.load(root)
	k.turn(leafA, 40, engine.Fail(because("broken")))
	_, err := k.store.Commit(k.ctx, decided(s, policy, 50, engine.Wait(because("later"))))
	k.must(err)
	equal(k, len(k.opened().Raised), 1)
}

func reports(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	k.turn(root, 20, engine.Wait(because("gate")).With(engine.Upsert(leafA, 1)))
	k.turn(leafA, 30, engine.Wait(because("starts")))
	k.must(k.store.Ack(k.ctx, root, k.load(root).TriggerN))
	report := func(d engine.Decision, now int64, want string, told bool) {
		k.Helper()
		equal(k, len(k.turn(leafA, now, d).Raised) > 0, told)
		k.reopen()
		s := k.load(root)
		view := s.Children[0].ChildView()
		equal(k, string(view.Report), want)
		equal(k, s.TriggerN != 0, told)
		k.must(k.store.Ack(k.ctx, root, s.TriggerN))
	}
	wait := engine.Wait(because("starts"))
	report(wait.WithReport(map[string]string{"addr": "<a>"}), 40, text(json.RawMessage(`{"addr":"<a>"}`)), true)
	report(wait.WithReport(map[string]string{"addr": "<a>"}), 50, text(json.RawMessage(`{"addr":"<a>"}`)), false)
	report(wait.WithReport(2), 60, "2", true)
	report(wait, 70, "2", false)
	report(engine.Do(step{"go"}, because("absent")), 80, "2", true) // it acts, which its parent has a turn for
	report(wait.WithReport(nil), 90, "", true)
	report(wait.WithReport(3), 100, "3", true)
	report(engine.IsConverged(because("ok")), 110, "", true)
}
