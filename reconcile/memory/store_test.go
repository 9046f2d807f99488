package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
	"github.com/steadyfleet/steady/reconcile/storetest"
)

// TestContract holds the store to the contract of reconcile.Store; what its journal keeps is
// what the next process sees.
func TestContract(t *testing.T) {
	var journals sync.Map
	storetest.Run(t, func(t *testing.T) reconcile.Store {
		j, _ := journals.LoadOrStore(t.Name(), &reconciletest.Journal{})
		return testkit.Value(j.(*reconciletest.Journal).Open())(t)
	})
}

func TestContractWithoutJournal(t *testing.T) {
	var stores sync.Map
	storetest.Run(t, func(t *testing.T) reconcile.Store {
		s, _ := stores.LoadOrStore(t.Name(), memory.New())
		return s.(*memory.Store)
	})
}

var errFull = errors.New("disk full")

func TestWhatIsNotJournalledDidNotHappen(t *testing.T) {
	full := false
	s := memory.New(memory.WithJournal(func(context.Context, memory.Write) error {
		if full {
			return errFull
		}
		return nil
	}))
	ctx := t.Context()
	testkit.Value(s.Apply(ctx, engine.Upsert(refs[0], 1), at(1), cause))(t)
	testkit.Value(s.Deliver(ctx, refs[0], engine.Event{Source: "s", ID: "1", Type: "t"}, at(2)))(t)
	before := shown(t, s)
	snap := testkit.Value(s.Load(ctx, refs[0]))(t)
	full = true
	for name, f := range map[string]func() error{
		"apply":  func() error { _, err := s.Apply(ctx, engine.Upsert(refs[0], 2), at(3), cause); return err },
		"commit": func() error { _, err := s.Commit(ctx, decided(snap, 3, engine.Fail(engine.Reason{}))); return err },
		"ack":    func() error { return s.Ack(ctx, refs[0], snap.TriggerN) },
		"deliver": func() error {
			_, err := s.Deliver(ctx, refs[0], engine.Event{Source: "s", ID: "2", Type: "t"}, at(3))
			return err
		},
	} {
		if err := f(); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := shown(t, s); after != before {
		t.Errorf("changed:\n%s\nbefore:\n%s", after, before)
	}
}
