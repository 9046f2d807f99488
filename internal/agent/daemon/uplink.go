package daemon

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// uplink sends events, heartbeats and renewals to the server.
func (a *Agent) uplink() *uplink.Reporter {
	return uplink.NewReporter(uplink.ReporterOptions{
		Fleet: a.id.Fleet, Host: a.id.Host, Incarnation: a.id.Incarnation, Key: a.eventKey,
		Outbox: a.store, Server: a.client, Agent: uplinkAgent{a}, Now: a.time.Now, Log: a.cfg.Log,
	})
}

// uplinkAgent is the agent as the reporter sees it.
type uplinkAgent struct{ a *Agent }

var _ uplink.Agent = uplinkAgent{}

// Heartbeat implements uplink.Agent, as do all methods below.
func (c uplinkAgent) Heartbeat(ctx context.Context) (wire.HeartbeatReply, error) {
	return c.a.beat(ctx)
}

func (c uplinkAgent) Replied(ctx context.Context, r wire.HeartbeatReply) error {
	if r.Facts {
		c.a.measure(ctx)
	}
	return uplink.Fatal(c.a.hosting.Replied(ctx, r))
}

// FetchSigned takes newer signed documents, which the reply says there are.
func (c uplinkAgent) FetchSigned(ctx context.Context, r wire.HeartbeatReply) error {
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
	return a.learnServers(ctx)
}

func (c uplinkAgent) RenewIn() time.Duration          { return c.a.cert.Due().Sub(c.a.wall()) }
func (c uplinkAgent) Renew(ctx context.Context) error { return c.a.renew(ctx) }

func (c uplinkAgent) Healthy() error {
	if err := c.a.loop.StoreErr(); err != nil {
		return fmt.Errorf("the reconcile loop could not use agent.db: %w", err)
	}
	return nil
}

func (c uplinkAgent) Parked() bool { return c.a.committed.Load().Parked != nil }

func (c uplinkAgent) Compared(ctx context.Context, in core.ServerChain) {
	asked := c.a.committed.Load().Unconfirmed()
	if in.Matters(asked) {
		c.a.post(ctx, in)
	}
	if contact := c.a.contact.Load(); asked && contact != nil { // the answer is a contact too, and none was taken while it asked
		c.a.post(ctx, *contact)
	}
}

func (c uplinkAgent) Unreachable(what string, err error) { c.a.unreachable(what, err) }

// beat sends one heartbeat.
func (a *Agent) beat(ctx context.Context) (wire.HeartbeatReply, error) {
	last, acked, err := a.store.Heads(ctx)
	if err != nil {
		return wire.HeartbeatReply{}, uplink.Fatal(err)
	}
	s := a.committed.Load()
	beat := wire.Heartbeat{
		AgentVersion: a.cfg.Version, Incarnation: a.id.Incarnation, BootID: a.time.BootID(),
		Current: s.Machine.Current, Repairing: s.Repairs.Grant, LastSeq: last, Pending: int(last - min(acked, last)),
		Uptime: int64(time.Since(a.started) / time.Second), Process: a.process, Mark: a.mark.Load(),
		Server: a.client.Server(), Resolved: a.servers.Version,
	}
	if s.Parked != nil {
		beat.Parked = s.Parked.Code
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

// measureEvery is how seldom the host's facts are measured, with a heartbeat.
const measureEvery = 5 * time.Minute

// measure has the reducer report what the host is, if that is news.
func (a *Agent) measure(ctx context.Context) {
	if !a.remeasure.Swap(false) && !a.measuredAt.IsZero() && time.Since(a.measuredAt) < measureEvery {
		return
	}
	a.measuredAt = time.Now()
	in, err := a.hosting.Facts()
	if err != nil {
		a.cfg.Log.Warn("the facts of this host cannot be measured; they are not reported anew", "error", err)
		return
	}
	in.Facts.NeedsReboot = measure.RebootNames(append(in.Facts.NeedsReboot, a.needsReboot(ctx)...))
	a.post(ctx, in)
}

// learnServers keeps the addresses of the server in the accepted snapshot. It fails only
// with the database.
func (a *Agent) learnServers(ctx context.Context) error {
	version, signed := a.follower.Servers()
	was := a.servers
	if version == 0 || version == was.Version {
		return nil
	}
	next := was.Accept(version, signed, a.client.Server())
	if err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.Put(ctx, tx, keyServers, next) }); err != nil {
		return uplink.Fatal(err)
	}
	a.servers = next
	list := next.Addresses(a.cfg.Server, a.id.Server)
	if slices.Equal(list, was.Addresses(a.cfg.Server, a.id.Server)) {
		return nil
	}
	a.cfg.Log.Info("the server's addresses were signed anew", "addresses", list)
	return a.client.Use(list)
}

// refresh takes a newer timestamp. A refusal is reported; it is no reason not
// to talk to the server.
func (a *Agent) refresh(ctx context.Context) error {
	err := a.follower.Refresh(ctx)
	switch {
	case errors.As(err, new(*verify.StoreError)):
		return uplink.Fatal(err)
	case errors.As(err, new(*trust.Error)):
		a.post(ctx, refusal("", err))
		return nil
	case err != nil:
		return err
	}
	return a.learnDelegation(ctx)
}
