package agent

import (
	"context"
	"database/sql"

	"github.com/steadyfleet/steady/internal/agent/journal"
	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// durable carries out the part of an effect that belongs in the transaction of
// the state that caused it.
type durable struct {
	r   *reducer
	ctx context.Context
	tx  *sql.Tx
	t   *turn
}

var _ host.Effects = (*durable)(nil)

func (d *durable) Activate(host.Activate) error { return d.desire(forward(&d.r.state.Machine)) }
func (d *durable) Revert(host.Revert) error     { return d.desire(back(&d.r.state.Machine)) }

func (d *durable) desire(g system.Generation) error {
	_, err := d.r.a.rows.ApplyTx(d.ctx, d.tx, engine.Upsert(system.Current, g), d.t.now, because(g.Run))
	return err
}

func because(run string) engine.Cause {
	return engine.Cause{Trigger: engine.TriggerOperator, ID: run}
}

func (d *durable) Quarantine(e host.Quarantine) error {
	return d.append(event.BundleQuarantined{Rollout: d.r.state.Machine.Rollout, Digest: e.Digest, Reason: e.Reason})
}

func (d *durable) Decline(e host.Decline) error {
	return d.append(event.GrantDeclined{Grant: system.Scrub(e.Grant, 512), Code: e.Code, Detail: e.Detail})
}

func (d *durable) append(e event.Event) error {
	d.t.events = append(d.t.events, e) // so that the sender is woken
	return journal.Append(d.ctx, d.tx, d.t.now, e)
}

func (d *durable) StartProbes(host.StartProbes) error { return nil }
func (d *durable) Prepare(host.Prepare) error         { return nil }
func (d *durable) Claim(host.Claim) error             { return nil }

// carrying carries out the rest once that transaction is durable.
type carrying struct {
	r   *reducer
	ctx context.Context
}

var _ host.Effects = (*carrying)(nil)

func (c *carrying) Activate(host.Activate) error { return c.kick() }
func (c *carrying) Revert(host.Revert) error     { return c.kick() }

func (c *carrying) kick() error {
	c.r.a.loop.Kick(system.Current, because(c.r.state.Machine.Grant))
	return nil
}

func (c *carrying) StartProbes(e host.StartProbes) error {
	c.r.startProbes(e.Probes)
	return nil
}

func (r *reducer) startProbes(probes []fleet.Probe) {
	r.round++
	r.probing = len(probes) > 0
	r.a.runner.Start(probe.Set{Probes: probes, Round: r.round, Env: probe.Env{
		Dir: r.a.cfg.Root, Env: system.Environment(r.a.cfg.Root, r.a.id.Host, bundleOf(&r.state.Machine)),
		Resources: r.a.hosting.Watch(),
	}})
}

func (c *carrying) Prepare(e host.Prepare) error {
	c.work(e.Offer.Grant, func(ctx context.Context) error { return c.r.a.prepare(ctx, e.Offer) })
	return nil
}

func (c *carrying) Claim(e host.Claim) error {
	c.work(e.Offer.Grant, func(ctx context.Context) error { return c.r.a.claim(ctx, e.Offer) })
	return nil
}

// work runs f for a grant instead of whatever was done for one before.
func (c *carrying) work(grant string, f func(ctx context.Context) error) {
	c.r.worker.stop()
	ctx, cancel := context.WithCancel(c.ctx)
	c.r.worker = worker{grant: grant, cancel: cancel}
	c.r.workers.Go(func() error {
		defer cancel()
		return f(ctx)
	})
}

func (c *carrying) Quarantine(host.Quarantine) error { return nil }

func (c *carrying) Decline(e host.Decline) error {
	c.r.a.cfg.Log.Warn("declined a grant: nothing was changed", "grant", e.Grant, "code", e.Code, "detail", system.Scrub(e.Detail, 1024))
	return nil
}
