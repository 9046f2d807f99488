package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// follow waits for offers, one long-poll after the other.
func (a *Agent) follow(ctx context.Context) error {
	var failing, repeating uplink.Backoff
	last := ""
	for ctx.Err() == nil {
		began := time.Now()
		d, err := a.client.Dispatch(ctx, a.hosting.News(), a.follower.Stamp())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.unreachable("dispatch", err)
			_ = failing.Wait(ctx) // its error is the end of ctx
			continue
		}
		failing.Reset()
		grant, fresh := "", false
		if d != nil {
			fresh = a.hosting.Dispatched(d)
		}
		if d != nil && d.Grant != "" {
			grant = d.Grant
			if err := a.take(ctx, d); err != nil {
				return err
			}
		}
		// An answer that came at once and says nothing new must not be asked for
		// in a tight loop, whatever the server does.
		if grant == last && !fresh && time.Since(began) < time.Second {
			_ = repeating.Wait(ctx)
			continue
		}
		last = grant
		repeating.Reset()
	}
	return nil
}

// take verifies what a dispatch needs and gives it to the reducer. It fails only if
// the state of trust could not be persisted.
func (a *Agent) take(ctx context.Context, d *wire.Dispatch) error {
	if a.committed.Load().Parked != nil {
		return nil // it is told in each heartbeat
	}
	m, err := a.verified(ctx, d)
	switch {
	case err == nil:
		if m.in != nil {
			a.send(ctx, m)
		}
	case errors.As(err, new(*verify.StoreError)), errors.As(err, new(*trust.Error)):
		return a.refuse(ctx, d.Rollout, err)
	case ctx.Err() == nil:
		a.unreachable("documents of "+system.Scrub(d.Rollout, 512), err)
	}
	return nil
}

// verified is a dispatch with what proves it. This is the only place where a grant
// is given to the reducer.
func (a *Agent) verified(ctx context.Context, d *wire.Dispatch) (m message, err error) {
	if reason := core.Malformed(d.Grant, d.Purpose); reason != "" {
		return m, &trust.Error{Code: trust.Malformed, Message: system.Scrub(reason, 512)}
	}
	s := a.committed.Load()
	in := core.Granted{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, TTL: d.TTL, Reason: system.Scrub(d.Reason, 512),
		Plan: fleet.HostPlan{Manifest: d.Manifest}, Slack: trust.Slack}
	proof := s.Proof(d.Grant, d.Purpose, d.Manifest)
	switch proof {
	case core.ProofIgnored:
		return m, nil
	case core.ProofPlan:
		plan, err := a.follower.OfferedPlan(ctx, d.Rollout, d.Manifest, d.Documents)
		if err != nil {
			return m, err
		}
		if d.Documents != nil {
			a.carrier.Carry(d.Documents.Content)
		}
		in.Plan, in.Newest, m.manifest = plan.Host.Value(), plan.Newest, plan.Payload
		if in.Overrides, err = a.signedRetry(d); err != nil {
			return m, err
		}
	case core.ProofRollback:
		if in.Overrides, err = a.provesRollback(ctx, d, s); err != nil {
			return m, err
		}
	}
	in.Wall = clock.FromTime(a.wall())
	m.in = in
	return m, nil
}

// provesRollback checks that an operator signed a rollback of this host's own rollout,
// or that hosts of it failed as its policy asks. Where to is never the server's choice:
// it is the machine's From. Freshness plays no part.
func (a *Agent) provesRollback(ctx context.Context, d *wire.Dispatch, s *core.State) (*core.OverridesReceived, error) {
	if d.Override != nil {
		return a.signedOverride(d, fleet.OverrideRollback)
	}
	var payload []byte
	if ok, err := a.store.Get(ctx, keyManifest+d.Manifest.Hex(), &payload); err != nil {
		return nil, err
	} else if !ok {
		return nil, &trust.Error{Code: trust.ManifestMissing, Message: "the manifest of " + s.Machine.Rollout + " is not kept on this host"}
	}
	return nil, a.follower.Failed(payload, d.Failures, s.FailedWave())
}
