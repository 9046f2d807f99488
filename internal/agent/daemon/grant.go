package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
)

// prepare fetches and checks all that an offer needs and changes nothing that
// runs. It tries again while the server cannot be reached; the reducer ends it
// when the offer is gone.
func (a *Agent) prepare(ctx context.Context, o core.Offer) error {
	var wait uplink.Backoff
	logged := ""
	for {
		err := a.preparer.Prepare(ctx, o)
		if err == nil {
			a.post(ctx, core.Prepared{Grant: o.Grant})
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.As(err, new(*verify.StoreError)) || errors.As(err, new(*trust.Error)) {
			if err := a.refuse(ctx, o.Plan.Rollout, err); err != nil {
				return err
			}
		}
		if final := preparation.Final(err); final != "" {
			a.post(ctx, core.PrepareFailed{Grant: o.Grant, Detail: system.Scrub(preparation.Detail(final, err), 1024)})
			return nil
		}
		if why, waits := reconcile.IsBlocked(err); !waits {
			a.unreachable("prepare", err)
		} else if logged != why.String() {
			logged = why.String()
			a.cfg.Log.Info("preparing waits", "grant", o.Grant, "reason", logged)
		}
		if wait.Wait(ctx) != nil {
			return nil
		}
	}
}

// claim asks until it is answered.
func (a *Agent) claim(ctx context.Context, e core.Claim) error {
	var wait uplink.Backoff
	o := &e.Offer
	for {
		in, err := a.claimOnce(ctx, e)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.post(ctx, in)
			return nil
		case errors.As(err, new(*verify.StoreError)):
			return err
		case errors.As(err, new(*trust.Error)):
			a.post(ctx, refusal(o.Plan.Rollout, err))
			a.post(ctx, core.PrepareFailed{Grant: o.Grant, Detail: system.Scrub(preparation.Refused+": "+err.Error(), 1024)})
			return nil
		}
		a.unreachable("claim", err)
		if wait.Wait(ctx) != nil {
			return nil
		}
	}
}

// claimOnce makes one attempt. A server that knows no such grant, or takes no claim of
// it any more, has answered.
func (a *Agent) claimOnce(ctx context.Context, e core.Claim) (in core.ClaimAnswered, err error) {
	o := &e.Offer
	in.Grant = o.Grant
	if e.Verify {
		if _, err := a.preparer.Plan(ctx, *o); err != nil {
			if uplink.StatusOf(err) != 0 { // not about the claim: never taken for its answer
				err = fmt.Errorf("documents of %s: %s", o.Plan.Rollout, err)
			}
			return in, err
		}
	}
	ans, err := a.client.Claim(ctx, wire.Claim{Grant: o.Grant, Term: o.Term})
	switch uplink.StatusOf(err) {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone:
		ans, err = wire.ClaimAnswer{Reason: err.Error()}, nil
	}
	if err != nil {
		return in, err
	}
	if in.Accepted = ans.Accepted; !in.Accepted {
		a.cfg.Log.Info("claim refused", "grant", o.Grant, "reason", ans.Reason)
	} else if err := a.follower.Fresh(o.Plan.Channel); err != nil {
		stale := refusal(o.Plan.Rollout, err)
		in.Stale = &stale
	}
	return in, nil
}

// refuse reports what trust refused. It fails only if the state of trust could not be
// persisted.
func (a *Agent) refuse(ctx context.Context, rollout string, err error) error {
	if errors.As(err, new(*verify.StoreError)) {
		return err
	}
	a.post(ctx, refusal(rollout, err))
	return nil
}

// refusal is what trust refused, for the reducer.
func refusal(rollout string, err error) core.Refused {
	check := string(trust.ManifestVerifyFailed)
	if te, ok := errors.AsType[*trust.Error](err); ok {
		check = te.Report()
	}
	return core.Refused{Rollout: system.Scrub(rollout, 512), Check: check, Code: string(trust.CodeOf(err)), Detail: system.Scrub(err.Error(), 1024)}
}
