// Package storetest holds implementations of reconcile.Store to their contract. It is a package
// of its own because it is linked into tests alone.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Run holds a store to the contract. open makes an empty one; called again in the same test, it
// opens anew what the first one keeps, as the next process does. A store that keeps nothing is
// given back as it is.
func Run(t *testing.T, open func(t *testing.T) reconcile.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*kit)
	}{
		{"an intent writes a row and its first transition", applies},
		{"an unknown ref is ErrNotFound", unknown},
		{"a commit with an old revision changes nothing", conflicts},
		{"a row survives unchanged in every field", keepsFields},
		{"terminal rows are not open", opens},
		{"lists filter", lists},
		{"an alert is acknowledged once", acknowledges},
		{"children come in order and with their parent", loadsTree},
		{"deleted children cost their parent nothing", forgetsDeleted},
		{"a child of another parent is refused and nothing is written", ownership},
		{"raised triggers stay until they are acknowledged", outbox},
		{"a report reaches the parent, which has a turn when it changes", reports},
		{"history is trimmed but keeps the last of each phase", trims},
		{"a kind without history only announces", noHistory},
		{"purge removes what was retired long ago", purges},
		{"purge keeps what has rows below it", purgesFromBelow},
		{"purge removes the triggers", purgesTriggers},
		{"a reopened store is as it was", reopens},
		{"an event is kept with the trigger that it raises", delivers},
		{"an event is kept once", deliversOnce},
		{"an event is refused where nobody can handle it", refusesEvents},
		{"the inbox is bounded by what is unhandled", fillsInbox},
		{"handled events are not shown, and keep no data", handles},
		{"purge removes the inbox", purgesInbox},
		{"of two commits from one snapshot one wins", oneWins},
		{"calls from many goroutines leave a consistent store", together},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&kit{T: t, ctx: t.Context(), store: open(t), open: open})
		})
	}
}

var (
	root   = engine.Ref{Kind: "root", ID: "r"}
	leafA  = engine.Ref{Kind: "leaf", ID: "a"}
	leafB  = engine.Ref{Kind: "leaf", ID: "b"}
	byHand = engine.Cause{Trigger: engine.TriggerOperator, ID: "test"}
	policy = engine.Policy{}.WithDefaults()
)

// kit is one test of one store.
type kit struct {
	*testing.T
	ctx   context.Context
	store reconcile.Store
	open  func(*testing.T) reconcile.Store
}

func (k *kit) reopen() { k.Helper(); k.store = k.open(k.T) }

// ms is so many milliseconds after the epoch.
func ms(n int64) time.Time { return time.UnixMilli(n).UTC() }

func because(code engine.Code) engine.Reason { return engine.NewReason(code, "") }

// text is a value with all that is stored of it in the open.
func text(v any) string {
	switch v := v.(type) {
	case engine.Row:
		return encode(engine.StoredRow{Row: v, State: v.State()})
	case engine.Snapshot:
		s := text(v.Row)
		if v.Parent != nil {
			s += "\nparent " + v.Parent.Ref.String()
		}
		for _, c := range v.Children {
			s += "\nchild " + text(c)
		}
		return s + "\nevents " + encode(v.Events) + "\ntrigger " + encode(v.TriggerN)
	}
	return encode(v)
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // what a store is handed encodes
	}
	return string(raw)
}

func equal[T any](k *kit, got, want T) {
	k.Helper()
	if g, w := text(got), text(want); g != w {
		k.Fatalf("got:\n%s\nwant:\n%s", g, w)
	}
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("%v", err)
	}
}

func (k *kit) is(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Fatalf("got the error %v, want %v", err, want)
	}
}

func (k *kit) apply(in engine.Intent, now int64) engine.Change {
	k.Helper()
	ch, err := k.store.Apply(k.ctx, in, ms(now), byHand)
	k.must(err)
	return ch
}

func (k *kit) load(ref engine.Ref) engine.Snapshot {
	k.Helper()
	s, err := k.store.Load(k.ctx, ref)
	k.must(err)
	return s
}

func (k *kit) history(ref engine.Ref) []engine.Transition {
	k.Helper()
	h, err := k.store.History(k.ctx, ref, 0, 0)
	k.must(err)
	return h
}

func (k *kit) opened() reconcile.Opened {
	k.Helper()
	o, err := k.store.Open(k.ctx)
	k.must(err)
	return o
}

// decided is the record of one decision on a snapshot.
func decided(s engine.Snapshot, p engine.Policy, now int64, d engine.Decision) engine.Record {
	causes := engine.CausesOf(byHand)
	return engine.AfterDecide(engine.Input{Snap: &s, Policy: &p, Causes: &causes, Now: ms(now)}, d, nil)
}

// turn commits the record of one decision on ref.
func (k *kit) turn(ref engine.Ref, now int64, d engine.Decision) reconcile.Committed {
	k.Helper()
	c, err := k.store.Commit(k.ctx, decided(k.load(ref), policy, now, d))
	k.must(err)
	return c
}

// gone deletes a resource and has it observed gone.
func (k *kit) gone(ref engine.Ref, now int64) {
	k.Helper()
	k.apply(engine.Delete(ref), now)
	k.turn(ref, now, engine.IsConverged(because("gone")))
}

func refs(rows []engine.Row) (out []engine.Ref) {
	for _, r := range rows {
		out = append(out, r.Ref)
	}
	return out
}
