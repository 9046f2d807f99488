package storetest

import (
	"encoding/json"
	"errors"

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
	report(wait, 70, "", true)
}
