package agent

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/steadyfleet/steady/internal/agent/repairs"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// repairStanding is the committed state as the gate of repairs reads it.
func (a *Agent) repairStanding() repairs.Standing {
	s := a.status.Load()
	return repairs.Standing{Settled: s.Machine.Settled(), Repairs: s.Repairs}
}

// lookAtDrift tells the machine's reducer where repairs stand. Like looked it asks
// for the present and not for a history.
func (r *reducer) lookAtDrift(ctx context.Context, t *turn) error {
	before := r.state.Repairs
	d, again, err := r.a.repairs.Look(ctx, r.a.rows, &before, t.now)
	if again {
		time.AfterFunc(repairs.BeginWithin.Std(), func() { nudge(r.a.look) })
	}
	if err != nil {
		return errors.Join(errors.New("look at what drifted"), err)
	}
	t.add(r.state.Drifted(d, t.now))
	after := &r.state.Repairs
	t.save = t.save || !reflect.DeepEqual(before, *after)
	if before.Grant == "" {
		return nil
	}
	if after.Grant != "" {
		r.a.repairs.Reopen(false)
		if after.Open(t.now) {
			r.kickHeld(d.Held)
		}
	} // else it stays shut until what is open is published
	return nil
}

func (r *reducer) kickHeld(names []string) {
	for _, name := range names {
		r.a.loop.Kick(repairs.Ref(name), because(r.state.Repairs.Grant))
	}
}

// takeRepair makes an offer of a dispatch. Nothing of it is acted on but when: what
// is repaired is what the host's own verified plan made it run.
func (a *Agent) takeRepair(d *wire.Dispatch) offered {
	o := a.offerOfRepair(d)
	o.Plan.Manifest = d.Manifest // the reducer declines it if that is not the machine's
	return offered{offer: o}
}

func (a *Agent) offerOfRepair(d *wire.Dispatch) host.Offer {
	o := host.Offer{Grant: d.Grant, Purpose: host.Repair, Term: d.Term, Reason: system.Scrub(d.Reason, 512),
		Expires: a.time.Now().Add(min(max(d.TTL, 0), maxGrantLife))}
	o.Within(a.status.Load().plan.Windows, clock.FromTime(a.wall()), a.time.Now(), trust.Slack)
	return o
}

func (d *durable) NeedRepair(e host.NeedRepair) error {
	return d.append(event.RepairNeeded{RepairNeed: e.RepairNeed})
}

func (d *durable) EndRepair(e host.EndRepair) error {
	return d.append(event.RepairOver{Grant: e.Grant, OK: e.OK, Detail: e.Detail})
}

func (d *durable) OpenRepair(host.OpenRepair) error { return nil }

func (c *carrying) NeedRepair(e host.NeedRepair) error {
	c.r.a.cfg.Log.Info("a repair waits for a grant", "resources", e.Resources, "more", e.More, "reason", e.Reason)
	return nil
}

func (c *carrying) EndRepair(e host.EndRepair) error {
	c.r.a.repairs.Reopen(true)
	c.r.a.cfg.Log.Info("repair over", "grant", e.Grant, "ok", e.OK, "detail", e.Detail)
	return nil
}

// OpenRepair has every held repair asked again, and looks whether there is one.
func (c *carrying) OpenRepair(host.OpenRepair) error {
	c.r.kickHeld(c.r.state.Repairs.Names)
	nudge(c.r.a.look)
	return nil
}
