package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// mostSteps bounds the steps to an image: fetch, record, further names.
const mostSteps = 8

// ErrCannotPrepare means that a bundle cannot run on this host.
var ErrCannotPrepare = errors.New("the bundle cannot be prepared on this host")

// Prepare fetches what a set needs and changes nothing that runs: what it needs of the
// host and cannot bring itself is checked first, with ErrPrerequisite; images that
// the engine does not have are pulled, built or loaded, and secrets are looked
// for. An image that is pulled at each run is pulled by its generation. An error
// that wraps ErrCannotPrepare is final; others, such as an engine that does not
// answer or a full pool, are worth another try.
func (h *Host) Prepare(ctx context.Context, s *spec.Set) error {
	if s.Empty() {
		return nil
	}
	if h.o.HostRoot != "" {
		if err := h.checkGPUs(ctx, s); err != nil {
			return err
		}
	}
	if err := h.checkSecrets(s); err != nil {
		return err
	}
	for i := range s.Images {
		img := s.Images[i]
		if img.Pull != nil && img.Pull.Policy == spec.PullAlways {
			img.Pull = &spec.Pull{Policy: spec.PullMissing, Platform: img.Pull.Platform}
		}
		if err := h.fetch(ctx, img); err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
	}
	return nil
}

// checkSecrets refuses a set whose secrets are not on the host.
func (h *Host) checkSecrets(s *spec.Set) error {
	if problems := spec.Operators.CheckSet(s); len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrCannotPrepare, spec.Problems(problems))
	}
	for i := range s.Workspaces {
		for _, n := range s.Workspaces[i].Secrets() {
			if _, err := h.secrets.Get(n); err != nil {
				return fmt.Errorf("%w: %w", ErrCannotPrepare, err)
			}
		}
	}
	return nil
}

// fetch takes the image's reconciler through the steps that it would take.
func (h *Host) fetch(ctx context.Context, img spec.Image) error {
	d, err := reconcile.Drive(ctx, h.images, engine.Resource[spec.Desired[spec.Image]]{
		Ref:        engine.Ref{Kind: spec.KindImage, ID: img.Name},
		Generation: 1, Desired: spec.Desired[spec.Image]{Spec: img, Run: "prepare"},
	}, h.o.Now, mostSteps)
	failed := new(reconcile.ActError)
	_, waits := reconcile.IsBlocked(err)
	switch {
	case errors.As(err, &failed) && !waits:
		return fmt.Errorf("%w: %w", ErrCannotPrepare, failed.Err)
	case errors.Is(err, reconcile.ErrSteps):
		return fmt.Errorf("%w: %w", ErrCannotPrepare, err)
	case err == nil && d.Name() != "converged":
		return fmt.Errorf("%w: %s", ErrCannotPrepare, d.Reason())
	}
	return err
}
