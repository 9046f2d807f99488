package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// listingAge is how old a listing may be that answers a turn.
const listingAge = time.Second

// listing shares the answers of ObserveAll among turns.
type listing[O any] struct {
	observe func(context.Context) (map[engine.Ref]O, error)

	mu    sync.Mutex
	epoch uint64 // rises when an act ends: what was listed before is no news
	last  *listed[O]
	// alone is the generation at which a resource was last observed alone.
	alone map[engine.Ref]int64
}

type listed[O any] struct {
	epoch uint64
	began time.Time
	ready chan struct{}
	alone map[engine.Ref]int64 // as it was when this listing began
	all   map[engine.Ref]O
	err   error
}

// halfOf is half of the time that an observation has left: the rest is for observing alone.
func halfOf(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at) / 2
	}
	return time.Hour
}

// get answers from the last listing, waits for one that is under way, or makes one. Of one that is slow it finds
// nothing.
// It finds nothing of a resource that was last observed alone at another generation:
// the reconciler may have compared with what was desired then.
func (l *listing[O]) get(ctx context.Context, ref engine.Ref, generation int64, now func() time.Time) (o O, found bool, err error) {
	l.mu.Lock()
	cur := l.last
	if cur != nil && cur.epoch == l.epoch && cur.fresh(now()) {
		l.mu.Unlock()
		patience := time.NewTimer(halfOf(ctx))
		defer patience.Stop()
		select {
		case <-cur.ready:
		case <-patience.C:
			return o, false, nil
		case <-ctx.Done():
			return o, false, context.Cause(ctx)
		}
	} else {
		cur = &listed[O]{epoch: l.epoch, began: now(), ready: make(chan struct{}), alone: maps.Clone(l.alone)}
		l.last = cur
		l.mu.Unlock()
		l.list(ctx, cur)
	}
	o, found = cur.all[ref]
	if g, ok := cur.alone[ref]; ok && g != generation {
		found = false
	}
	return o, found, cur.err
}

// list makes a listing. Those who wait for it get an error if it ends its goroutine.
func (l *listing[O]) list(ctx context.Context, cur *listed[O]) {
	cur.err = exited("ObserveAll")
	defer func() {
		close(cur.ready)
		if cur.err != nil {
			l.drop()
		}
	}()
	cur.err = protect("ObserveAll", func() (err error) {
		cur.all, err = l.observe(ctx)
		return err
	})
}

// fresh reports whether a listing is young enough. One that began later than now did so by a clock
// that went back since.
func (c *listed[O]) fresh(now time.Time) bool {
	return c.began.Add(listingAge).After(now) && !c.began.After(now)
}

// observedAlone notes that Observe answered for the resource.
func (l *listing[O]) observedAlone(ref engine.Ref, generation int64) {
	l.mu.Lock()
	l.alone[ref] = generation
	l.mu.Unlock()
}

func (l *listing[O]) forget(ref engine.Ref) {
	l.mu.Lock()
	delete(l.alone, ref)
	l.mu.Unlock()
}

// drop forgets the listing; one under way still answers those who wait for it.
func (l *listing[O]) drop() {
	l.mu.Lock()
	l.epoch++
	l.mu.Unlock()
}
