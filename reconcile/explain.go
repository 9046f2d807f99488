package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Explanation answers "why is this resource where it is?".
type Explanation struct {
	Row       engine.Row          `json:"row"`
	Status    engine.Status       `json:"status"`
	Deadlines engine.Deadlines    `json:"deadlines"`
	Observed  json.RawMessage     `json:"observed,omitempty"` // as of the last turn of this process
	SeenAt    time.Time           `json:"seenAt,omitzero"`    // when that was
	Decision  string              `json:"decision,omitempty"` // converged, do create, wait, fail
	Reason    engine.Reason       `json:"reason"`             // of that decision
	BlockedBy []engine.Block      `json:"blockedBy,omitempty"`
	Acting    bool                `json:"acting"`            // a turn is running now
	Overdue   bool                `json:"overdue"`           // its act has not returned although its deadline passed
	NextWake  time.Time           `json:"nextWake,omitzero"` // zero: waits for a trigger
	Causes    []engine.Cause      `json:"causes,omitempty"`  // of the last turn
	History   []engine.Transition `json:"history,omitempty"` // newest last, at most 10
}

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
	Unknown    int64 `json:"unknown"` // turns for a ref without row or reconciler
	Queued     int   `json:"queued"`
	Running    int   `json:"running"`
}

// seen is what the last turn of a resource saw in this process.
type lastTurn struct {
	observed any
	decision engine.Decision
	at       time.Time
	causes   engine.Causes
}

// memory keeps what was seen, for Explain only: no decision reads it.
type lastTurns struct {
	mu   sync.Mutex
	seen map[engine.Ref]lastTurn
}

func (m *lastTurns) remember(ref engine.Ref, s lastTurn) {
	m.mu.Lock()
	m.seen[ref] = s
	m.mu.Unlock()
}

func (m *lastTurns) drop(ref engine.Ref) {
	m.mu.Lock()
	delete(m.seen, ref)
	m.mu.Unlock()
}

func (m *lastTurns) get(ref engine.Ref) (lastTurn, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[ref]
	return s, ok
}

type counters struct {
	turns, noops, acts, actErrors, panics, conflicts, superseded, storeErrs, unknown atomic.Int64
	storeErr                                                                         atomic.Pointer[error] // the last one
}

func (c *counters) storeFailed(err error) {
	c.storeErr.Store(&err)
	c.storeErrs.Add(1)
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
		StoreErrs: c.storeErrs.Load(), Unknown: c.unknown.Load(),
	}
	l.onQueue(context.Background(), func(o *queueOwner) { s.Queued, s.Running = o.queue.Len(), o.queue.Active() })
	return s
}

// ask runs f on the goroutine that owns the queue; not at all if the controller does not run.
func (l *Controller) onQueue(ctx context.Context, f func(*queueOwner)) {
	if !l.started.Load() {
		return
	}
	done := make(chan struct{})
	select {
	case l.calls <- func(o *queueOwner) { f(o); close(done) }:
		<-done
	case <-l.stopped:
	case <-ctx.Done():
	}
}

// Explain says why ref is where it is. It returns ErrNotFound for an unknown ref.
func (l *Controller) Explain(ctx context.Context, ref engine.Ref) (Explanation, error) {
	snap, err := l.store.Load(ctx, ref)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Row: snap.Row, Status: snap.Row.Status()}
	if k := l.kinds[ref.Kind]; k != nil {
		in := engine.Input{Snap: &snap, Policy: k.policy(), Now: l.cfg.now()}
		x.Deadlines = in.Deadlines()
	}
	after := max(0, snap.Row.Transitions-10)
	if x.History, err = l.store.History(ctx, ref, after, 0); err != nil {
		return Explanation{}, err
	}
	if s, ok := l.last.get(ref); ok {
		x.SeenAt, x.Decision, x.Reason, x.Causes = s.at, s.decision.Name(), s.decision.Reason(), s.causes.List()
		if a := s.decision.Action(); a != nil {
			x.Decision += " " + a.ActionName()
		}
		if raw, err := json.Marshal(s.observed); err == nil {
			x.Observed = raw
		}
	}
	l.onQueue(ctx, func(o *queueOwner) {
		x.NextWake, _ = o.queue.Due(ref)
		if r := o.running[ref]; r != nil {
			x.Acting, x.Overdue = r.acting.Load(), r.overdue.Load()
		}
	})
	x.BlockedBy = l.blocks(&snap, x.NextWake)
	return x, nil
}

// blocks names what the resource waits for: itself if it waits or is held, and
// every child that is not as it should be.
func (l *Controller) blocks(snap *engine.Snapshot, wake time.Time) []engine.Block {
	var out []engine.Block
	row := &snap.Row
	if l.kinds[row.Ref.Kind] == nil {
		out = append(out, engine.Block{Ref: row.Ref, Reason: engine.NewReason("no-reconciler", "no reconciler is registered for kind "+row.Ref.Kind)})
	}
	switch row.Phase {
	case engine.Converged, engine.Deleted, engine.Acting, engine.Verifying, engine.Pending, engine.Deleting:
	default:
		out = append(out, engine.Block{Ref: row.Ref, Reason: row.Reason, Until: wake})
	}
	for i := range snap.Children {
		c := &snap.Children[i]
		if c.Phase != engine.Converged && c.Phase != engine.Deleted {
			out = append(out, engine.Block{Ref: c.Ref, Reason: c.Reason})
		}
	}
	return out
}
