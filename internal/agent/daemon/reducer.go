package daemon

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/agent/state"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// reducer runs the state of core. Only its goroutine touches it.
type reducer struct {
	a       *Agent
	state   core.State
	workers *errgroup.Group
	worker  worker // of the offer
}

// message is an input for the reducer.
type message struct {
	in       core.Input
	manifest []byte // the payload of the manifest that an offer is of, if it has one
}

// worker is what is done about an offer outside the reducer.
type worker struct {
	grant  string
	cancel context.CancelFunc
}

func newReducer(a *Agent, s core.State) *reducer {
	r := &reducer{a: a, state: s, worker: worker{cancel: func() {}}}
	r.publish()
	return r
}

// run takes inputs one by one until ctx ends. Agent.Run has given the first one.
func (r *reducer) run(ctx context.Context) error {
	defer func() { r.worker.cancel() }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if due := r.state.Due(); due != 0 {
			wait = max(time.Millisecond, due.Sub(r.a.time.Now()).Std())
		}
		timer.Reset(min(wait, time.Hour))
		var err error
		select {
		case <-ctx.Done():
			return nil
		case m := <-r.a.inbox:
			err = r.step(ctx, m)
		case <-r.a.wakeObserve:
			err = r.observe(ctx)
		case <-r.a.wakeContact:
			err = r.step(ctx, message{in: *r.a.contact.Load()})
		case <-timer.C:
			err = r.step(ctx, message{in: core.Elapsed{}})
		}
		if err != nil {
			return err
		}
	}
}

// step takes one input: what it causes is made durable in one transaction, then
// carried out.
func (r *reducer) step(ctx context.Context, m message) error {
	a, now := r.a, r.a.time.Now()
	t, err := r.state.Step(m.in, now)
	if err != nil {
		return err
	}
	if t.Dropped != nil {
		a.cfg.Log.Debug("dropped an input", "error", t.Dropped)
	}
	if !t.Save {
		return nil
	}
	// Before the commit: from there on the uplink may send this turn's events, and
	// that nothing follows them for a whole interval of heartbeats must not make their
	// acceptance count for nothing.
	a.era.Store(int64(r.state.Era()))
	a.wantContact.Store(r.state.AwaitsContact())
	if err := r.commit(context.WithoutCancel(ctx), &t, m.manifest, now); err != nil {
		return err
	}
	if a.cut != nil {
		if err := a.cut(); err != nil {
			return err
		}
	}
	r.publish()
	if r.state.Offer == nil || r.state.Offer.Grant != r.worker.grant {
		r.worker.cancel()
	}
	for _, e := range t.Events {
		a.logEvent(e)
	}
	for _, e := range t.Effects {
		if err := e.Run(&executor{r, ctx}); err != nil {
			return err
		}
	}
	switch {
	case slices.ContainsFunc(t.Events, core.Prompt):
		a.report()
	case len(t.Events) > 0:
		wake(a.wakeLater)
	}
	if t.Moved {
		a.hosting.Changed()
		if r.state.Machine.AtRest() && a.hadSystem() { // another one may need a reboot
			a.remeasure.Store(true)
			wake(a.wakeHeartbeat)
		}
	}
	return nil
}

func (r *reducer) commit(ctx context.Context, t *core.Turn, manifest []byte, now clock.Instant) error {
	return r.a.store.Tx(ctx, func(tx *sql.Tx) error {
		for _, e := range t.Events {
			if err := state.Append(ctx, tx, now, e); err != nil {
				return err
			}
		}
		if g := t.Desired; g != nil {
			if _, err := r.a.rows.ApplyTx(ctx, tx, engine.Upsert(system.Current, system.Generation(*g)), now.Time(), because(g.Run)); err != nil {
				return err
			}
		}
		if t.Accepted && manifest != nil {
			if err := r.keepManifest(ctx, tx, manifest); err != nil {
				return err
			}
		}
		return state.PutDoc(ctx, tx, keyAgent, agentDoc{Agent: r.state, Now: now})
	})
}

func because(run string) engine.Cause {
	return engine.Cause{Trigger: engine.TriggerOperator, ID: run}
}

// keepManifest stores the offer's manifest, for a proof or a revert later, and
// drops those that are of no use any more.
func (r *reducer) keepManifest(ctx context.Context, tx *sql.Tx, payload []byte) error {
	next, now := r.state.Offer.Plan.Manifest, r.state.Machine.Manifest
	r.a.follower.Pin(next, now)
	if err := state.Drop(ctx, tx, keyManifest, next.Hex(), now.Hex()); err != nil {
		return err
	}
	return state.Put(ctx, tx, keyManifest+next.Hex(), payload)
}

// publish makes the state readable for others.
func (r *reducer) publish() {
	s := r.state
	r.a.committed.Store(&s)
}

// observe tells the reducer how far the desired generation has come, and what of
// repairs is seen. The gate of repairs stays shut until what follows is committed.
func (r *reducer) observe(ctx context.Context) error {
	in, err := r.a.generation(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if in != nil {
		if err := r.step(ctx, message{in: *in}); err != nil {
			return err
		}
	}
	seen, again, err := r.a.repairs.Observe(ctx, r.a.rows.List, &r.state.Repairs, r.a.time.Now())
	if again {
		time.AfterFunc(core.RepairBeginWithin.Std(), func() { wake(r.a.wakeObserve) })
	}
	if err != nil {
		return err
	}
	if err := r.step(ctx, message{in: seen}); err != nil {
		return err
	}
	r.a.repairs.Reopen()
	return nil
}

// logEvent writes the lines that events are worth.
func (a *Agent) logEvent(e event.Event) {
	log := a.cfg.Log
	switch e := e.(type) {
	case event.HostStepped:
		if e.From != e.To {
			log.Info("host moved", "from", e.From, "to", e.To, "input", e.Input, "rollout", e.Rollout, "cause", e.Cause, "detail", e.Detail)
		}
	case event.GrantDeclined:
		log.Warn("declined a grant: nothing was changed", "grant", e.Grant, "code", e.Code, "detail", system.Scrub(e.Detail, 1024))
	case event.TrustRefused:
		log.Warn("refused what the server gave", "check", e.Check, "rollout", e.Rollout, "error", e.Detail)
	case event.BundleQuarantined:
		log.Warn("quarantined a bundle on this host", "bundle", e.Digest, "rollout", e.Rollout, "reason", e.Reason)
	case event.HostFacts:
		log.Info("reported what this host is", "cpus", e.CPUs, "memory", e.Memory, "gpus", len(e.GPUs), "engine", e.Engine, "disk", e.Disk)
	case event.RepairNeeded:
		log.Info("a repair waits for a grant", "resources", e.Resources, "more", e.More, "reason", e.Reason)
	case event.RepairOver:
		log.Info("repair over", "grant", e.Grant, "ok", e.OK, "detail", e.Detail)
	}
}
