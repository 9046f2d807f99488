// Package courier brings what a host has to say to its server, one thing at a time:
// events in order until they are acknowledged, heartbeats, and the renewal of the
// certificate. It decides only when to come again. It must not read what it carries,
// nor act on an answer: the agent does.
package courier

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds on what a server may tune.
const (
	minHeartbeat = 5 * clock.Second
	maxHeartbeat = 10 * clock.Minute
)

// MaxConflicts bounds how often one round starts again from where the server
// says that it stands: a server that contradicts itself is asked later.
const MaxConflicts = 4

// Agent is what the courier asks of the agent it runs in. Errors that Fatal marks
// end it; with others it comes again later.
type Agent interface {
	// Heartbeat sends one heartbeat.
	Heartbeat(ctx context.Context) (wire.HeartbeatReply, error)
	// Tuned takes what the reply to a heartbeat tunes, before the host's events are
	// compared with those that the server holds, and Learn what it hints at after.
	Tuned(ctx context.Context, r wire.HeartbeatReply) error
	Learn(ctx context.Context, r wire.HeartbeatReply) error
	// RenewIn is the time until the certificate is to be renewed, and Renew does it.
	RenewIn() time.Duration
	Renew(ctx context.Context) error
	// Healthy fails when the database did elsewhere in the agent.
	Healthy() error
	// Away notes an error in talking to the server.
	Away(what string, err error)
}

// Options are who the host is, and what the courier carries for it.
type Options struct {
	Fleet, Host string
	Incarnation uint64
	Key         crypto.Signer // of events
	Outbox      *state.Store
	Server      interface {
		Events(ctx context.Context, m wire.EventBatch) (wire.EventAck, error)
	}
	Agent Agent
	Now   func() clock.Instant // the agent's clock
	Log   *slog.Logger
}

// Courier carries for one host. Its methods are for one goroutine.
type Courier struct {
	Options
	interval time.Duration // of heartbeats
	beatAt   time.Time
	retryAt  time.Time // not before, after the server did not answer
	sendAt   time.Time // no events before, after the server put them off
	renewAt  time.Time // not before, after a failure
	pruneAt  time.Time
	failing  client.Backoff
	renewing client.Backoff
}

// New returns a courier that begins with a heartbeat.
func New(o Options) *Courier {
	now := time.Now()
	return &Courier{Options: o, interval: wire.DefaultHeartbeat.Std(), beatAt: now, pruneAt: now,
		renewing: client.Backoff{Base: clock.Second, Cap: 10 * clock.Minute}}
}

// Run carries until ctx ends or the database fails. What is sent on wake says that
// there is something to carry, and on back that a heartbeat is due, whatever the
// interval: the server answers again, and one that was restored from a backup asks
// nothing of hosts that it does not hear.
func (c *Courier) Run(ctx context.Context, wake, back <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-back:
			c.beatAt = time.Now()
		case <-wake:
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
func (c *Courier) round(ctx context.Context) (time.Duration, error) {
	if err := c.Agent.Healthy(); err != nil {
		return 0, err
	}
	err := c.send(ctx)
	if err == nil && !time.Now().Before(c.beatAt) {
		err = c.heartbeat(ctx)
	}
	var db *fatalError
	if errors.As(err, &db) {
		return 0, db.err
	}
	if err != nil {
		if ctx.Err() == nil {
			c.Agent.Away("events and heartbeats", err)
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
		if err := c.Outbox.Prune(ctx, c.Now()); err != nil {
			return 0, err
		}
	}
	renew := max(c.Agent.RenewIn(), time.Until(c.renewAt))
	wait := min(time.Until(c.beatAt), renew)
	if !c.sendAt.IsZero() {
		wait = min(wait, time.Until(c.sendAt))
	}
	return max(0, wait), nil
}

// send is Send, but for the time in which the server takes no more events of this
// host: they stay in the outbox, and heartbeats go on.
func (c *Courier) send(ctx context.Context) error {
	if time.Now().Before(c.sendAt) {
		return nil
	}
	c.sendAt = time.Time{}
	err := c.Send(ctx)
	if wait, off := client.PutOff(err); off {
		c.Log.Warn("the server takes no more events of this host for now; they are kept, and sent later", "after", wait, "error", err)
		c.sendAt = time.Now().Add(wait)
		return nil
	}
	return err
}

// fatalError separates what must end the process from what the network did.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks an error of the database, which must end the process; nil stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

// Send sends what is pending, in order, until nothing is.
func (c *Courier) Send(ctx context.Context) error {
	for conflicts := 0; ; {
		b, err := c.Outbox.Pending(ctx)
		if err != nil {
			return Fatal(err)
		}
		if len(b.Events) == 0 {
			return nil
		}
		head := identity.Chain{Seq: b.Head.Seq, Hash: [32]byte(b.Head.Hash)}
		sig, err := identity.SignHead(c.Key, c.Fleet, c.Host, c.Incarnation, head)
		if err != nil {
			return err
		}
		ack, err := c.Server.Events(ctx, wire.EventBatch{
			Incarnation: c.Incarnation, Events: b.Events,
			Head: wire.Head{Seq: b.Head.Seq, Hash: b.Head.Hash, Signature: sig},
		})
		if client.StatusOf(err) == http.StatusConflict {
			if err := c.conflict(ctx, b.Events[0].Seq, ack); err != nil {
				return err
			}
			if conflicts++; conflicts == MaxConflicts {
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
		if err := c.Outbox.Ack(ctx, ack.Acked); err != nil {
			return Fatal(err)
		}
	}
}

// conflict goes on from where the server stands, if this host still can.
func (c *Courier) conflict(ctx context.Context, first uint64, ack wire.EventAck) error {
	last, acked, err := c.Outbox.Heads(ctx)
	if err != nil {
		return Fatal(err)
	}
	oldest, err := c.Outbox.Oldest(ctx)
	if err != nil {
		return Fatal(err)
	}
	switch {
	case ack.Acked > last:
		return fmt.Errorf("the server holds event %d and this host has only made %d: its state was set back or its identity runs twice; enrol it again (%s)", ack.Acked, last, ack.Reason)
	case ack.Acked+1 == first:
		return fmt.Errorf("the server refuses the events after %d: %s", ack.Acked, ack.Reason)
	case ack.Acked+1 < oldest:
		return fmt.Errorf("the server asks for events from %d and this host keeps them from %d; enrol it again (%s)", ack.Acked+1, oldest, ack.Reason)
	}
	c.Log.Warn("going on from where the server stands", "acked", ack.Acked, "was", acked, "reason", ack.Reason)
	return Fatal(c.Outbox.Ack(ctx, ack.Acked))
}

// heartbeat says that the host lives and takes what the server tunes.
func (c *Courier) heartbeat(ctx context.Context) error {
	reply, err := c.Agent.Heartbeat(ctx)
	if err != nil {
		return err
	}
	if reply.Interval > 0 {
		c.interval = min(max(reply.Interval, minHeartbeat), maxHeartbeat).Std()
	}
	c.beatAt = time.Now().Add(c.interval)
	if err := c.Agent.Tuned(ctx, reply); err != nil {
		return err
	}
	if err := c.replay(ctx, reply.Acked); err != nil {
		return err
	}
	return c.Agent.Learn(ctx, reply)
}

// replay sends again what a server that lost its newest records does not hold.
func (c *Courier) replay(ctx context.Context, held uint64) error {
	_, acked, err := c.Outbox.Heads(ctx)
	if err != nil {
		return Fatal(err)
	}
	if held >= acked {
		return nil
	}
	oldest, err := c.Outbox.Oldest(ctx)
	if err != nil {
		return Fatal(err)
	}
	c.Log.Warn("the server holds fewer events than it acknowledged; sending them again", "held", held, "acked", acked)
	if err := c.Outbox.Ack(ctx, max(held, max(oldest, 1)-1)); err != nil {
		return Fatal(err)
	}
	return c.send(ctx)
}

// renew renews the certificate when it is time.
func (c *Courier) renew(ctx context.Context) {
	if c.Agent.RenewIn() > 0 || time.Now().Before(c.renewAt) {
		return
	}
	if err := c.Agent.Renew(ctx); err != nil {
		c.Log.Warn("the certificate was not renewed", "error", err)
		c.renewAt = time.Now().Add(c.renewing.Next())
		return
	}
	c.renewing.Reset()
}
