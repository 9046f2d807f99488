package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/control/trusted"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

// snapshotFormat names the encoding of a snapshot. A change of what the fold
// makes of old events needs a new name: then the log is folded once more.
const snapshotFormat = "steady/control/v6"

// snapshot is all that is folded from the log.
type snapshot struct {
	State   *plan.State                       `json:"state"`
	Managed *managed.State                    `json:"managed,omitempty"`
	Health  *health.State                     `json:"health,omitempty"`
	Places  map[digest.Digest]documents.Place `json:"places"`
	Trust   trust.State                       `json:"trust"`
	Roots   map[uint64]digest.Digest          `json:"roots,omitempty"`
}

// fromSnapshot sets the state to the newest snapshot of this format, or to the
// one before the first event, and returns where the log goes on from.
func (c *Control) fromSnapshot(ctx context.Context) (store.Head, error) {
	c.state, c.memory = plan.New(c.library), trusted.Remember(trust.State{}, nil, c.library)
	c.managed, c.health = managed.New(), health.New()
	snap, err := c.cfg.Store.LatestSnapshot(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Head{}, nil
	case errors.Is(err, store.ErrCorrupt):
		c.cfg.Log.Warn("every snapshot is damaged; folding the log from its start", "err", err)
		return store.Head{}, nil
	case err != nil:
		return store.Head{}, fmt.Errorf("read the newest snapshot: %w", err)
	case snap.Format != snapshotFormat:
		c.cfg.Log.Info("the newest snapshot is of another version; folding the log from its start", "format", snap.Format)
		return store.Head{}, nil
	}
	if len(snap.Skipped) > 0 {
		c.cfg.Log.Warn("newer snapshots are damaged", "at", snap.Skipped)
	}
	body := snapshot{State: plan.New(c.library)}
	if err := json.Unmarshal(snap.Body, &body); err != nil {
		return store.Head{}, fmt.Errorf("decode the snapshot at %d: %w", snap.At.Seq, err)
	}
	c.library.Restore(body.Places)
	if err := plan.Restore(body.State, c.library); err != nil {
		return store.Head{}, fmt.Errorf("restore the snapshot at %d: %w", snap.At.Seq, err)
	}
	c.state, c.memory = body.State, trusted.Remember(body.Trust, body.Roots, c.library)
	c.managed, c.health = managed.Restore(body.Managed), health.Restore(body.Health)
	return snap.At, nil
}

func (c *Control) takeSnapshot() (store.Snapshot, error) {
	body, err := json.Marshal(snapshot{State: c.state, Managed: c.managed, Health: c.health, Places: c.library.Places(), Trust: c.memory.State, Roots: c.memory.Roots})
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("encode the state: %w", err)
	}
	at := store.Head{Seq: c.head.Seq, Term: c.recordTerm, Hash: c.head.Hash}
	return store.Snapshot{At: at, Format: snapshotFormat, Body: body}, nil
}

// maybeSnapshot saves the state when enough was appended. Encoding it holds the
// reducer up, writing it does not.
func (c *Control) maybeSnapshot() {
	if c.sinceSnapshot < c.cfg.SnapshotEvery {
		return
	}
	c.sinceSnapshot = 0
	snap, err := c.takeSnapshot()
	if err != nil {
		c.cfg.Log.Error("no snapshot", "err", err)
		return
	}
	c.savers.Go(func() {
		if err := c.cfg.Store.SaveSnapshot(context.Background(), snap); err != nil {
			// The log has it all; a snapshot only shortens the next start.
			c.cfg.Log.Error("no snapshot", "err", err)
		}
	})
}

// lastSnapshot saves the state at a clean stop, so that the next start folds
// nothing.
func (c *Control) lastSnapshot() error {
	if c.sinceSnapshot == 0 || c.head.Seq == 0 {
		return nil
	}
	snap, err := c.takeSnapshot()
	if err == nil {
		err = c.cfg.Store.SaveSnapshot(context.Background(), snap)
	}
	switch {
	case errors.Is(err, store.ErrBroken):
		return c.lost(err)
	case err != nil:
		c.cfg.Log.Error("no snapshot at the end", "err", err)
	}
	return nil
}
