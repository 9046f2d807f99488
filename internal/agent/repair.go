package agent

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// CodeNeedsGrant is the reason of a resource whose repair waits for a grant.
const CodeNeedsGrant engine.Code = "repair_needs_grant"

// disruptive is an action that may stop or replace something that runs. What
// ends a replacement that has begun is not: it must always be able to finish.
type disruptive interface{ Disrupts() bool }

// repairing is what the gate of repairs shares with the reducer.
type repairing struct {
	mu sync.Mutex
	// shut keeps the gate closed while the reducer looks whether a window is over.
	shut bool
	// begun were let through, at an instant, and not seen in a transition since;
	// in were let through since the window opened.
	begun map[engine.Ref]clock.Instant
	in    map[engine.Ref]bool
}

// beginWithin is the longest that may pass between the gate and the record that
// an act has begun, which is one commit. What is not seen by then did not begin:
// another look found the resource as declared.
const beginWithin = 30 * clock.Second

// gate holds repairs that stop what runs until a window is open. What the managed
// layer has is no part of a bundle and asks nobody; a host in flight holds its
// slot already.
func (a *Agent) gate(_ context.Context, rep reconcile.Repair) reconcile.Hold {
	d, ok := rep.Action.(disruptive)
	if !ok || !d.Disrupts() || rep.Parent == layer.Current {
		return reconcile.Hold{}
	}
	p := &a.repairing
	p.mu.Lock()
	defer p.mu.Unlock()
	s := a.status.Load()
	if !s.Machine.Settled() {
		return reconcile.Hold{}
	}
	delete(p.begun, rep.Ref)
	if now := a.time.Now(); !p.shut && s.Repairs.Open(now) {
		p.begun[rep.Ref], p.in[rep.Ref] = now, true
		return reconcile.Hold{}
	}
	return reconcile.Hold{Reason: engine.Because(CodeNeedsGrant, rep.Reason.String())}
}

// seen takes note of committed transitions, and reports whether one of them may
// matter to repairs.
func (a *Agent) seen(ts []engine.Transition) bool {
	p := &a.repairing
	p.mu.Lock()
	defer p.mu.Unlock()
	news := a.status.Load().Repairs.Grant != ""
	for i := range ts {
		delete(p.begun, ts[i].Ref)
		news = news || ts[i].From == engine.Drifted || ts[i].To == engine.Drifted
	}
	return news
}

// close shuts the gate and returns what was let through before.
func (p *repairing) close(now clock.Instant) (begun bool, in map[engine.Ref]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	in = make(map[engine.Ref]bool, len(p.in))
	for ref := range p.in {
		in[ref] = true
	}
	for ref, at := range p.begun { // order-free
		if now.Sub(at) >= beginWithin {
			delete(p.begun, ref)
		}
	}
	return len(p.begun) > 0, in
}

// reopen ends close; over says that the window is.
func (p *repairing) reopen(over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = false
	if over {
		clear(p.in)
		clear(p.begun)
	}
}

// drift looks at what is held back and, while a window is open, at what is under
// way in it.
func (a *Agent) drift(ctx context.Context, r *host.Repairs, begun bool, in map[engine.Ref]bool) (host.Drift, error) {
	f := reconcile.Filter{Phases: []engine.Phase{engine.Drifted}}
	if r.Grant != "" {
		f.Phases = nil
		for _, name := range r.Names {
			in[refOf(name)] = true
		}
	}
	d := host.Drift{Pending: begun, Running: begun}
	rows, err := a.rows.List(context.WithoutCancel(ctx), f)
	for i := range rows {
		row, name := &rows[i], rows[i].Ref.String()
		if row.Phase == engine.Drifted {
			if row.Reason.Code == CodeNeedsGrant && row.Parent != layer.Current {
				if d.Held = append(d.Held, name); len(d.Held) == 1 {
					d.Reason = system.Scrub(row.Reason.Words, 512)
				}
			}
			continue
		}
		if !in[row.Ref] || row.Retire || row.ConvergedGen != row.Generation {
			continue
		}
		switch row.Phase {
		case engine.Acting:
			d.Pending, d.Running = true, true
		case engine.Failed:
			d.Failed = append(d.Failed, name)
		case engine.Verifying, engine.Retrying, engine.Waiting, engine.Pending:
			d.Pending = true
		}
	}
	slices.Sort(d.Held)
	return d, err
}

func refOf(name string) engine.Ref {
	kind, id, _ := strings.Cut(name, "/")
	return engine.Ref{Kind: kind, ID: id}
}

// lookAtDrift tells the machine's reducer where repairs stand. Like looked it asks
// for the present and not for a history.
func (r *reducer) lookAtDrift(ctx context.Context, t *turn) error {
	before := r.state.Repairs
	var begun bool
	in := map[engine.Ref]bool{}
	if before.Grant != "" {
		if begun, in = r.a.repairing.close(t.now); begun {
			time.AfterFunc(beginWithin.Std(), func() { nudge(r.a.look) })
		}
	}
	d, err := r.a.drift(ctx, &before, begun, in)
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
		r.a.repairing.reopen(false)
		if after.Open(t.now) {
			r.kickHeld(d.Held)
		}
	} // else it stays shut until what is open is published
	return nil
}

func (r *reducer) kickHeld(names []string) {
	for _, name := range names {
		r.a.loop.Kick(refOf(name), because(r.state.Repairs.Grant))
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
	a.within(&o, a.status.Load().plan.Windows)
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
	c.r.a.repairing.reopen(true)
	c.r.a.cfg.Log.Info("repair over", "grant", e.Grant, "ok", e.OK, "detail", e.Detail)
	return nil
}

// OpenRepair has every held repair asked again, and looks whether there is one.
func (c *carrying) OpenRepair(host.OpenRepair) error {
	c.r.kickHeld(c.r.state.Repairs.Names)
	nudge(c.r.a.look)
	return nil
}
