package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

func (a verbs) rollback() *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use: "rollback ROLLOUT", Short: "Send every host of a rollout back to where it came from",
		Long: `Signs an override that sends every host which took part in a rollout back to the
bundle that it came from, and brings it to the server. Hosts go back within the
disruption budgets, those that are away as they return; the rollout ends reverted.
Hosts believe the signature, and no server can order this without it. A rollout that
has converged is over: go back from it with steady release rollback.`,
		Example: "  steady rollout rollback stable@v2 --reason 'wrong prices'\n  steady rollout rollback stable@v2 --keys /media/usb/keys --save overrides/stable-v2.json",
	}
	reason := command.RequiresReason(cmd)
	f.AddRequired(cmd)
	return a.RolloutNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		return a.override(ctx, c, f, fleet.OverrideRollback, args[0], *reason)
	}))
}

// override signs a verb on a rollout and says where the rollout stands then.
func (a verbs) override(ctx context.Context, c *operator.Client, f Flags, action fleet.OverrideAction, id, reason string) error {
	o, err := OnRollout(ctx, c, action, id, reason)
	if err != nil {
		return err
	}
	p, err := Push(ctx, a.Env, c, f, o)
	if err != nil {
		return err
	}
	r, err := c.Rollout(ctx, string(o.Manifest))
	if err != nil {
		return err
	}
	a.Printf("Rollout %s: %s, by override %s\n", r.Name, r.Status, p.ID)
	return nil
}

// unquarantine signs that a bundle may be granted again. Its digest may be
// shortened if the server lists it.
func (a verbs) unquarantine(ctx context.Context, c *operator.Client, f Flags, channel, bundle, reason string) error {
	d, err := digest.Parse(bundle)
	if err != nil {
		rows, listed := c.Quarantine(ctx)
		if listed != nil {
			return listed
		}
		for _, r := range rows {
			if r.Channel == channel && r.Bundle.Short() == bundle {
				d = r.Bundle
			}
		}
	}
	if d == "" {
		return exit.Badf("bundle %s is not quarantined on channel %s; give its whole digest to clear it on hosts alone", bundle, channel)
	}
	p, err := Push(ctx, a.Env, c, f, fleet.Override{Action: fleet.OverrideUnquarantine, Channel: channel, Bundle: d, Reason: reason})
	if err != nil {
		return err
	}
	a.Printf("Bundle %s is no longer quarantined on channel %s, by override %s\n", d.Short(), channel, p.ID)
	return nil
}
