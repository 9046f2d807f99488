package docker

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// SessionSecrets is the store of what sessions give to workspaces of the host.
func (h *Host) SessionSecrets() dockerapi.SessionSecrets { return h.secrets.Sessions }

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
