package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// NotConvergedError is met by who waits for a resource that came to rest otherwise: failed,
// drifted and not repaired, or orphaned.
type NotConvergedError struct{ Row engine.Row }

func (e *NotConvergedError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Row.Ref, e.Row.Phase, e.Row.Reason.Text())
}

// WaitConverged waits until each of refs has converged (or is Degraded, as its reconciler
// accepted) in the generation that it has now or a later one; a resource that is to be
// deleted, until it is gone. Without refs it waits for all there are: a low watermark. It
// fails with ErrNotFound if there is none of a ref when it begins, with a
// *NotConvergedError of the first resource that came to rest otherwise, or when ctx or the
// controller ends.
func (l *Controller) WaitConverged(ctx context.Context, refs ...engine.Ref) error {
	if len(refs) == 0 {
		rows, err := l.store.List(ctx, Filter{})
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Parent.IsZero() || !rows[i].Phase.Terminal() {
				refs = append(refs, rows[i].Ref)
			}
		}
	}
	goals := make(map[engine.Ref]int64, len(refs))
	for _, ref := range refs {
		row, err := l.store.Get(ctx, ref)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", ref, err)
		}
		goals[ref] = row.Generation
	}
	for _, ref := range refs {
		if err := l.waitFor(ctx, ref, goals[ref]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Controller) waitFor(ctx context.Context, ref engine.Ref, generation int64) error {
	for {
		changed := l.commits.next()
		row, err := l.store.Get(ctx, ref)
		switch {
		case errors.Is(err, ErrNotFound): // it was deleted, and purged meanwhile
			return nil
		case err != nil:
			return fmt.Errorf("wait for %s: %w", ref, err)
		case row.Phase == engine.Deleted,
			row.ConvergedGen >= generation && (row.Phase == engine.Converged || row.Phase == engine.Degraded):
			return nil
		case row.Phase == engine.Failed, row.Phase == engine.Orphaned, row.Phase == engine.Drifted:
			return &NotConvergedError{row}
		}
		select {
		case <-changed:
		case <-l.stopped:
			return ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("%w; %w", &NotConvergedError{row}, context.Cause(ctx))
		}
	}
}

// commits tells those who wait that something was written.
type commits struct {
	mu sync.Mutex
	c  chan struct{} // nil while nobody waits
}

// next is closed by the next write.
func (b *commits) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *commits) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
