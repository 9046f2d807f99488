package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
)

// checkpointsKept is about how many checkpoints the log has within the time that it is
// kept: with more of them it is pruned sooner, and they take more room.
const checkpointsKept = 4

// wanted is an encoding of what the audit knows at a record.
type wanted struct {
	seq  uint64
	raw  json.RawMessage
	err  error
	done chan struct{}
}

// want asks for what the audit knows at a record that it has not gone past.
func (a *auditor) want(seq uint64) *wanted {
	w := &wanted{seq: seq, done: make(chan struct{})}
	a.logMu.Lock()
	defer a.logMu.Unlock()
	a.wanted = w
	a.encode()
	return w
}

// encode answers want. The caller has logMu.
func (a *auditor) encode() {
	w := a.wanted
	switch at := a.log.Seq(); {
	case w == nil:
		return
	case a.ended:
		w.err = errors.New("the log is not audited any more")
	case at < w.seq:
		return
	case at > w.seq:
		w.err = fmt.Errorf("the audit has gone past record %d", w.seq)
	default:
		w.raw, w.err = a.log.Snapshot()
	}
	a.wanted = nil
	close(w.done)
}

// end has nobody wait for the audit any more.
func (a *auditor) end() {
	a.logMu.Lock()
	defer a.logMu.Unlock()
	a.ended = true
	a.encode()
}

func (a *auditor) isEnded() bool {
	a.logMu.Lock()
	defer a.logMu.Unlock()
	return a.ended
}

// comesTo returns what the log comes to at its end, as the reducer and the audit have it,
// and the manifests that the reducer reads.
func (c *Control) comesTo(ctx context.Context) (at documents.Checkpoint, live []digest.Digest, err error) {
	var w *wanted
	failed := c.View(ctx, func(*plan.State) { // between two turns
		var snap store.Snapshot
		if snap, err = c.takeSnapshot(); err == nil {
			at.Through, at.State = snap.At, snap.Body
			live, _ = c.state.Live()
			w = c.audit.want(snap.At.Seq)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return at, nil, err
	}
	select {
	case <-w.done:
		at.Audit = w.raw
		return at, live, w.err
	case <-ctx.Done():
		return at, nil, ctx.Err()
	}
}

// PruneLog records what the log comes to when the last checkpoint is old, and removes the
// records up to the newest checkpoint that is older than the log is to be kept.
func (c *Control) PruneLog(ctx context.Context) error {
	keep := c.cfg.KeepLog
	if keep <= 0 {
		return nil
	}
	c.pruning.Lock() // the audit answers one at a time
	defer c.pruning.Unlock()
	if c.SetBack() != nil || c.safeBlock.Load() != nil {
		return fmt.Errorf("%w: the log may lack records", errPutOff)
	}
	all, base, err := documents.Checkpoints(ctx, c.cfg.Store)
	if err != nil {
		return err
	}
	var signed, needed clock.Instant
	if err := c.View(ctx, func(s *plan.State) { signed, needed = s.Timestamp.IssuedAt, s.Undecided() }); err != nil {
		return err
	}
	// No clock of the server's alone makes a record old: a signed timestamp bounds it or, before the
	// first, that checkpoints are as far apart as the log shows time to have passed.
	now, least, apart := c.now(), 0, clock.Duration(0)
	if signed != 0 {
		now = min(now, signed)
	} else {
		least, apart = checkpointsKept, keep/checkpointsKept
	}
	for i := range all {
		r := &all[i]
		if i < least || r.Through <= base.Seq || r.At.Add(keep) > now || needed != 0 && r.At > needed {
			continue
		}
		if err := c.pruneTo(ctx, r); err != nil {
			return err
		}
		break
	}
	return c.checkpoint(ctx, all, now.Add(-keep/checkpointsKept), apart)
}

// maxGap is how much of the time between two records counts, at most, where nothing but the server's clock
// reports how long it was: one that was set years ahead makes nothing old.
const maxGap = clock.Day

// shownTime is how long the server's records behind a sequence show time to have passed until now.
func (c *Control) shownTime(ctx context.Context, after uint64, gap clock.Duration) (shown clock.Duration, err error) {
	var last clock.Instant
	count := func(at clock.Instant) {
		if last != 0 && at > last {
			shown += min(at.Sub(last), gap)
		}
		last = max(last, at)
	}
	for {
		records, err := c.cfg.Store.Read(ctx, after, 1000)
		if err != nil {
			return 0, err
		}
		if len(records) == 0 {
			count(c.now())
			return shown, nil
		}
		for i := range records {
			if after = records[i].Seq; records[i].HostSeq == 0 {
				count(records[i].At)
			}
		}
	}
}

// checkpoint records a checkpoint unless there is one since an instant, or the log since the newest shows
// less than so much time.
func (c *Control) checkpoint(ctx context.Context, all []documents.Recorded, since clock.Instant, apart clock.Duration) error {
	var after uint64
	if len(all) > 0 {
		if after = all[0].Seq - 1; all[0].At > since {
			return nil
		}
	} else { // nor was anything pruned
		first, err := c.cfg.Store.Read(ctx, 0, 1)
		if err != nil || len(first) == 0 || first[0].At > since {
			return err
		}
	}
	if apart > 0 {
		if shown, err := c.shownTime(ctx, after, min(apart/4, maxGap)); err != nil || shown < apart {
			return err
		}
	}
	at, live, err := c.comesTo(ctx)
	if err == nil {
		err = at.Forget(live)
	}
	if err != nil {
		return err
	}
	ev := event.LogCheckpoint{Through: at.Through.Seq, Term: at.Through.Term, Hash: at.Through.Hash[:], Format: documents.StateFormat}
	if ev.State, err = c.cfg.Store.PutBlob(ctx, at.State); err != nil {
		return err
	}
	if ev.Audit, err = c.cfg.Store.PutBlob(ctx, at.Audit); err != nil {
		return err
	}
	return c.submit(ctx, c.normal, recorded("", ev))
}

// pruneTo removes the records up to a checkpoint, once what follows of it is what the server
// and the audit know: what nobody can fold any more must not be needed.
func (c *Control) pruneTo(ctx context.Context, r *documents.Recorded) error {
	begin, err := documents.Load(ctx, c.cfg.Store, r)
	if err != nil {
		return err
	}
	is, _, err := c.comesTo(ctx)
	if err != nil {
		return err
	}
	again, err := c.foldAgain(ctx, begin, is.Through.Seq)
	if err != nil {
		return fmt.Errorf("fold the log from the checkpoint of record %d: %w", r.Through, err)
	}
	if differs := again.Differs(&is); differs != "" {
		return fmt.Errorf("the log is not pruned: from the checkpoint of record %d on it comes to another %s than the server has; steady doctor checks the log", r.Through, differs)
	}
	if err := c.cfg.Store.Prune(ctx, c.Head().Term, r.Head()); err != nil {
		return err
	}
	c.pruned.Store(r.Through)
	c.cfg.Log.Info("pruned the log", "through", r.Through, "checkpointOf", r.At)
	c.audit.inventory.Begin(ctx, &begin)
	return nil
}

var errThere = errors.New("far enough")

// foldAgain returns what the log comes to at a record from a checkpoint on.
func (c *Control) foldAgain(ctx context.Context, begin documents.Checkpoint, upTo uint64) (at documents.Checkpoint, err error) {
	library := documents.New(c.cfg.Store)
	state, _, err := begin.Fold(library)
	if err != nil {
		return at, err
	}
	log, err := begin.Auditor(library)
	if err != nil {
		return at, err
	}
	log.Forget()
	at.Through, err = store.Replay(ctx, c.cfg.Store, begin.Through, func(records []event.Record) error {
		start := time.Now()
		for i := range records {
			r := &records[i]
			if r.Seq > upTo {
				return errThere
			}
			if err := state.Apply(r.Entry); err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
			log.Observe(r.Seq, r.Entry)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Since(start)): // others need the processor
			return nil
		}
	})
	if err != nil && !errors.Is(err, errThere) {
		return at, err
	}
	if at.State, err = state.Snapshot(); err == nil {
		at.Audit, err = log.Snapshot()
	}
	return at, err
}
