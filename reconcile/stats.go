package reconcile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Stats counts what the controller did since it was made.
type Stats struct {
	Turns      int64 `json:"turns"`
	NoOps      int64 `json:"noops"` // turns that recorded nothing
	Acts       int64 `json:"acts"`
	ActErrors  int64 `json:"actErrors"`
	Panics     int64 `json:"panics"`
	Conflicts  int64 `json:"conflicts"`  // turns dropped because the row changed
	Superseded int64 `json:"superseded"` // acts cancelled because desired changed
	StoreErrs  int64 `json:"storeErrors"`
	Unknown    int64 `json:"unknown"`  // turns for a ref without row or reconciler
	Repaired   int64 `json:"repaired"` // resources of which nothing was queued although they were on their way
	Passed     int64 `json:"passed"`   // resources that began to ask for a time that had passed, again and again
	Queued     int   `json:"queued"`
	Running    int   `json:"running"`
	Hung       int   `json:"hung"` // of those that run: their call has not returned in time; Hung names them
}

// LastTurn is what a resource's newest turn in this process decided.
type LastTurn struct {
	Decision string         // its name, and that of the action
	Causes   []engine.Cause // of the turn
	At       time.Time      // of the decision
	Acting   bool           // an act runs now
}

// lastTurns keeps what was decided, for LastTurn only: no decision reads it.
type lastTurns struct {
	mu   sync.Mutex
	seen map[engine.Ref]decidedTurn
}

type decidedTurn struct {
	decision string // as LastTurn has it
	causes   engine.Causes
	at       time.Time
	children int // that it saw
}

// childSpacing is what each child of a parent adds to the pause between two of the parent's turns
// that its children ask for. A turn of a parent costs as much as it has children: without a
// pause, n children that converge at once cost n turns of n. It is about three times what a
// child costs in a turn; below a hundred children there is no pause, since times are whole milliseconds.
const childSpacing = 10 * time.Microsecond

// spaced is when the next turn of ref may begin that a child asks for.
func (m *lastTurns) spaced(ref engine.Ref, now time.Time) time.Time {
	m.mu.Lock()
	t := m.seen[ref]
	m.mu.Unlock()
	at := t.at.Add(time.Duration(t.children) * childSpacing).Truncate(time.Millisecond)
	if at.Before(now) {
		return now
	}
	return at
}

// decided names a decision, with its action.
func decided(d *engine.Decision) string {
	if a := d.Action(); a != nil {
		return d.Name() + " " + a.ActionName()
	}
	return d.Name()
}

func (m *lastTurns) remember(ref engine.Ref, t decidedTurn) {
	m.mu.Lock()
	m.seen[ref] = t
	m.mu.Unlock()
}

func (m *lastTurns) drop(ref engine.Ref) {
	m.mu.Lock()
	delete(m.seen, ref)
	m.mu.Unlock()
}

type counters struct {
	turns, noops, acts, actErrors, panics, conflicts, superseded, storeErrs, unknown, repaired, passed atomic.Int64

	storeErr atomic.Pointer[error] // the last one
}

func (l *Controller) storeFailed(err error) {
	l.stats.storeErr.Store(&err)
	l.stats.storeErrs.Add(1)
	l.measure(func(m Metrics) { m.StoreFailed(err) })
}

// StoreErr is nil while Stats counts no error of the store, and else wraps the last one:
// the reason that the store gave.
func (l *Controller) StoreErr() error {
	if err := l.stats.storeErr.Load(); err != nil {
		return fmt.Errorf("the store failed %d times, last: %w", l.stats.storeErrs.Load(), *err)
	}
	return nil
}

// Stats reads the counters.
func (l *Controller) Stats() Stats {
	c := &l.stats
	s := Stats{
		Turns: c.turns.Load(), NoOps: c.noops.Load(), Acts: c.acts.Load(), ActErrors: c.actErrors.Load(),
		Panics: c.panics.Load(), Conflicts: c.conflicts.Load(), Superseded: c.superseded.Load(),
		StoreErrs: c.storeErrs.Load(), Unknown: c.unknown.Load(), Repaired: c.repaired.Load(), Passed: c.passed.Load(),
	}
	l.onQueue(context.Background(), func(o *queueOwner) {
		s.Queued, s.Running = o.queue.Len(), o.queue.Active()
		for _, n := range o.hung {
			s.Hung += n
		}
	})
	return s
}

// LastTurn says what the newest turn of ref decided; zero before the first.
func (l *Controller) LastTurn(ctx context.Context, ref engine.Ref) LastTurn {
	l.last.mu.Lock()
	seen, ok := l.last.seen[ref]
	l.last.mu.Unlock()
	var t LastTurn
	if ok {
		t = LastTurn{Decision: seen.decision, Causes: seen.causes.List(), At: seen.at}
	}
	l.onQueue(ctx, func(o *queueOwner) {
		if r := o.running[ref]; r != nil {
			t.Acting = r.acting.Load()
		}
	})
	return t
}
