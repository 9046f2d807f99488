package docker

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/storage"
)

// SessionSecrets is the store of what sessions give to workspaces of the host.
func (h *Host) SessionSecrets() dockerapi.SessionSecrets { return h.secrets.Sessions }

// Bin lists the volumes that are kept of sessions that are over, what goes first in front.
func (h *Host) Bin() []storage.Binned { return h.volumes.Binned() }

// Discard removes one of them, by its ID.
func (h *Host) Discard(ctx context.Context, id string) error { return h.volumes.Discard(ctx, id) }

// SweepSecrets removes the secrets of sessions that are not in use, nor named by a workspace that is declared.
func (h *Host) SweepSecrets(ctx context.Context, used []string) error {
	declared, err := specs[spec.Deployment](ctx, h, spec.KindWorkspace)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, ref := range used {
		keep[ref] = true
	}
	for i := range declared {
		for _, ref := range declared[i].Workspace.Secrets() {
			keep[ref] = true
		}
	}
	return h.secrets.Sessions.Sweep(keep)
}
