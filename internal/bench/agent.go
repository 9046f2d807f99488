package bench

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
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
// requests, and reports every turn on its own, as an agent does whose
// activation takes longer than a request.
type agent struct {
	name        string
	fleet       string
	incarnation uint64
	key         crypto.Signer
	client      *client.Client
	docs        documents
	crowd       *crowd

	state   host.Agent
	chain   identity.Chain
	acked   uint64
	pending []wire.Event // made and not acknowledged
	effects []host.Effect
	have    map[digest.Digest]bool // bundles and blobs

	offers   chan host.Offer
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
	if err := a.step(host.Booted{BootID: a.crowd.bootID, Current: a.state.Machine.Current}); err != nil {
		a.crowd.fail(a.name, err)
		return
	}
	a.crowd.group.Go(func() { a.poll(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		err := a.settle(ctx)
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
			a.effects = append(a.effects, a.state.Granted(o, now())...)
		case <-timer.C:
			a.effects = append(a.effects, a.state.Expire(now())...)
			a.beat(ctx)
		}
	}
}

// settle carries out what is due until nothing is.
func (a *agent) settle(ctx context.Context) error {
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
			if err := a.step(host.Elapsed{}); err != nil {
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

// step moves the machine and chains the event that tells of it.
func (a *agent) step(in host.Input) error {
	before := a.state.Machine
	effects, notable, err := a.state.Step(in, now())
	if errors.As(err, new(*host.IllegalError)) {
		return nil // true when it was sent, and not any more
	}
	if err != nil {
		return err
	}
	a.effects = append(a.effects, effects...)
	if !notable {
		return nil
	}
	e, err := event.NewHostStepped(&before, &a.state.Machine, in)
	if err != nil {
		return err
	}
	if m := &a.state.Machine; m.Phase == host.Failed || m.Phase == host.Reverted {
		return fmt.Errorf("is %s in %s: %s: %s", m.Phase, m.Rollout, m.Cause, m.Detail)
	}
	return a.chainEvent(e)
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

var _ host.Effects = (*doing)(nil)

// Activate is where a real agent changes its host.
func (d *doing) Activate(e host.Activate) error {
	if err := d.a.report(d.ctx); err != nil {
		return err
	}
	return d.a.step(host.Activated{Observed: e.Target})
}

// Revert never comes in a benchmark: step ends it at the failure before.
func (d *doing) Revert(e host.Revert) error {
	return fmt.Errorf("goes back to %s, which no benchmark asks for", e.To.Short())
}

// StartProbes has nothing to start: the fleet declares no probe.
func (d *doing) StartProbes(e host.StartProbes) error {
	if len(e.Probes) > 0 {
		return fmt.Errorf("was given %d probes, and the fleet declares none", len(e.Probes))
	}
	return nil
}

func (d *doing) Quarantine(e host.Quarantine) error {
	return fmt.Errorf("quarantined %s: %s", e.Digest.Short(), e.Reason)
}

// NeedRepair, EndRepair and OpenRepair never come in a benchmark: nothing drifts.
func (d *doing) NeedRepair(e host.NeedRepair) error {
	return fmt.Errorf("needs a repair, which no benchmark has: %s", e.Reason)
}

func (d *doing) EndRepair(e host.EndRepair) error {
	return fmt.Errorf("ended a repair, which no benchmark has: %s", e.Detail)
}

func (d *doing) OpenRepair(e host.OpenRepair) error {
	return fmt.Errorf("was given %s to repair, which no benchmark asks for", e.Grant)
}

// BeginReboot never comes in a benchmark: nothing is staged.
func (d *doing) BeginReboot(e host.BeginReboot) error {
	return fmt.Errorf("reboots for %s, which no benchmark asks for", e.Reason)
}

func (d *doing) Decline(e host.Decline) error {
	d.a.crowd.declined.Add(1)
	d.a.note(fmt.Errorf("declined grant %s: %s: %s", e.Grant, e.Code, e.Detail))
	return d.a.chainEvent(event.GrantDeclined{Grant: e.Grant, Code: e.Code, Detail: e.Detail})
}

func (d *doing) Prepare(e host.Prepare) error {
	a := d.a
	a.publish()
	if err := a.prepare(d.ctx, e.Offer); err != nil {
		a.effects = append(a.effects, a.state.PrepareFailed(e.Offer.Grant, err.Error())...)
		return nil
	}
	a.effects = append(a.effects, a.state.Prepared(e.Offer.Grant, now())...)
	return nil
}

func (d *doing) Claim(e host.Claim) error {
	a := d.a
	ans, err := a.claim(d.ctx, e.Offer)
	if err != nil {
		return err
	}
	if !ans.Accepted {
		a.crowd.refused.Add(1)
		a.note(fmt.Errorf("claim of %s refused: %s", e.Offer.Grant, ans.Reason))
	}
	if in := a.state.ClaimAnswered(e.Offer.Grant, ans.Accepted, a.crowd.bootID); in != nil {
		return a.step(in)
	}
	return nil
}

// note keeps an error that the agent goes on from.
func (a *agent) note(err error) { a.crowd.note(a.name, err) }
