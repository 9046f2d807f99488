package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/agent/courier"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// courier brings events, heartbeats and renewals to the server.
func (a *Agent) courier() *courier.Courier {
	return courier.New(courier.Options{
		Fleet: a.id.Fleet, Host: a.id.Host, Incarnation: a.id.Incarnation, Key: a.eventKey,
		Outbox: a.store, Server: a.client, Agent: carried{a}, Now: a.time.Now, Log: a.cfg.Log,
	})
}

// carried is the agent as the courier sees it.
type carried struct{ a *Agent }

var _ courier.Agent = carried{}

// Heartbeat implements courier.Agent, as do all methods below.
func (c carried) Heartbeat(ctx context.Context) (wire.HeartbeatReply, error) { return c.a.beat(ctx) }

func (c carried) Tuned(ctx context.Context, r wire.HeartbeatReply) error {
	return courier.Fatal(c.a.hosting.Replied(ctx, r))
}

// Learn takes newer signed documents, which the reply says there are.
func (c carried) Learn(ctx context.Context, r wire.HeartbeatReply) error {
	a := c.a
	var err error
	switch {
	case a.follower.Behind(r.RootVersion, r.TimestampVersion):
		err = a.refresh(ctx)
	case a.unlearned.Load():
		err = a.learnDelegation(ctx)
	}
	if err != nil {
		return err
	}
	a.learnOverrides(ctx, r.Overrides)
	return nil
}

func (c carried) RenewIn() time.Duration          { return c.a.cert.Due().Sub(c.a.wall()) }
func (c carried) Renew(ctx context.Context) error { return c.a.renew(ctx) }

func (c carried) Healthy() error {
	if err := c.a.loop.StoreErr(); err != nil {
		return fmt.Errorf("the reconcile loop could not use agent.db: %w", err)
	}
	return nil
}

func (c carried) Away(what string, err error) { c.a.away(what, err) }

// beat sends one heartbeat.
func (a *Agent) beat(ctx context.Context) (wire.HeartbeatReply, error) {
	last, acked, err := a.store.Heads(ctx)
	if err != nil {
		return wire.HeartbeatReply{}, courier.Fatal(err)
	}
	beat := wire.Heartbeat{
		AgentVersion: a.cfg.Version, Incarnation: a.id.Incarnation, BootID: a.time.BootID(),
		Current: a.status.Load().Machine.Current, Repairing: a.status.Load().Repairs.Grant, LastSeq: last, Pending: int(last - min(acked, last)),
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

// refresh takes a newer timestamp. A refusal is reported; it is no reason not
// to talk to the server.
func (a *Agent) refresh(ctx context.Context) error {
	err := a.follower.Refresh(ctx)
	var stored *verify.StoreError
	switch {
	case errors.As(err, &stored):
		return courier.Fatal(err)
	case errors.As(err, new(*trust.Error)):
		a.post(ctx, refused{err: err})
		return nil
	case err != nil:
		return err
	}
	return a.learnDelegation(ctx)
}
