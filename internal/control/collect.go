package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/plan"
)

const (
	// collectSoon is when blobs are collected the first time, and again when it was put off.
	collectSoon = 10 * clock.Minute
	// collectPause rests the disk after each blob that was removed.
	collectPause = 2 * time.Millisecond
)

// Collected says what came of a collection.
type Collected struct {
	Removed int
	Bytes   int64
	// Kept are blobs that nothing names, and that are too young to go.
	Kept int
}

// errPutOff says that it is not safe now to say what nothing names.
var errPutOff = errors.New("the collection of blobs is put off")

// watchStore prunes the log and collects blobs while the reducer runs.
func (c *Control) watchStore(ctx context.Context) {
	every := c.cfg.CollectEvery
	for wait := min(collectSoon, every); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Std()):
		}
		done, err := c.CollectBlobs(ctx)
		wait = every
		switch {
		case ctx.Err() != nil || c.cfg.Store.Err() != nil:
			return
		case errors.Is(err, errPutOff):
			wait = min(collectSoon, every)
			c.cfg.Log.Debug("blobs are not collected now", "err", err)
		case err != nil:
			c.cfg.Log.Error("blobs that nothing names are not collected; steady doctor finds what is missing or damaged", "err", err)
		}
		if done.Removed > 0 {
			c.cfg.Log.Info("removed blobs that nothing names", "blobs", done.Removed, "bytes", done.Bytes, "tooYoung", done.Kept)
		}
		// Documents of what is pruned go the next time: a backup of the log may be on its way.
		if err := c.PruneLog(ctx); err != nil && !errors.Is(err, errPutOff) && ctx.Err() == nil && c.cfg.Store.Err() == nil {
			c.cfg.Log.Error("the log is not pruned, and grows", "err", err)
		}
	}
}

// CollectBlobs removes the blobs that neither the log names nor a host may still be given,
// and that were put longer than CollectGrace ago: a request puts its documents before the
// event that names them. It ends early when a release is pushed.
func (c *Control) CollectBlobs(ctx context.Context) (done Collected, err error) {
	before := clock.FromTime(time.Now()).Add(-c.cfg.CollectGrace)
	keep, pushes, err := c.named(ctx)
	if err != nil {
		return done, err
	}
	if err := c.cfg.Store.DropArrived(ctx, before); err != nil {
		return done, err
	}
	for d, err := range c.cfg.Store.Blobs(ctx) {
		if err != nil {
			return done, err
		}
		if _, named := keep[d]; named {
			continue
		}
		size, ok, err := c.removeBlob(ctx, d, before, pushes)
		if err != nil {
			return done, err
		}
		if !ok {
			done.Kept++
			continue
		}
		done.Removed++
		done.Bytes += size
		c.metrics.blobsRemoved.Inc()
		c.metrics.blobBytesRemoved.Add(float64(size))
		time.Sleep(collectPause)
	}
	return done, nil
}

// named returns the blobs that have to be kept, and how many pushes had begun.
func (c *Control) named(ctx context.Context) (keep map[digest.Digest]struct{}, pushes uint64, err error) {
	if !c.pushing.TryLock() {
		return nil, 0, fmt.Errorf("%w: a release is being pushed", errPutOff)
	}
	pushes = c.pushes
	c.pushing.Unlock()
	if c.SetBack() != nil || c.safeBlock.Load() != nil {
		return nil, 0, fmt.Errorf("%w: the log may lack what names them", errPutOff)
	}
	var manifests, bundles []digest.Digest
	var head uint64
	err = c.View(ctx, func(*plan.State) {
		manifests, bundles = c.state.Live()
		head = c.head.Seq
	})
	if err != nil {
		return nil, 0, err
	}
	for _, h := range c.Roster() { // order-free: a set is made of them
		bundles = append(bundles, h.Bundle)
	}
	slices.Sort(bundles)
	if err := c.audit.reach(ctx, head); err != nil {
		return nil, 0, err
	}
	keep, err = c.audit.inventory.Keep(ctx, manifests, slices.Compact(bundles))
	return keep, pushes, err
}

// removeBlob removes a blob unless a release came meanwhile, which may name it.
func (c *Control) removeBlob(ctx context.Context, d digest.Digest, before clock.Instant, pushes uint64) (int64, bool, error) {
	if !c.pushing.TryLock() {
		return 0, false, fmt.Errorf("%w: a release is being pushed", errPutOff)
	}
	defer c.pushing.Unlock()
	if c.pushes != pushes {
		return 0, false, fmt.Errorf("%w: a release was pushed", errPutOff)
	}
	return c.cfg.Store.RemoveBlob(ctx, d, before)
}
