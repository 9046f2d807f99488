package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Explanation answers "why is this resource where it is?".
type Explanation struct {
	Row       engine.Row          `json:"row"`
	Status    engine.Status       `json:"status"`
	Deadlines engine.Deadlines    `json:"deadlines"`
	Observed  json.RawMessage     `json:"observed,omitempty"` // as of the last turn of this process
	SeenAt    engine.Instant      `json:"seenAt,omitempty"`   // when that was
	Decision  string              `json:"decision,omitempty"` // converged, do create, wait, fail
	Reason    engine.Reason       `json:"reason"`             // of that decision
	BlockedBy []Block             `json:"blockedBy,omitempty"`
	Acting    bool                `json:"acting"`            // a turn is running now
	Overdue   bool                `json:"overdue"`           // its act has not returned although its deadline passed
	NextWake  engine.Instant      `json:"nextWake"`          // 0: waits for a trigger
	Causes    []engine.Cause      `json:"causes,omitempty"`  // of the last turn
	History   []engine.Transition `json:"history,omitempty"` // newest last, at most 10
}

// Block is one thing that a resource waits for.
type Block struct {
	Ref    engine.Ref     `json:"ref"` // itself, a child or its parent
	Reason engine.Reason  `json:"reason"`
	Until  engine.Instant `json:"until,omitempty"` // earliest instant it can clear by itself
}

// Stats counts what the loop did since it was made.
type Stats struct {
	Turns      int64 `json:"turns"`
	NoOps      int64 `json:"noops"` // turns that recorded nothing
	Acts       int64 `json:"acts"`
	ActErrors  int64 `json:"actErrors"`
	Panics     int64 `json:"panics"`
	Conflicts  int64 `json:"conflicts"`  // turns dropped because the row changed
	Superseded int64 `json:"superseded"` // acts cancelled because desired changed
	StoreErrs  int64 `json:"storeErrors"`
	Unknown    int64 `json:"unknown"` // turns for a ref without row or manager
	Queued     int   `json:"queued"`
	Running    int   `json:"running"`
}

// seen is what the last turn of a resource saw in this process.
type seen struct {
	observed any
	decision engine.Decision
	at       engine.Instant
	causes   engine.Causes
}

// memory keeps what was seen, for Explain only: no decision reads it.
type memory struct {
	mu   sync.Mutex
	seen map[engine.Ref]seen
}

func (m *memory) remember(ref engine.Ref, s seen) {
	m.mu.Lock()
	m.seen[ref] = s
	m.mu.Unlock()
}

func (m *memory) forget(ref engine.Ref) {
	m.mu.Lock()
	delete(m.seen, ref)
	m.mu.Unlock()
}

func (m *memory) get(ref engine.Ref) (seen, bool) {
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
func (l *Loop) StoreErr() error {
	if err := l.stats.storeErr.Load(); err != nil {
		return fmt.Errorf("the store failed %d times, last: %w", l.stats.storeErrs.Load(), *err)
	}
	return nil
}

// Stats reads the counters.
func (l *Loop) Stats() Stats {
	c := &l.stats
	s := Stats{
		Turns: c.turns.Load(), NoOps: c.noops.Load(), Acts: c.acts.Load(), ActErrors: c.actErrors.Load(),
		Panics: c.panics.Load(), Conflicts: c.conflicts.Load(), Superseded: c.superseded.Load(),
		StoreErrs: c.storeErrs.Load(), Unknown: c.unknown.Load(),
	}
	l.ask(context.Background(), func(o *owner) { s.Queued, s.Running = o.queue.Len(), o.queue.Active() })
	return s
}

// ask runs f on the goroutine that owns the queue; not at all if the loop does not run.
func (l *Loop) ask(ctx context.Context, f func(*owner)) {
	if !l.started.Load() {
		return
	}
	done := make(chan struct{})
	select {
	case l.asks <- func(o *owner) { f(o); close(done) }:
		<-done
	case <-l.stopped:
	case <-ctx.Done():
	}
}

// Explain says why ref is where it is. It returns ErrNotFound for an unknown ref.
func (l *Loop) Explain(ctx context.Context, ref engine.Ref) (Explanation, error) {
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
	if s, ok := l.memory.get(ref); ok {
		x.SeenAt, x.Decision, x.Reason, x.Causes = s.at, s.decision.Name(), s.decision.Reason(), s.causes.List()
		if a := s.decision.Action(); a != nil {
			x.Decision += " " + a.ActionName()
		}
		if raw, err := json.Marshal(s.observed); err == nil {
			x.Observed = raw
		}
	}
	l.ask(ctx, func(o *owner) {
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
func (l *Loop) blocks(snap *engine.Snapshot, wake engine.Instant) []Block {
	var out []Block
	row := &snap.Row
	if l.kinds[row.Ref.Kind] == nil {
		out = append(out, Block{Ref: row.Ref, Reason: engine.Because("no_manager", "no manager is registered for kind "+row.Ref.Kind)})
	}
	switch row.Phase {
	case engine.Converged, engine.Retired, engine.Acting, engine.Verifying, engine.Pending, engine.Retiring:
	default:
		out = append(out, Block{Ref: row.Ref, Reason: row.Reason, Until: wake})
	}
	for i := range snap.Children {
		c := &snap.Children[i]
		if c.Phase != engine.Converged && c.Phase != engine.Retired {
			out = append(out, Block{Ref: c.Ref, Reason: c.Reason})
		}
	}
	return out
}
