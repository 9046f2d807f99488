package storetest

import (
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func event(id, data string) engine.Event {
	return engine.Event{Source: "/test", ID: id, Type: "done", Data: []byte(data)}
}

func (k *kit) deliver(ref engine.Ref, e engine.Event, now int64) engine.Raise {
	k.Helper()
	r, err := k.store.Deliver(k.ctx, ref, e, ms(now))
	k.must(err)
	return r
}

// ids are the ids of events.
func ids(es []engine.Event) (out []string) {
	for _, e := range es {
		out = append(out, e.ID)
	}
	return out
}

func delivers(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Upsert(leafB, 1), 10)
	first := k.deliver(leafA, event("1", ` { "ok": "<" } `), 20)
	k.deliver(leafB, event("1", `"for b"`), 21)
	second := k.deliver(leafA, event("2", ""), 22)
	equal(k, first.Cause, engine.Cause{Trigger: engine.TriggerExternal, ID: "/test 1"})
	equal(k, first.Ref, leafA)
	k.reopen()
	s := k.load(leafA)
	equal(k, ids(s.Events), []string{"1", "2"})
	equal(k, s.Events[0].N < s.Events[1].N, true)
	want := event("1", `{"ok":"\u003c"}`)
	want.N, want.At = s.Events[0].N, ms(20)
	equal(k, s.Events[0], want)
	equal(k, string(s.Events[0].Data), string(want.Data))
	equal(k, []int64{s.TriggerN, k.opened().Raised[0].N, k.opened().Raised[2].N}, []int64{second.N, first.N, second.N})
	equal(k, s.Row.Revision, 1) // an event is no change of the row: a turn that runs is not lost
	k.turn(leafA, 30, engine.Wait(because("more")))
	equal(k, len(k.opened().Raised), 1) // that of b
	equal(k, ids(k.load(leafA).Events), []string{"1", "2"})
}

func deliversOnce(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Upsert(leafB, 1), 10)
	n := k.deliver(leafA, event("1", "1"), 20).N
	again := func(want ...string) {
		k.Helper()
		equal(k, k.deliver(leafA, event("1", "2"), 30), engine.Raise{})
		equal(k, ids(k.load(leafA).Events), want)
	}
	again("1")
	equal(k, k.opened().Raised[0].N, n)
	equal(k, len(k.opened().Raised), 1)
	k.turn(leafA, 40, engine.Wait(because("more")).WithHandled(k.load(leafA).Events[0].N))
	again()
	k.apply(engine.Upsert(leafA, 2), 50)
	k.reopen()
	again()
	k.gone(leafA, 60)
	again()
	k.apply(engine.Upsert(leafA, 3), 70)
	again()
	other := event("1", "")
	other.Source = "/other"
	equal(k, k.deliver(leafA, other, 80).N > n, true)
	equal(k, k.deliver(leafB, event("1", ""), 80).N > n, true)
}

func refusesEvents(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.apply(engine.Upsert(leafB, 1), 10)
	k.gone(leafB, 20)
	long := strings.Repeat("x", engine.MaxEventName+1)
	for _, c := range []struct {
		ref  engine.Ref
		e    engine.Event
		want error
	}{
		{leafA, engine.Event{ID: "1", Type: "t"}, engine.ErrEventUnnamed},
		{leafA, engine.Event{Source: "s", Type: "t"}, engine.ErrEventUnnamed},
		{leafA, engine.Event{Source: "s", ID: "1"}, engine.ErrEventUnnamed},
		{leafA, engine.Event{Source: "s", ID: "\xff", Type: "t"}, engine.ErrEventUnnamed},
		{leafA, event("1", "{"), engine.ErrEventData},
		{leafA, event("1", `"`+strings.Repeat("x", engine.MaxEventData)+`"`), engine.ErrEventTooLarge},
		{leafA, engine.Event{Source: long, ID: "1", Type: "t"}, engine.ErrEventTooLarge},
		{leafA, engine.Event{Source: "s", ID: long, Type: "t"}, engine.ErrEventTooLarge},
		{leafA, engine.Event{Source: "s", ID: "1", Type: long}, engine.ErrEventTooLarge},
		{root, event("1", ""), reconcile.ErrNotFound},
		{leafB, event("1", ""), reconcile.ErrNotFound},
	} {
		_, err := k.store.Deliver(k.ctx, c.ref, c.e, ms(30))
		k.is(err, c.want)
	}
	equal(k, len(k.load(leafA).Events)+len(k.opened().Raised), 0)
}

func fillsInbox(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	for i := range engine.MaxUnhandled {
		k.deliver(leafA, event(strconv.Itoa(i), ""), 20)
	}
	one := event("one more", "")
	_, err := k.store.Deliver(k.ctx, leafA, one, ms(30))
	k.is(err, engine.ErrInboxFull)
	equal(k, k.deliver(leafA, event("0", ""), 30), engine.Raise{}) // what is known is acknowledged all the same
	events := k.load(leafA).Events
	equal(k, len(events), engine.MaxUnhandled)
	k.turn(leafA, 40, engine.Wait(because("more")).WithHandled(events[0].N))
	k.deliver(leafA, one, 50)
	events = k.load(leafA).Events
	equal(k, []any{len(events), events[0].ID, events[len(events)-1].ID}, []any{engine.MaxUnhandled, "1", one.ID})
}

func handles(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	for _, id := range []string{"1", "2", "3"} {
		k.deliver(leafA, event(id, `"secret"`), 20)
	}
	s := k.load(leafA)
	k.turn(leafA, 30, engine.Wait(because("more")).WithHandled(s.Events[1].N))
	k.reopen()
	after := k.load(leafA)
	equal(k, after.Row.Handled(), s.Events[1].N)
	equal(k, after.Events, s.Events[2:])
	// A row that has handled nothing shows what is left of them.
	row := after.Row
	k.must(row.SetState([]byte(`{}`)))
	row.Revision++
	_, err := k.store.Commit(k.ctx, engine.Record{Write: true, Expect: after.Row.Revision, Row: row, Now: ms(40)})
	k.must(err)
	left := k.load(leafA).Events
	equal(k, ids(left), []string{"1", "2", "3"})
	equal(k, []string{string(left[0].Data), string(left[1].Data), string(left[2].Data)}, []string{"", "", `"secret"`})
}

func purgesInbox(k *kit) {
	k.apply(engine.Upsert(leafA, 1), 10)
	k.deliver(leafA, event("1", ""), 20)
	k.gone(leafA, 30)
	k.purge("leaf", 40, 1)
	k.reopen()
	k.apply(engine.Upsert(leafA, 1), 50)
	equal(k, len(k.load(leafA).Events), 0)
	equal(k, k.deliver(leafA, event("1", ""), 60).N > 0, true) // of a new resource
}
