package hosts

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func (a verbs) freezeCmd() *cobra.Command {
	var long string
	cmd := &cobra.Command{
		Use: "freeze HOST", Short: "Give a host no grants for a while",
		Long: `Gives a host no grant of any purpose but to go back, for a while, and takes back
what it was offered; what it has claimed it finishes. It counts as waiting in its
wave, which holds until the freeze ends: steady rollout promote lets the wave pass
without it. A freeze replaces an earlier one and lasts 90 days (2160h) at most.`,
		Example: "  steady host freeze web-1 --for 2h --reason 'disk swap'",
	}
	cmd.Flags().StringVar(&long, "for", "", "how long, such as 2h (required)")
	reason := command.RequiresReason(cmd)
	return a.HostNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (f operator.Frozen, err error) {
		if long == "" {
			return f, exit.Badf("a freeze has an end; give --for DURATION, such as --for 2h")
		}
		d, err := clock.ParseDuration(long)
		if err != nil || d == 0 {
			return f, exit.Badf("--for %q: expected a duration such as 30m or 2h", long)
		}
		return c.Freeze(ctx, args[0], d, *reason)
	}, func(f operator.Frozen) error {
		a.Printf("Host %s is frozen until %s. To end it before: steady host unfreeze %s\n", cmd.Flags().Arg(0), prose.Date(f.Until), cmd.Flags().Arg(0))
		return nil
	}))
}

func (a verbs) unfreezeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unfreeze HOST", Short: "End the freeze of a host",
		Example: "  steady host unfreeze web-1 --reason 'disk swapped'",
	}
	reason := command.RequiresReason(cmd)
	return a.HostNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.Unfreeze(ctx, args[0], *reason); err != nil {
			return err
		}
		a.Printf("Host %s is no longer frozen\n", args[0])
		return nil
	}))
}
