package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/api/types/system"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// ErrPrerequisite means that a host lacks what a bundle needs and cannot bring itself,
// such as a driver.
var ErrPrerequisite = errors.New("the host lacks a prerequisite of the bundle")

// GPUs is what this host has for containers with GPUs.
func (h *Host) GPUs(i system.Info) (spec.GPUFacts, error) { return h.gpu.FactsOf(i) }

// checkGPUs refuses a set whose GPUs this host cannot give, ahead of all else. What
// the host's own toolkit can set up is set up where the set allows it.
func (h *Host) checkGPUs(ctx context.Context, s *spec.Set) error {
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		for tried := ""; w.NeedsGPUs(); {
			need, err := h.gpuNeed(ctx, w)
			if err != nil {
				return err
			}
			if need == nil {
				break
			}
			if !s.ConfigureGPUs || need.Setup == "" || need.Setup == tried {
				return fmt.Errorf("%w: workspace %s asks for GPUs: %s", ErrPrerequisite, w.Name, need.Message)
			}
			h.o.Log.Info("setting up GPUs for containers, as the bundle asks", "workspace", w.Name, "missing", need.Message)
			if err := h.gpu.Setup(ctx, need.Setup); err != nil {
				return fmt.Errorf("%w: workspace %s asks for GPUs: %w", ErrPrerequisite, w.Name, err)
			}
			tried = need.Setup
		}
	}
	return nil
}

func (h *Host) gpuNeed(ctx context.Context, w *spec.Workspace) (*spec.GPUNeed, error) {
	f, err := h.gpu.Facts(ctx)
	if err != nil {
		return nil, err
	}
	return w.MissingForGPUs(f), nil
}

// missingGPUs reports what keeps a workspace from its GPUs; empty if nothing does.
func (h *Host) missingGPUs(ctx context.Context, w *spec.Workspace) (string, error) {
	if h.o.HostRoot == "" || !w.NeedsGPUs() {
		return "", nil
	}
	need, err := h.gpuNeed(ctx, w)
	if need == nil || err != nil {
		return "", err
	}
	return need.Message, nil
}
