package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
)

func (a verbs) safeModeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "safe-mode", GroupID: command.GroupWatch, Short: "Show for which hosts the server waits after a restore, and end that",
		Long: `Shows what the server waits for since it began, because its log was, or may have been,
restored from a backup. Hosts that were acknowledged events which the log lacks keep it
in safe mode: nothing but ways back is granted until they have sent those again, or the
time is over. Hosts that have not reported yet count against budgets when a claim comes.`,
		Example: "  steady safe-mode\n  steady safe-mode -o json\n  steady safe-mode end --reason 'web-3 is scrap'",
	}
	command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) (server.RestoreWait, error) {
		return c.SafeMode(ctx)
	}, a.showSafeMode)
	end := &cobra.Command{
		Use: "end", Short: "Grant again without the events that hosts owe the server",
		Long: `Ends the safe mode of a restored server before its time: grants are given although hosts
still owe it events. What they did since the backup is unknown until they send it, so
more hosts than the budgets allow may be in flight until then. The log keeps who ended
it, why, and which hosts were not waited for. It takes the token of an admin. Where the
log itself was set back, no token is enough: see steady server safe-mode end.`,
		Example: "  steady safe-mode end --reason 'web-3 is scrap'",
	}
	reason := command.RequiresReason(end)
	command.Shows(a.Env, end, func(ctx context.Context, c *operator.Client, _ []string) (server.RestoreWait, error) {
		return c.EndSafeMode(ctx, *reason)
	}, func(w server.RestoreWait) error {
		a.PrintFolded("The safe mode is over. The server did not wait for %s\nNext: steady host list\n", strings.Join(ownersOf(w), ", "))
		return nil
	})
	cmd.AddCommand(end)
	return cmd
}

// showSafeMode prints what the server waits for.
func (a verbs) showSafeMode(w server.RestoreWait) error {
	if len(w.Owed) == 0 {
		a.PrintFolded("The server is not in safe mode: no host owes it events\n")
	} else {
		a.PrintFolded("SAFE MODE until %s at most: nothing but ways back is granted\n", a.when(w.Until))
		var rows [][]string
		for _, o := range w.Owed {
			rows = append(rows, []string{o.Host, events(o)})
		}
		if err := a.Table([]string{"host", "has to send again"}, rows); err != nil {
			return err
		}
		a.PrintFolded("Next: wait; of a host that is gone for good, steady host revoke HOST; or steady safe-mode end --reason R\n")
	}
	if n := len(w.Unheard); n > 0 {
		a.PrintFolded("%s not reported since the server began: %s. Until %s at most a claim is accepted only if budgets have room with %s in flight\n",
			prose.Count(n, "host")+prose.Verb(n, " has", " have"), strings.Join(w.Unheard, ", "), a.when(w.UnheardUntil), prose.Verb(n, "it", "them"))
	}
	return nil
}

func ownersOf(w server.RestoreWait) (names []string) {
	for _, o := range w.Owed {
		names = append(names, o.Host)
	}
	return names
}

// events names the events that a host owes.
func events(o server.Owed) string { return fmt.Sprintf("events %d to %d", o.Logged+1, o.Acknowledged) }
