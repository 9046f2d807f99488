package daemon

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// executor carries out effects once what caused them is durable.
type executor struct {
	r   *reducer
	ctx context.Context
}

var _ core.Effects = (*executor)(nil)

// Activate implements core.Effects, as do all methods below.
func (x *executor) Activate(e core.Activate) error { return x.converge(e.Generation) }
func (x *executor) Revert(e core.Revert) error     { return x.converge(e.Generation) }

func (x *executor) Leave(e core.Leave) error {
	x.r.a.hosting.Changed() // nothing is delegated any more
	return x.converge(e.Generation)
}

func (x *executor) converge(g core.Generation) error {
	x.r.a.loop.Enqueue(system.Current, because(g.Run))
	return nil
}

func (x *executor) StartProbes(e core.StartProbes) error {
	a := x.r.a
	a.runner.Start(probe.Set{Probes: e.Probes, Round: e.Round, Env: probe.Env{
		Dir: a.cfg.Root, Env: system.Environment(a.cfg.Root, a.id.Host, e.Bundle), Resources: a.hosting.Watch(),
	}})
	return nil
}

func (x *executor) Prepare(e core.Prepare) error {
	x.work(e.Offer.Grant, func(ctx context.Context) error { return x.r.a.prepare(ctx, e.Offer) })
	return nil
}

func (x *executor) Claim(e core.Claim) error {
	x.work(e.Offer.Grant, func(ctx context.Context) error { return x.r.a.claim(ctx, e) })
	return nil
}

// work runs f for a grant instead of whatever was done for one before.
func (x *executor) work(grant string, f func(ctx context.Context) error) {
	x.r.worker.cancel()
	ctx, cancel := context.WithCancel(x.ctx)
	x.r.worker = worker{grant: grant, cancel: cancel}
	x.r.workers.Go(func() error {
		defer cancel()
		return f(ctx)
	})
}

func (x *executor) Observe(core.Observe) error {
	wake(x.r.a.wakeObserve)
	return nil
}

func (x *executor) BeginRepairs(e core.BeginRepairs) error {
	x.r.a.repairs.Reopen()
	for _, name := range e.Names {
		x.r.a.loop.Enqueue(core.RepairRef(name), because(e.Grant))
	}
	return nil
}

func (x *executor) CloseRepairs(core.CloseRepairs) error {
	x.r.a.repairs.Clear()
	return nil
}

func (x *executor) Sweep(e core.Sweep) error {
	if err := x.r.a.content.Sweep(e.Keep...); err != nil {
		x.r.a.cfg.Log.Warn("old content was not removed", "error", err)
	}
	if err := x.r.a.nars.Rest(); err != nil {
		x.r.a.cfg.Log.Warn("archives of store paths were not removed", "error", err)
	}
	return x.r.a.store.Rest(context.WithoutCancel(x.ctx))
}

// RunResources starts the loop, and later has it see to the repairs that waited for the
// server's answer.
func (x *executor) RunResources(core.RunResources) error {
	a := x.r.a
	if a.stopLoop == nil {
		var ctx context.Context
		ctx, a.stopLoop = context.WithCancel(x.ctx)
		x.r.workers.Go(func() error { return a.loop.Run(ctx) })
	}
	for _, ref := range a.repairs.Unconfirmed() {
		a.loop.Enqueue(ref, because("the server answered"))
	}
	return nil
}

// StopResources ends the loop with what it acts on, the probes, and what is done about
// an offer.
func (x *executor) StopResources(e core.StopResources) error {
	a := x.r.a
	x.r.worker.cancel()
	a.runner.Start(probe.Set{})
	if a.stopLoop != nil {
		a.stopLoop()
	}
	a.cfg.Log.Error("this host is parked: "+e.Parked.Message()+"; what runs goes on, and nothing is started or changed",
		"next", parkedNext(a.id.Host, a.cfg.StateDir))
	wake(a.wakeHeartbeat)
	return nil
}

// parkedNext is how a parked host is brought back.
func parkedNext(name, dir string) string {
	return "stop the agent and start it once with a new token, in the same state folder: steady token create " + name + " > TOKEN; steady agent --state " + dir + " --token TOKEN"
}

// BeginReboot runs the reboot command, which ends this process with the machine.
func (x *executor) BeginReboot(e core.BeginReboot) error {
	a, ctx := x.r.a, x.ctx
	a.cfg.Log.Warn("the machine is rebooted", "reason", e.Reason, "command", strings.Join(a.cfg.Reboot, " "))
	x.r.workers.Go(func() error {
		detail := ""
		for try := range rebootTries {
			if try > 0 && uplink.Pause(ctx, rebootPause<<try) != nil {
				return nil
			}
			if s := a.committed.Load(); !s.Rebooting() || s.Parked != nil {
				return nil
			}
			out, err := runReboot(ctx, a.cfg.Reboot)
			if err == nil || ctx.Err() != nil {
				return nil // the machine goes down, or the deadline tells that it did not
			}
			detail = system.Scrub(strings.Join(a.cfg.Reboot, " ")+": "+err.Error()+": "+out, 1024)
			a.cfg.Log.Warn("the reboot command failed", "error", detail)
		}
		a.post(ctx, core.RebootFailed{Detail: detail})
		return nil
	})
	return nil
}

// generation reads how far the desired generation has come; it is nil when nothing
// was desired yet.
func (a *Agent) generation(ctx context.Context) (*core.GenerationObserved, error) {
	row, err := a.rows.Get(ctx, system.Current)
	if errors.Is(err, reconcile.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var g system.Generation
	if err := json.Unmarshal(row.Desired, &g); err != nil {
		return nil, fmt.Errorf("the generation in agent.db is not what this version wrote: %w", err)
	}
	in := &core.GenerationObserved{Generation: core.Generation(g), Code: string(row.Reason.Code), Detail: system.Scrub(row.Reason.Message, 1024)}
	switch row.Phase {
	case engine.Converged, engine.Degraded:
		// Degraded is as desired in all that is declared; what could not be taken away
		// is reported on its own.
		if row.ConvergedGen == row.Generation {
			in.Outcome = core.Complete
		}
	case engine.Failed:
		in.Outcome = core.Broken
	case engine.Waiting:
		staged, err := a.staged(ctx, g.Run)
		if err != nil {
			return nil, err
		}
		if staged != "" {
			in.Outcome, in.Detail = core.Staged, staged
		}
	}
	return in, nil
}

// onTransition runs in the transaction that records a transition.
func (a *Agent) onTransition(ctx context.Context, tx *sql.Tx, t engine.Transition) error {
	return state.ReportTransition(ctx, tx, a.time.Now(), a.rows, t)
}

// afterCommit runs once transitions are durable. It must not block.
func (a *Agent) afterCommit(ts []engine.Transition) {
	if a.cut != nil {
		if err := a.cut(); err != nil {
			a.die(err)
			return
		}
	}
	if err := a.store.Seal(context.Background()); err != nil {
		a.die(err)
		return
	}
	wake(a.wakeLater)
	a.hosting.Seen(ts)
	if a.repairs.Seen(ts) {
		wake(a.wakeObserve)
	}
	for _, t := range ts {
		if t.Ref == system.Current || t.Reason.Code == system.CodeNeedsReboot {
			wake(a.wakeObserve)
		}
	}
}

// report has what is in the outbox sent.
func (a *Agent) report() { wake(a.wakeUplink) }

// onProbe gives a result to the reducer. The runner's probes end before the
// reducer does, so it waits for room.
func (a *Agent) onProbe(ctx context.Context, round int64, res probe.Result) {
	a.post(ctx, core.ProbeObserved{Round: round, ProbeObserved: host.ProbeObserved{
		Name: res.Name, Pass: res.Pass, Reason: res.Reason, Results: res.Results}})
}

// rebootPause is before the second try of the reboot command; it doubles.
const (
	rebootTries = 3
	rebootPause = 2 * time.Second
)
