package reconcile

import (
	"context"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// listingAge is how old a listing may be that answers a turn.
const listingAge = clock.Second

// listing shares the answers of ObserveAll among turns.
type listing[O any] struct {
	observe func(context.Context) (map[engine.Ref]O, error)

	mu    sync.Mutex
	epoch uint64 // rises when an act ends: what was listed before is no news
	last  *listed[O]
}

type listed[O any] struct {
	epoch uint64
	began engine.Instant
	ready chan struct{}
	all   map[engine.Ref]O
	err   error
}

// get answers from the last listing, waits for one that is under way, or makes one.
func (l *listing[O]) get(ctx context.Context, ref engine.Ref, now func() engine.Instant) (o O, found bool, err error) {
	l.mu.Lock()
	cur := l.last
	if cur != nil && cur.epoch == l.epoch && cur.began.Add(listingAge) > now() {
		l.mu.Unlock()
		select {
		case <-cur.ready:
		case <-ctx.Done():
			return o, false, context.Cause(ctx)
		}
	} else {
		cur = &listed[O]{epoch: l.epoch, began: now(), ready: make(chan struct{})}
		l.last = cur
		l.mu.Unlock()
		cur.err = protect("ObserveAll", func() error {
			cur.all, err = l.observe(ctx)
			return err
		})
		close(cur.ready)
		if cur.err != nil {
			l.drop()
		}
	}
	o, found = cur.all[ref]
	return o, found, cur.err
}

// drop forgets the listing; one under way still answers those who wait for it.
func (l *listing[O]) drop() {
	l.mu.Lock()
	l.epoch++
	l.mu.Unlock()
}
