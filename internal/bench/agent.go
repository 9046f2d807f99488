package bench

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// agent is one simulated host. Its reducer, connection, identity, documents and
// chain of events are those of a real agent; only its disk and what it changes
// on the host are missing, so that activating takes no time. It sends the same
// requests as a real one whose activation takes less than a moment.
type agent struct {
	name        string
	fleet       string
	incarnation uint64
	key         crypto.Signer
	client      *uplink.Client
	docs        documents
	carrier     *preparation.Carrier
	crowd       *crowd

	state   core.State
	chain   identity.Chain
	acked   uint64
	pending []wire.Event // made and not acknowledged
	effects []core.Effect
	have    map[digest.Digest]bool // bundles and blobs

	offers   chan core.Granted
	busy     atomic.Pointer[string] // grant that is under way
	seen     atomic.Pointer[sight]
	interval time.Duration // of heartbeats
	beatAt   time.Time
}

// sight is what others may see of an agent.
type sight struct {
	phase    host.Phase
	rollout  string
	manifest digest.Digest
	detail   string
}

// offersKept is how many offers wait while the agent works on one.
const offersKept = 4

func now() clock.Instant { return clock.FromTime(time.Now()) }

// run starts the agent and keeps it going until ctx ends.
func (a *agent) run(ctx context.Context) {
	a.beatAt = time.Now().Add(rand.N(a.interval))
	if err := a.step(core.Started{BootID: a.crowd.bootID, Current: a.state.Machine.Current}); err != nil {
		a.crowd.fail(a.name, err)
		return
	}
	a.crowd.group.Go(func() { a.poll(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		err := a.await(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.crowd.fail(a.name, err)
			return
		}
		wait := time.Until(a.beatAt)
		if due := a.state.Due(); due != 0 {
			wait = min(wait, due.Sub(now()).Std())
		}
		timer.Reset(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			return
		case o := <-a.offers:
			if err := a.step(o); err != nil {
				a.crowd.fail(a.name, err)
				return
			}
		case <-timer.C:
			a.beat(ctx)
		}
	}
}

// await carries out what is due until nothing is.
func (a *agent) await(ctx context.Context) error {
	for ctx.Err() == nil {
		due := a.state.Due()
		switch {
		case len(a.effects) > 0:
			e := a.effects[0]
			a.effects = a.effects[1:]
			if err := e.Run(&doing{a, ctx}); err != nil {
				return err
			}
		case len(a.pending) > 0:
			if err := a.report(ctx); err != nil {
				return err
			}
		case due.Reached(now()):
			if err := a.step(core.Elapsed{}); err != nil {
				return err
			}
			if a.state.Due() == due {
				return nil // nothing moved: the timer comes back
			}
		default:
			a.publish()
			return nil
		}
	}
	return ctx.Err()
}

// step gives the reducer an input and chains what it reports.
func (a *agent) step(in core.Input) error {
	t, err := a.state.Step(in, now())
	if err != nil {
		return err
	}
	a.effects = append(a.effects, t.Effects...)
	for _, e := range t.Events {
		switch e := e.(type) {
		case event.GrantDeclined:
			a.crowd.declined.Add(1)
			a.note(fmt.Errorf("declined grant %s: %s: %s", e.Grant, e.Code, e.Detail))
		case event.HostStepped:
			if e.To == host.Failed || e.To == host.Reverted {
				return fmt.Errorf("is %s in %s: %s: %s", e.To, e.Rollout, e.Cause, e.Detail)
			}
		}
		if err := a.chainEvent(e); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) chainEvent(e event.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.EventType(), err)
	}
	at := now()
	a.chain = a.chain.Next(at, e.EventType(), body)
	a.pending = append(a.pending, wire.Event{Seq: a.chain.Seq, At: at, Type: e.EventType(), Body: body})
	return nil
}

// publish shows others where the agent stands.
func (a *agent) publish() {
	m := &a.state.Machine
	grant := ""
	if a.state.Offer != nil {
		grant = a.state.Offer.Grant
	}
	a.busy.Store(&grant)
	if s := a.seen.Load(); s != nil && s.phase == m.Phase && s.manifest == m.Manifest {
		return
	}
	a.seen.Store(&sight{phase: m.Phase, rollout: m.Rollout, manifest: m.Manifest, detail: m.Detail})
	if m.Phase == host.Converged {
		a.crowd.reached(a.name, m.Manifest)
	}
}

// doing carries out effects.
type doing struct {
	a   *agent
	ctx context.Context
}

var _ core.Effects = (*doing)(nil)

// Activate is where a real agent changes its host. What it reported before goes with the
// outcome, as from a host that takes less than a moment.
func (d *doing) Activate(e core.Activate) error {
	return d.a.step(core.GenerationObserved{Generation: e.Generation, Outcome: core.Complete})
}

// StartProbes has nothing to start: the fleet declares no probe.
func (d *doing) StartProbes(e core.StartProbes) error {
	if len(e.Probes) > 0 {
		return fmt.Errorf("was given %d probes, and the fleet declares none", len(e.Probes))
	}
	return nil
}

// Revert, Leave, BeginRepairs and BeginReboot never come in a benchmark: step ends it at a
// failure, nothing drifts, and nothing is staged.
func (d *doing) Revert(e core.Revert) error             { return unasked(e) }
func (d *doing) Leave(e core.Leave) error               { return unasked(e) }
func (d *doing) BeginRepairs(e core.BeginRepairs) error { return unasked(e) }
func (d *doing) CloseRepairs(e core.CloseRepairs) error { return unasked(e) }
func (d *doing) BeginReboot(e core.BeginReboot) error   { return unasked(e) }

func unasked(e core.Effect) error { return fmt.Errorf("is to do %#v, which no benchmark asks for", e) }

// Observe has nothing to observe: nothing drifts.
func (d *doing) Observe(core.Observe) error { return d.a.step(core.RepairsObserved{}) }

// Sweep removes nothing: there is no disk.
func (d *doing) Sweep(core.Sweep) error { return nil }

// RunResources has no loop to start, and no state is set back.
func (d *doing) RunResources(core.RunResources) error     { return nil }
func (d *doing) StopResources(e core.StopResources) error { return unasked(e) }

func (d *doing) Prepare(e core.Prepare) error {
	a := d.a
	a.publish()
	if err := a.prepare(d.ctx, e.Offer); err != nil {
		return a.step(core.PrepareFailed{Grant: e.Offer.Grant, Detail: err.Error()})
	}
	return a.step(core.Prepared{Grant: e.Offer.Grant})
}

func (d *doing) Claim(e core.Claim) error {
	a := d.a
	ans, err := a.claim(d.ctx, e.Offer)
	if err != nil {
		return err
	}
	if !ans.Accepted {
		a.crowd.refused.Add(1)
		a.note(fmt.Errorf("claim of %s refused: %s", e.Offer.Grant, ans.Reason))
	}
	return a.step(core.ClaimAnswered{Grant: e.Offer.Grant, Accepted: ans.Accepted})
}

// note keeps an error that the agent goes on from.
func (a *agent) note(err error) { a.crowd.note(a.name, err) }
