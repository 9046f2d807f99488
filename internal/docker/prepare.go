package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// mostSteps bounds the steps to an image: fetch, record, further names.
const mostSteps = 8

// ErrCannotPrepare says that a bundle cannot run on this host.
var ErrCannotPrepare = errors.New("the bundle cannot be prepared on this host")

// Prepare fetches what a set needs and changes nothing that runs: what it needs of the
// host and cannot bring itself is looked at first, with ErrPrerequisite; images that
// the engine does not have are pulled, built or loaded, and secrets are looked
// for. An image that is pulled at each run is pulled by its generation. An error
// that wraps ErrCannotPrepare is final; others, such as an engine that does not
// answer or a full pool, are worth another try.
func (h *Host) Prepare(ctx context.Context, s *container.Set) error {
	if s.Empty() {
		return nil
	}
	if h.o.HostRoot != "" {
		if err := h.gpusThere(ctx, s); err != nil {
			return err
		}
	}
	if err := h.secretsThere(s); err != nil {
		return err
	}
	for i := range s.Images {
		img := s.Images[i]
		if img.Pull != nil && img.Pull.Policy == container.PullAlways {
			img.Pull = &container.Pull{Policy: container.PullMissing, Platform: img.Pull.Platform}
		}
		if err := h.fetch(ctx, img); err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
	}
	return nil
}

// secretsThere refuses a set whose secrets are not on the host.
func (h *Host) secretsThere(s *container.Set) error {
	var names []string
	for i := range s.Workspaces {
		for _, e := range s.Workspaces[i].Env {
			names = append(names, e.Secret)
		}
		for _, c := range s.Workspaces[i].Contents {
			names = append(names, c.Secret)
		}
	}
	for _, n := range names {
		if n == "" {
			continue
		}
		if _, err := h.secrets.Get(n); err != nil {
			return fmt.Errorf("%w: %w", ErrCannotPrepare, err)
		}
	}
	return nil
}

// fetch takes the image's manager through the steps that it would take.
func (h *Host) fetch(ctx context.Context, img container.Image) error {
	r := engine.Resource[container.Desired[container.Image]]{
		Ref:        engine.Ref{Kind: container.KindImage, ID: img.Name},
		Generation: 1, Desired: container.Desired[container.Image]{Spec: img, Run: "prepare"},
	}
	for range mostSteps {
		o, err := h.images.Observe(ctx, r)
		if err != nil {
			return err
		}
		d := h.images.Decide(engine.View[container.Desired[container.Image], image.Observed]{
			Resource: r, Observed: o, Now: clock.FromTime(h.o.Now())})
		switch d.Name() {
		case "converged":
			return nil
		case "do":
			if err := h.images.Act(ctx, r, d.Action()); err != nil {
				if _, waits := reconcile.IsBlocked(err); waits {
					return err
				}
				return fmt.Errorf("%w: %w", ErrCannotPrepare, err)
			}
		default:
			return fmt.Errorf("%w: %s", ErrCannotPrepare, d.Reason())
		}
	}
	return fmt.Errorf("%w: it is not there after %d steps", ErrCannotPrepare, mostSteps)
}
