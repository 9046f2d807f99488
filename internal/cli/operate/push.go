package operate

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Push signs an override, keeps it where the flags ask for that, and brings it to
// the server.
func Push(ctx context.Context, e *command.Env, c *operator.Client, f Flags, o fleet.Override) (operator.OverridePushed, error) {
	life, err := f.duration()
	if err != nil {
		return operator.OverridePushed{}, err
	}
	s, err := Seal(f.Keys, o, life, e.Wall())
	if err != nil {
		return operator.OverridePushed{}, err
	}
	if f.File != "" {
		if err := Write(f.File, s.Envelope); err != nil {
			return operator.OverridePushed{}, err
		}
	}
	if s.Missing != nil {
		return operator.OverridePushed{}, exit.Badf("%w: sign it to a file with steady override sign, and have others add their signatures with --add", s.Missing)
	}
	return c.PushOverride(ctx, s.Envelope)
}

// OnRollout is an override on a rollout as the server knows it.
func OnRollout(ctx context.Context, c *operator.Client, action fleet.OverrideAction, id, reason string) (fleet.Override, error) {
	r, err := c.Rollout(ctx, id)
	return fleet.Override{Action: action, Channel: r.Channel, Rollout: r.Name, Manifest: r.Manifest, Reason: reason}, err
}
