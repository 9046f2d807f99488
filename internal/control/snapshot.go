package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
)

// snapshotFormat names the encoding of a snapshot. A change of what the fold
// makes of old events needs a new name: then the log is folded once more.
const snapshotFormat = "steady/control/v7"

// newState sets the state to the one before the first event.
func (c *Control) newState() {
	c.trust = documents.NewTrust(c.library)
	c.state = server.NewState(c.library, c.trust)
}

// fromSnapshot sets the state to the newest snapshot of this format, or to the
// one before the first event, and returns where the log goes on from.
func (c *Control) fromSnapshot(ctx context.Context) (store.Head, error) {
	c.newState()
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
	if err := c.state.Restore(snap.Body); err != nil {
		if !errors.Is(err, server.ErrOtherFolds) {
			return store.Head{}, fmt.Errorf("restore the snapshot at %d: %w", snap.At.Seq, err)
		}
		c.cfg.Log.Info("folding the log from its start", "err", err)
		c.newState()
		return store.Head{}, nil
	}
	return snap.At, nil
}

func (c *Control) takeSnapshot() (store.Snapshot, error) {
	body, err := c.state.Snapshot()
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("encode the state: %w", err)
	}
	at := store.Head{Seq: c.head.Seq, Term: c.recordTerm, Hash: c.head.Hash}
	return store.Snapshot{At: at, Format: snapshotFormat, Body: body}, nil
}

// maybeSnapshot saves the state when enough was appended. Encoding it holds the
// reducer up, writing it does not.
func (c *Control) maybeSnapshot() {
	if c.sinceSnapshot < c.cfg.SnapshotEvery || c.core.SetBack() != nil {
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
	if c.sinceSnapshot == 0 || c.head.Seq == 0 || c.core.SetBack() != nil {
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
