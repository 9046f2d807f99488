package uplink

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// MaxConflicts bounds how often one round starts again from where the server
// says that it stands: a server that contradicts itself is asked later.
const MaxConflicts = 4

// Agent is what the reporter needs of the agent that it runs in. Errors that Fatal marks
// end it; with others it comes again later.
type Agent interface {
	// Heartbeat sends one heartbeat.
	Heartbeat(ctx context.Context) (wire.HeartbeatReply, error)
	// Replied applies what the reply to a heartbeat sets, before the host's events are
	// compared with those that the server holds; FetchSigned fetches what it says is
	// newer, after that.
	Replied(ctx context.Context, r wire.HeartbeatReply) error
	FetchSigned(ctx context.Context, r wire.HeartbeatReply) error
	// RenewIn is the time until the certificate is to be renewed, and Renew does it.
	RenewIn() time.Duration
	Renew(ctx context.Context) error
	// Healthy fails when the database did elsewhere in the agent.
	Healthy() error
	// Parked reports whether the host does nothing until it enrols again: it sends no
	// events then, since their numbers are used already. Compared takes what the server
	// has of the host's chain.
	Parked() bool
	Compared(ctx context.Context, in agent.ServerChain)
	// Unreachable notes an error in talking to the server.
	Unreachable(what string, err error)
}

// ReporterOptions are who the host is, and what the reporter sends for it.
type ReporterOptions struct {
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

// Reporter reports for one host. Its methods are for one goroutine.
type Reporter struct {
	ReporterOptions
	pace     agent.Pace
	began    time.Time // what its instants count from
	failing  Backoff
	renewing Backoff
}

// NewReporter returns a reporter that begins with a heartbeat.
func NewReporter(o ReporterOptions) *Reporter {
	return &Reporter{ReporterOptions: o, pace: agent.NewPace(wire.DefaultHeartbeat, 0), began: time.Now(),
		renewing: Backoff{Base: clock.Second, Cap: 10 * clock.Minute}}
}

// now is on a clock that neither jumps nor stands still with the host's own.
func (c *Reporter) now() clock.Instant {
	return clock.Instant(0).Add(clock.FromStd(time.Since(c.began)))
}

// Wakes are what a reporter reacts to.
type Wakes struct {
	// Prompt says that there is something to send, and Later that there is something which
	// can wait for more.
	Prompt, Later <-chan struct{}
	// Heartbeat says that one is due, whatever the interval: the server answers again, and
	// one that was restored from a backup asks nothing of hosts that it does not hear.
	Heartbeat <-chan struct{}
}

// Run reports until ctx ends or the database fails.
func (c *Reporter) Run(ctx context.Context, on Wakes) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-on.Heartbeat:
			c.pace.BeatNow(c.now())
		case <-on.Prompt:
			if !c.pace.Wakes(c.now()) {
				continue // backing off: the timer still runs
			}
		case <-on.Later:
			if c.pace.Wakes(c.now()) { // else the timer still runs
				c.pace.Lingers(c.now())
				timer.Reset(c.next())
			}
			continue
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
func (c *Reporter) round(ctx context.Context) (time.Duration, error) {
	if err := c.Agent.Healthy(); err != nil {
		return 0, err
	}
	var err error
	if !c.Agent.Parked() {
		err = c.send(ctx)
	}
	if err == nil && c.pace.Beats(c.now()) {
		err = c.heartbeat(ctx)
	}
	if db, ok := errors.AsType[*fatalError](err); ok {
		return 0, db.err
	}
	if err != nil {
		if ctx.Err() == nil {
			c.Agent.Unreachable("events and heartbeats", err)
		}
		wait := c.failing.Next()
		c.pace.Failed(clock.FromStd(wait), c.now())
		return wait, nil
	}
	c.failing.Reset()
	c.pace.Answered() // or an event in that time would wait for the next heartbeat
	c.renew(ctx)
	if c.pace.Prunes(c.now()) {
		if err := errors.Join(c.Outbox.Prune(ctx, c.Now()), c.Outbox.Rest(ctx)); err != nil {
			return 0, err
		}
	}
	return c.next(), nil
}

// next is how long there is nothing to do, if nothing comes to be sent.
func (c *Reporter) next() time.Duration {
	return c.pace.Next(clock.FromStd(c.Agent.RenewIn()), c.now()).Std()
}

// send is Send, but for the time in which the server takes no more events of this
// host: they stay in the outbox, and heartbeats go on.
func (c *Reporter) send(ctx context.Context) error {
	if !c.pace.Sends(c.now()) {
		return nil
	}
	err := c.Send(ctx)
	if wait, off := PutOff(err); off {
		c.Log.Warn("the server accepts no more events of this host for now; they are kept and sent later", "after", wait, "error", err)
		c.pace.PutOff(clock.FromStd(wait), c.now())
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
func (c *Reporter) Send(ctx context.Context) error {
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
		if StatusOf(err) == http.StatusConflict {
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
		if err := (agent.Outbox{}).Acknowledge(b.Events[0].Seq, b.Head.Seq, ack.Acked); err != nil {
			return err
		}
		if err := c.Outbox.Ack(ctx, ack.Acked); err != nil {
			return Fatal(err)
		}
	}
}

// conflict goes on from where the server stands, if this host still can.
func (c *Reporter) conflict(ctx context.Context, first uint64, ack wire.EventAck) error {
	o, err := c.Outbox.Bounds(ctx)
	if err != nil {
		return Fatal(err)
	}
	if err := c.compare(ctx, o, ack.Acked, ack.Head); err != nil {
		return err
	}
	if err := o.Resume(first, ack.Acked, ack.Reason); err != nil {
		return err
	}
	c.Log.Warn("going on from where the server stands", "acked", ack.Acked, "was", o.Acked, "reason", ack.Reason)
	return Fatal(c.Outbox.Ack(ctx, ack.Acked))
}

// heartbeat says that the host lives and takes what the server tunes.
func (c *Reporter) heartbeat(ctx context.Context) error {
	reply, err := c.Agent.Heartbeat(ctx)
	if err != nil {
		return err
	}
	c.pace.Replied(reply.Interval, c.now())
	if c.Agent.Parked() {
		return nil
	}
	o, err := c.Outbox.Bounds(ctx)
	if err != nil {
		return Fatal(err)
	}
	if err := c.compare(ctx, o, reply.Acked, reply.Head); err != nil {
		return err
	}
	if err := c.Agent.Replied(ctx, reply); err != nil {
		return err
	}
	if err := c.replay(ctx, reply.Acked); err != nil {
		return err
	}
	return c.Agent.FetchSigned(ctx, reply)
}

// compare tells the agent what the server has of this host's chain. A head that this
// host did not sign proves nothing.
func (c *Reporter) compare(ctx context.Context, o agent.Outbox, held uint64, head *wire.Head) error {
	in := agent.ServerChain{Newest: held, Last: o.Last}
	pub, ok := c.Key.Public().(ed25519.PublicKey)
	if ok && head != nil && len(head.Hash) == sha256.Size {
		end := identity.Chain{Seq: head.Seq, Hash: [32]byte(head.Hash)}
		if identity.VerifyHead(pub, c.Fleet, c.Host, c.Incarnation, end, head.Signature) == nil {
			own, there, err := c.Outbox.HashAt(ctx, head.Seq)
			if err != nil {
				return Fatal(err)
			}
			in.Proven, in.Newest, in.Differs = true, head.Seq, there && !bytes.Equal(own, head.Hash)
		}
	}
	c.Agent.Compared(ctx, in)
	return nil
}

// replay sends again what a server that lost its newest records does not hold.
func (c *Reporter) replay(ctx context.Context, held uint64) error {
	o, err := c.Outbox.Bounds(ctx)
	if err != nil {
		return Fatal(err)
	}
	acked, lost := o.Replay(held)
	if !lost {
		return nil
	}
	c.Log.Warn("the server has fewer events than it acknowledged; sending them again", "held", held, "acked", o.Acked)
	if err := c.Outbox.Ack(ctx, acked); err != nil {
		return Fatal(err)
	}
	return c.send(ctx)
}

// renew renews the certificate when it is time.
func (c *Reporter) renew(ctx context.Context) {
	if !c.pace.Renews(clock.FromStd(c.Agent.RenewIn()), c.now()) {
		return
	}
	if err := c.Agent.Renew(ctx); err != nil {
		c.Log.Warn("the certificate was not renewed", "error", err)
		c.pace.RenewLater(clock.FromStd(c.renewing.Next()), c.now())
		return
	}
	if c.Agent.RenewIn() <= 0 { // not in a tight loop, whatever this host's clock says
		c.Log.Warn("the new certificate is to be renewed at once: the clock of this host is ahead of its server's by more than a certificate lasts; set it right")
		c.pace.RenewLater(clock.FromStd(c.renewing.Next()), c.now())
		return
	}
	c.renewing.Reset()
}
