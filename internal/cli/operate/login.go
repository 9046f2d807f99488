// Package operate holds the commands that ask a server: they show what it knows,
// steer rollouts, and sign the overrides that hosts obey whoever controls the server.
package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
)

// verbs is one run of the command line.
type verbs struct{ *command.Env }

// Verbs returns the commands.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{
		a.statusCmd(), a.hostCmd(), a.rolloutCmd(), a.whyCmd(), a.eventsCmd(),
		a.quarantineCmd(), a.reconcileCmd(), a.loginCmd(), a.operatorCmd(),
	}
}

func (a verbs) loginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "login",
		GroupID: command.GroupWatch,
		Short:   "Keep how to reach a server, for later commands",
		Long: `Checks the given context against the server and keeps it in
~/.config/steady/config.json, readable by you alone. Later commands use it unless
flags or the environment say otherwise.`,
		Example: "  steady login --context data/operator.json\n  STEADY_TOKEN=... steady login --server https://steady.example:8443 --ca server-ca.pem",
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		where, err := a.Context()
		if err != nil {
			return err
		}
		path := command.ConfigFile(a.Getenv)
		if err := command.WriteContext(path, where); err != nil {
			return err
		}
		a.Printf("Reached fleet %s at %s; kept in %s\n", s.Fleet, where.Server, path)
		return nil
	})
}
