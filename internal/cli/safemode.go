package cli

import (
	"context"
	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control"
)

type safeModeEnded struct {
	Running bool   `json:"running"`
	Reason  string `json:"reason"`
}

func (a *app) safeModeCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "safe-mode", Short: "The server's safe mode, for the owner of its data folder"}
	var data, reason string
	end := &cobra.Command{
		Use: "end", Short: "Go on with a log that lost what was acknowledged",
		Long: `Has a server go on although its log lacks records that were acknowledged. Until then it
answers everybody with 503: what is lost may have revoked a host or an operator's
token. Restore the newest backup instead if there is one that has more.

It works for the owner of the data folder, or root there: a token is not enough, since
a revoked one may be good again. A running server takes the word within a second, a
stopped one at its next start. The log keeps who ended it, why, and what was missing.
A running server that waits for hosts after a restore goes on as well, as with
steady safe-mode end.

Then revoke again what was revoked since, push the newest release, and compare
steady operator list and steady host list with what should be there.`,
		Example: "  steady server safe-mode end --data /var/lib/steady --reason 'disk replaced, no backup is newer'\n  steady server safe-mode end --data data --reason drill -o json",
		Args:    cobra.NoArgs,
	}
	end.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	end.Flags().StringVar(&reason, "reason", "", "why, for the log (required)")
	cmd.AddCommand(command.Runs(a.Env, end, func(ctx context.Context) (safeModeEnded, error) { return a.endSafeMode(ctx, data, reason) }, a.showSafeModeEnded))
	return cmd
}

func (a *app) endSafeMode(ctx context.Context, data, reason string) (r safeModeEnded, err error) {
	if reason == "" {
		return r, exit.Badf("--reason is missing; the log keeps why the server goes on")
	}
	r.Reason = reason
	end := control.SafeModeEnd{ID: rand.Text(), Actor: whoami(), Reason: reason}
	return r, a.asOwner(ctx, data, end, func(running bool) error { r.Running = running; return nil })
}

func (a *app) showSafeModeEnded(r safeModeEnded) error {
	if r.Running {
		a.Printf("The running server goes on\n")
	} else {
		a.Printf("The server goes on at its next start\n")
	}
	a.Printf("Next: revoke again what was revoked since, push the newest release, and compare:\n  steady operator list\n  steady host list\n")
	return nil
}
