package hosts

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
)

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
	return a.ends(cmd, (*operator.Client).DecommissionHost, "Host %s is decommissioned. Next: remove it from fleet.yaml, build, sign and push\n")
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
