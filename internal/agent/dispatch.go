package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// maxGrantLife bounds what a server may ask this host to remember of a grant.
const maxGrantLife = 24 * clock.Hour

// maxGrantName is what a server itself takes for the name of a grant, in bytes.
// A longer one would not fit in the events that name it.
const maxGrantName = 64

// checkGrant refuses a name that is empty, too long or not printable ASCII.
func checkGrant(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if name == "" || len(name) > maxGrantName || strings.ContainsFunc(name, bad) {
		return &trust.Error{Code: trust.Malformed, Words: fmt.Sprintf(
			"a grant is named by 1 to %d printable characters, not by %q", maxGrantName, system.Scrub(name, maxGrantName))}
	}
	return nil
}

// follow waits for offers, one long-poll after the other.
func (a *Agent) follow(ctx context.Context) error {
	var failing, repeating client.Backoff
	last := ""
	for ctx.Err() == nil {
		began := time.Now()
		d, err := a.client.Dispatch(ctx, a.hosting.News())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.away("dispatch", err)
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

// take turns a dispatch into an offer, if what is signed allows it. It fails
// only if the state of trust could not be persisted.
func (a *Agent) take(ctx context.Context, d *wire.Dispatch) error {
	if s := a.status.Load(); s.Offer != nil && s.Offer.Grant == d.Grant {
		return nil // under way
	}
	var m offered
	err := checkGrant(d.Grant)
	switch {
	case err != nil:
	case d.Purpose == host.Forward:
		m, err = a.takeForward(ctx, d)
	case d.Purpose == host.Repair:
		m = a.takeRepair(d)
	case d.Purpose == host.Reboot:
		m, err = a.takeReboot(ctx, d)
	case d.Purpose == host.Back:
		m, err = a.takeBack(ctx, d)
	default:
		err = &trust.Error{Code: trust.ManifestMismatch, Words: fmt.Sprintf("a grant has no purpose %q", system.Scrub(string(d.Purpose), 64))}
	}
	var stored *verify.StoreError
	switch {
	case err == nil:
		a.post(ctx, m)
	case errors.As(err, &stored):
		return err
	case errors.As(err, new(*trust.Error)):
		a.post(ctx, refused{rollout: d.Rollout, err: err})
	case ctx.Err() == nil:
		a.away("documents of "+system.Scrub(d.Rollout, 512), err)
	}
	return nil
}

func (a *Agent) takeForward(ctx context.Context, d *wire.Dispatch) (offered, error) {
	plan, err := a.follower.Plan(ctx, d.Rollout, d.Manifest)
	if err != nil {
		return offered{}, err
	}
	return offered{offer: a.offerOf(d, plan.Host), payload: plan.Payload}, nil
}

// offerOf joins a dispatch with a verified plan. This is the only place where an
// offer to activate is made.
func (a *Agent) offerOf(d *wire.Dispatch, plan trust.Verified[fleet.HostPlan]) host.Offer {
	o := host.Offer{
		Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, Plan: plan.Value(),
		Expires: a.time.Now().Add(min(max(d.TTL, 0), maxGrantLife)), Reason: system.Scrub(d.Reason, 512),
	}
	o.Within(o.Plan.Windows, clock.FromTime(a.wall()), a.time.Now(), trust.Slack)
	return o
}

// takeBack checks that an operator signed a rollback of this host's own rollout, or
// that hosts of it failed as its policy asks. Where to is never the server's choice: it is the machine's From.
// Freshness plays no part.
func (a *Agent) takeBack(ctx context.Context, d *wire.Dispatch) (offered, error) {
	m := a.status.Load().Machine
	o := host.Offer{
		Grant: d.Grant, Purpose: host.Back, Term: d.Term, Reason: system.Scrub(d.Reason, 512),
		Plan: fleet.HostPlan{Manifest: d.Manifest},
	}
	if d.Manifest != m.Manifest || m.Manifest == "" {
		return offered{offer: o}, nil // the reducer declines it
	}
	if words, ok, err := a.rolledBack(d, m.Manifest); ok || err != nil {
		return offered{offer: o, ordered: words}, err
	}
	var payload []byte
	if ok, err := a.store.Get(ctx, keyManifest+m.Manifest.Hex(), &payload); err != nil {
		return offered{}, err
	} else if !ok {
		return offered{}, &trust.Error{Code: trust.ManifestMissing, Words: "the manifest of " + m.Rollout + " is not kept on this host"}
	}
	self := -1
	if m.Phase == host.Failed && m.Cause != host.RevertOrdered {
		self = m.Wave
	}
	failed, allowed, err := a.follower.Failures(payload, d.Failures, self)
	if err != nil {
		return offered{}, err
	}
	if failed <= allowed {
		return offered{}, &trust.Error{Code: trust.ManifestVerifyFailed, Words: fmt.Sprintf(
			"a revert was ordered on the proof of %d failed hosts, and the signed policy of %s allows %d", failed, m.Rollout, allowed)}
	}
	return offered{offer: o}, nil
}
