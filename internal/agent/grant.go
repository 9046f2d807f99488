package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/content"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
)

// Words that open the detail of a declined preparation.
const (
	detailRefused  = "refused"
	detailDiskFull = "disk_full"
	detailMissing  = "content_missing"
	detailFailed   = "failed"
)

// prepare fetches and checks all that an offer needs and changes nothing that
// runs. It tries again while the server cannot be reached; the reducer ends it
// when the offer is gone.
func (a *Agent) prepare(ctx context.Context, o host.Offer) error {
	var wait client.Backoff
	said := ""
	for {
		err := a.prepareOnce(ctx, o)
		var stored *verify.StoreError
		detail := ""
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
			detail = detailRefused
		case errors.Is(err, state.ErrNoRoom), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			detail = detailDiskFull
		case client.StatusOf(err) == http.StatusNotFound:
			detail = detailMissing
		case errors.As(err, new(*content.Error)), errors.Is(err, docker.ErrCannotPrepare), errors.Is(err, errPrepareSystem):
			detail = detailFailed
		}
		if detail != "" {
			a.post(ctx, unprepared{o.Grant, detail + ": " + err.Error()})
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

func (a *Agent) prepareOnce(ctx context.Context, o host.Offer) error {
	plan, err := a.plan(ctx, o)
	if err != nil {
		return err
	}
	target := plan.Value().Target
	raw, err := a.store.Blob(target, wire.MaxDocument)
	cached := err == nil
	if !cached {
		if raw, err = a.client.Bundle(ctx, target); err != nil {
			return err
		}
	}
	bundle, err := a.follower.Bundle(plan, raw)
	if err != nil {
		return err
	}
	missing, err := a.content.Missing(ctx, bundle.Value())
	if err != nil {
		return err
	}
	if err := a.room(bundle.Value(), missing); err != nil {
		return err
	}
	if !cached {
		if err := a.content.Put(bundle.Digest(), raw); err != nil {
			return err
		}
	}
	for _, f := range missing {
		if err := a.content.Fetch(ctx, f.Digest, f.Size); err != nil {
			return err
		}
	}
	if n := bundle.Value().Nix; n != nil {
		if err := a.prepareSystem(ctx, bundle.Digest(), n); err != nil {
			return err
		}
	}
	return a.hosting.Prepare(ctx, bundle.Value().Containers)
}

// plan verifies an offer's plan again: the process may have restarted, and the
// fleet's documents moved on.
func (a *Agent) plan(ctx context.Context, o host.Offer) (trust.Verified[fleet.HostPlan], error) {
	p, err := a.follower.Plan(ctx, o.Plan.Rollout, o.Plan.Manifest)
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	now, err := json.Marshal(p.Host.Value())
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	then, err := json.Marshal(o.Plan)
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	if !bytes.Equal(now, then) {
		return trust.Verified[fleet.HostPlan]{}, &trust.Error{Code: trust.ManifestMismatch, Words: "the plan is not the one that was offered"}
	}
	return p.Host, nil
}

// room checks that the disks take what is missing, and every file of the bundle
// once more below the root folder.
func (a *Agent) room(b fleet.Bundle, missing []container.Blob) error {
	var fetch, place int64
	for _, f := range missing {
		fetch += f.Size
	}
	for _, f := range b.Files {
		place += f.Size
	}
	var root, dir unix.Stat_t
	if err := errors.Join(unix.Stat(a.cfg.Root, &root), unix.Stat(a.cfg.StateDir, &dir)); err != nil {
		return fmt.Errorf("look at free disk space: %w", err)
	}
	if root.Dev == dir.Dev {
		return a.store.Room(fetch + place)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(a.cfg.Root, &st); err != nil {
		return fmt.Errorf("look at free disk space: %w", err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < place+state.Margin {
		return fmt.Errorf("%w: %d bytes are needed below %s, %d are free", state.ErrNoRoom, place, a.cfg.Root, free)
	}
	return a.store.Room(fetch)
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
			a.post(ctx, unprepared{o.Grant, detailRefused + ": " + err.Error()})
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
		if _, err := a.plan(ctx, o); err != nil {
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
