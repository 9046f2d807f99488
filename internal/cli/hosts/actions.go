package hosts

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
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
		if err != nil || d == 0 || d > plan.MaxFreeze {
			return f, exit.Badf("--for %q: expected a duration such as 30m or 2h, at most 90 days (2160h)", long)
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

func (a verbs) revokeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke HOST", Short: "End the certificates of a host at once",
		Long: `Ends every certificate that the host has: its open connections and streams are cut,
and its next request is refused. What runs on it keeps running. A new token enrols
it again.

The server alone remembers it. Put the host under revoked: in fleet.yaml as well,
build, sign and push, so that a server that is set up anew knows it too.`,
		Example: "  steady host revoke web-2 --reason stolen",
	}
	return a.ends(cmd, (*operator.Client).RevokeHost, "Host %s is revoked. Next: put it under revoked: in fleet.yaml, build, sign and push\n")
}

func (a verbs) decommissionCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "decommission HOST", Short: "Revoke a host and retire it",
		Long: `Revokes the host and gives it nothing more. What it may still be doing under a
grant keeps its slot of the disruption budgets until that is over: until an offer
expires, or as long as an activation and the way back may take. Then the slot is
free, whether the host was in contact or not. Enrolling it again brings it back.`,
		Example: "  steady host decommission web-2 --reason 'sold'",
	}
	return a.ends(cmd, (*operator.Client).DecommissionHost, "Host %s is decommissioned. Next: if fleet.yaml still has it, remove it there, build, sign and push\n")
}

func (a verbs) ends(cmd *cobra.Command, end func(*operator.Client, context.Context, string, string) error, words string) *cobra.Command {
	reason := command.RequiresReason(cmd)
	return a.HostNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (h operator.HostDetail, err error) {
		if err := end(c, ctx, args[0], *reason); err != nil {
			return h, err
		}
		return c.Host(ctx, args[0])
	}, func(h operator.HostDetail) error { a.Printf(words, h.Name); return nil }))
}

func (a verbs) pruneCmd() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "prune HOST", Short: "Remove from a host what carries its labels and nobody declares",
		Long: `Removes containers and networks that carry the labels of a host and that neither
its bundle nor its managed layer declares, such as what is left after a lost state
folder, and images that nothing refers to. Volumes are listed and kept with their
data. A host does this only if its signed declaration has "allow: [prune]".`,
		Example: "  steady host prune gpu-1 --dry-run\n  steady host prune gpu-1",
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would go")
	return a.HostNames(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		s, err := c.Prune(ctx, args[0], dry)
		if err != nil {
			return err
		}
		return command.Copy(ctx, s, a.Out, a.Err)
	}))
}

func (a verbs) retryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry HOST [KIND/NAME]", Short: "Have a host try again what it gave up",
		Long: `Has a host begin anew with a resource in Error, or with all of them: their attempts
start at none. Nothing but what is declared is tried, and nothing that runs as it
should is touched, so the host's declaration need not allow it. The host hears of it
with its next heartbeat. Without it a host tries again when what it sees has changed,
and otherwise some minutes after it gave up.`,
		Example: "  steady host retry web-1 --reason 'the registry is back'\n  steady host retry web-1 workspace/api --reason 'disk swapped'",
	}
	reason := command.RequiresReason(cmd)
	return a.CompletesWith(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		resource, what := "", "everything that it gave up"
		if len(args) == 2 {
			resource = args[1]
			what = resource
			if kind, name, ok := strings.Cut(resource, "/"); !ok || kind == "" || name == "" {
				return exit.Badf("%q: expected KIND/NAME, such as workspace/api", resource)
			}
		}
		if err := c.RetryHost(ctx, args[0], resource, *reason); err != nil {
			return err
		}
		a.Printf("Host %s tries %s again with its next heartbeat. Next: steady host resources %s --watch\n", args[0], what, args[0])
		return nil
	}), retryable)
}

// retryable completes a host, and then what of it is not as it should be.
func retryable(ctx context.Context, c *operator.Client, args []string, _ string) ([]string, error) {
	var names []string
	if len(args) == 0 {
		hosts, err := c.Hosts(ctx)
		for _, h := range hosts {
			names = append(names, h.Name+"\t"+string(h.Health))
		}
		return names, err
	}
	r, err := c.Resources(ctx, args[0])
	for _, x := range r.Resources {
		if x.Attempts > 0 || x.NextAttempt != 0 {
			names = append(names, x.Kind+"/"+x.Name+"\t"+x.State)
		}
	}
	return names, err
}
