package hosts

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

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
