package control

import (
	"context"
	"errors"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// Begin returns what the log begins with.
func (c *Control) Begin(ctx context.Context) (documents.Checkpoint, error) {
	return documents.Begin(ctx, c.cfg.Store)
}

// Base is what the log begins behind; see store.Log.
func (c *Control) Base(ctx context.Context) (store.Head, error) { return c.cfg.Store.Base(ctx) }

// Records returns records of the log after a sequence; see store.Log. After zero are those
// that were not pruned.
func (c *Control) Records(ctx context.Context, after uint64, limit int) ([]event.Record, error) {
	if after == 0 {
		base, err := c.cfg.Store.Base(ctx)
		if err != nil {
			return nil, err
		}
		after = base.Seq
	}
	records, err := c.cfg.Store.Read(ctx, after, limit)
	if pruned, is := errors.AsType[*store.PrunedError](err); is {
		return nil, wire.Refuse(wire.ErrNotFound, "%v; ask for those after %d", err, pruned.Base.Seq)
	}
	return records, err
}

// Manifest returns a manifest that an accepted release lists or listed, with all
// of its leaves. It is shared and must not be changed.
func (c *Control) Manifest(d digest.Digest) (*rollout.Manifest, error) { return c.library.Manifest(d) }

// RecordsAbout returns records about a subject after a sequence; see store.Log.
func (c *Control) RecordsAbout(ctx context.Context, subject event.Subject, after uint64, limit int) ([]event.Record, error) {
	return c.cfg.Store.ReadAbout(ctx, subject, after, limit)
}

// LastAbout returns the last records about a subject, newest first; see store.Log.
func (c *Control) LastAbout(ctx context.Context, subject event.Subject, limit int) ([]event.Record, error) {
	return c.cfg.Store.LastAbout(ctx, subject, limit)
}

// Follow hands on every record after a sequence as it is committed, until ctx
// ends, the server stops, or fn returns an error, which it returns.
func (c *Control) Follow(ctx context.Context, after uint64, fn func([]event.Record) error) error {
	const page = 500
	ctx, stop := c.untilStopping(ctx)
	defer stop()
	for {
		records, err := c.Records(ctx, after, page)
		if err != nil {
			return err
		}
		if len(records) > 0 {
			after = records[len(records)-1].Seq
			if err := fn(records); err != nil {
				return err
			}
			continue
		}
		if _, err := c.cfg.Store.Wait(ctx, store.Head{Seq: after, Term: c.Head().Term}); err != nil {
			return err
		}
	}
}
