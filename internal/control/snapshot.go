package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
)

// fromStart sets the state to what the log begins with.
func (c *Control) fromStart(ctx context.Context) (store.Head, error) {
	begin, err := documents.Begin(ctx, c.cfg.Store)
	if err == nil {
		c.state, c.trust, err = begin.Fold(c.library)
	}
	return begin.Through, err
}

// fromSnapshot sets the state to the newest snapshot of this format, or to what the log
// begins with, and returns where the log goes on from.
func (c *Control) fromSnapshot(ctx context.Context) (store.Head, error) {
	snap, err := c.cfg.Store.LatestSnapshot(ctx)
	base, failed := c.cfg.Store.Base(ctx)
	switch {
	case failed != nil:
		return store.Head{}, failed
	case errors.Is(err, store.ErrNotFound):
		return c.fromStart(ctx)
	case errors.Is(err, store.ErrCorrupt):
		c.cfg.Log.Warn("every snapshot is damaged; folding the log from its start", "err", err)
		return c.fromStart(ctx)
	case err != nil:
		return store.Head{}, fmt.Errorf("read the newest snapshot: %w", err)
	case snap.At.Seq < base.Seq:
		c.cfg.Log.Warn("the newest snapshot is older than the log; folding that from its start", "at", snap.At.Seq, "begins", base.Seq)
		return c.fromStart(ctx)
	case snap.Format != documents.StateFormat:
		c.cfg.Log.Info("the newest snapshot is of another version; folding the log from its start", "format", snap.Format)
		return c.fromStart(ctx)
	}
	if len(snap.Skipped) > 0 {
		c.cfg.Log.Warn("newer snapshots are damaged", "at", snap.Skipped)
	}
	at := documents.Checkpoint{Through: snap.At, State: snap.Body}
	c.state, c.trust, err = at.Fold(c.library)
	if errors.Is(err, server.ErrOtherFolds) {
		c.cfg.Log.Info("folding the log from its start", "err", err)
		return c.fromStart(ctx)
	}
	return snap.At, err
}

func (c *Control) takeSnapshot() (store.Snapshot, error) {
	body, err := c.state.Snapshot()
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("encode the state: %w", err)
	}
	at := store.Head{Seq: c.head.Seq, Term: c.recordTerm, Hash: c.head.Hash}
	return store.Snapshot{At: at, Format: documents.StateFormat, Body: body}, nil
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
		if err := c.past.kept.keep(documents.Checkpoint{Through: snap.At, State: snap.Body}); err != nil {
			c.cfg.Log.Warn("a state of the past is not kept; looking back takes longer", "err", err)
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
