package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
)

// prepare fetches and checks all that an offer needs and changes nothing that
// runs. It tries again while the server cannot be reached; the reducer ends it
// when the offer is gone.
func (a *Agent) prepare(ctx context.Context, o host.Offer) error {
	var wait client.Backoff
	said := ""
	for {
		err := a.preparer.Prepare(ctx, o)
		var stored *verify.StoreError
		switch {
		case err == nil:
			a.post(ctx, prepared{o.Grant})
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &stored):
			return err
		case errors.As(err, new(*trust.Error)):
			a.post(ctx, refused{rollout: o.Plan.Rollout, err: err})
		}
		if word := preparation.Final(err); word != "" {
			a.post(ctx, unprepared{o.Grant, word + ": " + err.Error()})
			return nil
		}
		if why, waits := reconcile.IsBlocked(err); !waits {
			a.away("prepare", err)
		} else if said != why.String() {
			said = why.String()
			a.cfg.Log.Info("preparing waits", "grant", o.Grant, "reason", said)
		}
		if wait.Wait(ctx) != nil {
			return nil
		}
	}
}

// claim asks until it is answered: the server may have committed the claim, and
// only its answer can tell. Nothing is claimed, and nothing that was claimed is
// acted on, under a stale timestamp; neither a revert nor a repair asks for freshness.
func (a *Agent) claim(ctx context.Context, o host.Offer) error {
	var wait client.Backoff
	for {
		ans, err := a.claimOnce(ctx, o)
		var stored *verify.StoreError
		switch status := client.StatusOf(err); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.post(ctx, answered{o.Grant, ans.Accepted, ans.Reason})
			return nil
		case errors.As(err, &stored):
			return err
		case errors.As(err, new(*trust.Error)):
			a.post(ctx, refused{rollout: o.Plan.Rollout, err: err})
			a.post(ctx, unprepared{o.Grant, preparation.Refused + ": " + err.Error()})
			return nil
		case status == http.StatusNotFound, status == http.StatusConflict, status == http.StatusGone:
			a.post(ctx, answered{o.Grant, false, err.Error()})
			return nil
		}
		a.away("claim", err)
		if wait.Wait(ctx) != nil {
			return nil
		}
	}
}

func (a *Agent) claimOnce(ctx context.Context, o host.Offer) (wire.ClaimAnswer, error) {
	var none wire.ClaimAnswer
	if o.Purpose == host.Forward || o.Purpose == host.Reboot {
		if _, err := a.preparer.Plan(ctx, o); err != nil {
			if client.StatusOf(err) != 0 { // not about the claim: never taken for its answer
				err = fmt.Errorf("documents of %s: %s", o.Plan.Rollout, err)
			}
			return none, err
		}
	}
	ans, err := a.client.Claim(ctx, wire.Claim{Grant: o.Grant, Term: o.Term})
	if err != nil || !ans.Accepted || o.Purpose != host.Forward {
		return ans, err
	}
	return ans, a.follower.Fresh(o.Plan.Channel)
}
