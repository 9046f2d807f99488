package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func oneWins(k *kit) {
	k.apply(engine.Upsert(root, 1), 10)
	s := k.load(root)
	errs := make([]error, 2)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			d := engine.Wait(because(engine.Code("w" + strconv.Itoa(i)))).With(engine.Upsert([]engine.Ref{leafA, leafB}[i], 1))
			_, errs[i] = k.store.Commit(k.ctx, decided(s, policy, 20, d))
		})
	}
	all.Wait()
	won := 0
	if errs[0] != nil {
		won = 1
	}
	k.must(errs[won])
	k.is(errs[1-won], reconcile.ErrConflict)
	after := k.load(root)
	equal(k, after.Row.Reason.Code, engine.Code("w"+strconv.Itoa(won)))
	equal(k, refs(after.Children), []engine.Ref{{Kind: "leaf", ID: []string{"a", "b"}[won]}})
	equal(k, len(k.history(root)), 2)
}

// together has owners, senders and turns at one resource, and more of them at others.
func together(k *kit) {
	const owners, events = 4, 20
	k.apply(engine.Upsert(root, "first"), 10)
	var (
		all, turns sync.WaitGroup
		kept       atomic.Int64
		over       = make(chan struct{})
		failed     = make(chan error, 100)
	)
	check := func(err error) {
		if err != nil && !errors.Is(err, reconcile.ErrConflict) {
			select {
			case failed <- err:
			default:
			}
		}
	}
	for i := range owners {
		all.Go(func() {
			for j := range 10 {
				_, err := k.store.Apply(k.ctx, engine.Upsert(root, fmt.Sprint(i, j)), ms(20), byHand)
				check(err)
			}
		})
		all.Go(func() { // each event comes from two senders
			for j := range events {
				r, err := k.store.Deliver(k.ctx, root, event(fmt.Sprint(i/2, j), "1"), ms(20))
				check(err)
				if r.N != 0 {
					kept.Add(1)
				}
			}
		})
	}
	for i := range 2 {
		turns.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				s, err := k.store.Load(k.ctx, root)
				check(err)
				d := engine.Wait(because(engine.Code(fmt.Sprint("turn", i, n)))).With(engine.Upsert(leafA, n))
				if len(s.Events) > 1 {
					d = d.WithHandled(s.Events[len(s.Events)/2].N)
				}
				_, err = k.store.Commit(k.ctx, decided(s, policy, 30, d))
				check(err)
			}
		})
	}
	all.Wait()
	close(over)
	turns.Wait()
	close(failed)
	for err := range failed {
		k.Errorf("%v", err)
	}
	equal(k, kept.Load(), owners/2*events)
	k.turn(root, 40, engine.Wait(because("last")))
	k.reopen()
	k.consistent()
}

// consistent checks what holds of every store at any time.
func (k *kit) consistent() {
	k.Helper()
	rows, err := k.store.List(k.ctx, reconcile.Filter{})
	k.must(err)
	for _, row := range rows {
		s, h := k.load(row.Ref), k.history(row.Ref)
		equal(k, s.Row, row)
		last := engine.Phase("")
		for i, t := range h {
			equal(k, []any{t.N, t.From}, []any{int64(i + 1), last})
			last = t.To
		}
		equal(k, engine.Fold(h), row.Status())
		n := row.Handled()
		for _, e := range s.Events {
			equal(k, e.N > n, true)
			n = e.N
		}
		equal(k, s.TriggerN != 0, row.Ref != root) // the last turn acknowledged those of the root
	}
}
