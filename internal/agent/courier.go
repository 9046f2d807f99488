package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds on what a server may tune.
const (
	minHeartbeat = 5 * clock.Second
	maxHeartbeat = 10 * clock.Minute
)

// maxConflicts bounds how often one round starts again from where the server
// says that it stands: a server that contradicts itself is asked later.
const maxConflicts = 4

// courier brings events, heartbeats and renewals to the server, one at a time.
type courier struct {
	a        *Agent
	interval time.Duration // of heartbeats
	beatAt   time.Time
	retryAt  time.Time // not before, after the server did not answer
	renewAt  time.Time // not before, after a failure
	pruneAt  time.Time
	failing  client.Backoff
	renewing client.Backoff
}

// carry runs the courier until ctx ends or the database fails.
func (a *Agent) carry(ctx context.Context) error {
	now := time.Now()
	c := &courier{a: a, interval: wire.DefaultHeartbeat.Std(), beatAt: now, pruneAt: now,
		renewing: client.Backoff{Base: clock.Second, Cap: 10 * clock.Minute}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-a.back:
		case <-a.send:
			if time.Now().Before(c.retryAt) {
				continue // backing off: the timer still runs
			}
		}
		wait, err := c.round(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		timer.Reset(wait)
	}
}

// round does all that is due and returns when to come again. It fails only with
// the database.
func (c *courier) round(ctx context.Context) (time.Duration, error) {
	a := c.a
	if n := a.loop.Stats().StoreErrs; n > 0 {
		return 0, fmt.Errorf("the reconcile loop could not use agent.db %d times", n)
	}
	err := c.events(ctx)
	if err == nil && (a.beatNow.Swap(false) || !time.Now().Before(c.beatAt)) {
		err = c.heartbeat(ctx)
	}
	var db *databaseError
	if errors.As(err, &db) {
		return 0, db.err
	}
	if err != nil {
		if ctx.Err() == nil {
			a.away("events and heartbeats", err)
		}
		wait := c.failing.Next()
		c.retryAt = time.Now().Add(wait)
		return wait, nil
	}
	c.failing.Reset()
	c.retryAt = time.Time{} // or an event in that time would wait for the next heartbeat
	c.renew(ctx)
	if !time.Now().Before(c.pruneAt) {
		c.pruneAt = time.Now().Add(time.Hour)
		if err := a.store.Prune(ctx, a.time.Now()); err != nil {
			return 0, err
		}
	}
	renew := max(a.cert.Due().Sub(a.wall()), time.Until(c.renewAt))
	return max(0, min(time.Until(c.beatAt), renew)), nil
}

// databaseError separates what must end the process from what the network did.
type databaseError struct{ err error }

func (e *databaseError) Error() string { return e.err.Error() }

func database(err error) error {
	if err == nil {
		return nil
	}
	return &databaseError{err}
}

// events sends what is pending, in order, until nothing is.
func (c *courier) events(ctx context.Context) error {
	a := c.a
	for conflicts := 0; ; {
		b, err := a.store.Pending(ctx)
		if err != nil {
			return database(err)
		}
		if len(b.Events) == 0 {
			return nil
		}
		head := identity.Chain{Seq: b.Head.Seq, Hash: [32]byte(b.Head.Hash)}
		sig, err := identity.SignHead(a.eventKey, a.id.Fleet, a.id.Host, a.id.Incarnation, head)
		if err != nil {
			return err
		}
		ack, err := a.client.Events(ctx, wire.EventBatch{
			Incarnation: a.id.Incarnation, Events: b.Events,
			Head: wire.Head{Seq: b.Head.Seq, Hash: b.Head.Hash, Signature: sig},
		})
		if client.StatusOf(err) == http.StatusConflict {
			if err := c.conflict(ctx, b.Events[0].Seq, ack); err != nil {
				return err
			}
			if conflicts++; conflicts == maxConflicts {
				return fmt.Errorf("the server sent this host to another place in its events %d times: %s", conflicts, ack.Reason)
			}
			continue
		}
		if err != nil {
			return err
		}
		if ack.Acked < b.Events[0].Seq || ack.Acked > b.Head.Seq {
			return fmt.Errorf("the server acknowledged event %d of a batch from %d to %d", ack.Acked, b.Events[0].Seq, b.Head.Seq)
		}
		if err := a.store.Ack(ctx, ack.Acked); err != nil {
			return database(err)
		}
	}
}

// conflict goes on from where the server stands, if this host still can.
func (c *courier) conflict(ctx context.Context, first uint64, ack wire.EventAck) error {
	last, acked, err := c.a.store.Heads(ctx)
	if err != nil {
		return database(err)
	}
	oldest, err := c.a.store.Oldest(ctx)
	if err != nil {
		return database(err)
	}
	switch {
	case ack.Acked > last:
		return fmt.Errorf("the server holds event %d and this host has only made %d: its state was set back or its identity runs twice; enrol it again (%s)", ack.Acked, last, ack.Reason)
	case ack.Acked+1 == first:
		return fmt.Errorf("the server refuses the events after %d: %s", ack.Acked, ack.Reason)
	case ack.Acked+1 < oldest:
		return fmt.Errorf("the server asks for events from %d and this host keeps them from %d; enrol it again (%s)", ack.Acked+1, oldest, ack.Reason)
	}
	c.a.cfg.Log.Warn("going on from where the server stands", "acked", ack.Acked, "was", acked, "reason", ack.Reason)
	return database(c.a.store.Ack(ctx, ack.Acked))
}

// heartbeat says that the host lives and takes what the server tunes.
func (c *courier) heartbeat(ctx context.Context) error {
	a := c.a
	reply, err := a.beat(ctx)
	if err != nil {
		return err
	}
	if reply.Interval > 0 {
		c.interval = min(max(reply.Interval, minHeartbeat), maxHeartbeat).Std()
	}
	c.beatAt = time.Now().Add(c.interval)
	if err := a.hosting.Replied(ctx, reply); err != nil {
		return database(err)
	}
	if err := c.replay(ctx, reply.Acked); err != nil {
		return err
	}
	switch {
	case a.follower.Behind(reply.RootVersion, reply.TimestampVersion):
		err = c.refresh(ctx)
	case a.unlearned.Load():
		err = a.learnDelegation(ctx)
	}
	if err != nil {
		return err
	}
	a.learnOverrides(ctx, reply.Overrides)
	return nil
}

// refresh takes a newer timestamp. A refusal is reported; it is no reason not
// to talk to the server.
func (c *courier) refresh(ctx context.Context) error {
	err := c.a.follower.Refresh(ctx)
	var stored *verify.StoreError
	switch {
	case errors.As(err, &stored):
		return database(err)
	case errors.As(err, new(*trust.Error)):
		c.a.post(ctx, refused{err: err})
		return nil
	case err != nil:
		return err
	}
	return c.a.learnDelegation(ctx)
}

// replay sends again what a server that lost its newest records does not hold.
func (c *courier) replay(ctx context.Context, held uint64) error {
	_, acked, err := c.a.store.Heads(ctx)
	if err != nil {
		return database(err)
	}
	if held >= acked {
		return nil
	}
	oldest, err := c.a.store.Oldest(ctx)
	if err != nil {
		return database(err)
	}
	c.a.cfg.Log.Warn("the server holds fewer events than it acknowledged; sending them again", "held", held, "acked", acked)
	if err := c.a.store.Ack(ctx, max(held, max(oldest, 1)-1)); err != nil {
		return database(err)
	}
	return c.events(ctx)
}

// beat sends one heartbeat.
func (a *Agent) beat(ctx context.Context) (wire.HeartbeatReply, error) {
	last, acked, err := a.store.Heads(ctx)
	if err != nil {
		return wire.HeartbeatReply{}, database(err)
	}
	beat := wire.Heartbeat{
		AgentVersion: a.cfg.Version, Incarnation: a.id.Incarnation, BootID: a.time.BootID(),
		Current: a.status.Load().Machine.Current, LastSeq: last, Pending: int(last - min(acked, last)),
		Uptime: int64(time.Since(a.started) / time.Second), Process: a.process, Mark: a.mark.Load(),
	}
	if err := a.hosting.Fill(ctx, &beat); err != nil {
		return wire.HeartbeatReply{}, err
	}
	reply, err := a.client.Heartbeat(ctx, beat)
	if err == nil {
		a.mark.Store(reply.Mark)
	}
	return reply, err
}

// renew renews the certificate when it is time.
func (c *courier) renew(ctx context.Context) {
	if c.a.wall().Before(c.a.cert.Due()) || time.Now().Before(c.renewAt) {
		return
	}
	if err := c.a.renew(ctx); err != nil {
		c.a.cfg.Log.Warn("the certificate was not renewed", "error", err)
		c.renewAt = time.Now().Add(c.renewing.Next())
		return
	}
	c.renewing.Reset()
}
