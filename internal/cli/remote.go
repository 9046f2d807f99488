package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

// answerIn is how long a command waits for one answer.
const answerIn = 30 * time.Second

// talk makes a command that calls the server once: do gets a client and a
// context with a deadline.
func (a *app) talk(cmd *cobra.Command, do func(ctx context.Context, c *operator.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), answerIn)
		defer cancel()
		return a.withClient(func(c *operator.Client) error { return do(ctx, c, args) })
	}
	a.remote.register(cmd)
	return cmd
}

// stream is talk without a deadline.
func (a *app) stream(cmd *cobra.Command, do func(ctx context.Context, c *operator.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(func(c *operator.Client) error { return do(cmd.Context(), c, args) })
	}
	a.remote.register(cmd)
	return cmd
}

func (a *app) withClient(do func(*operator.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return remoteError(do(c))
}

func (a *app) client() (*operator.Client, error) {
	where, err := a.remote.context(a)
	if err != nil {
		return nil, err
	}
	if where.Token == "" {
		return nil, exit.Badf("no operator token is known for %s; give --context DATA/operator.json of the server, or set %s", where.Server, envToken)
	}
	c, err := operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)})
	return c, exit.Bad(err)
}

// remoteError gives what the server said, or did not say, its exit code.
func remoteError(err error) error {
	if refusal, ok := errors.AsType[*operator.Error](err); ok {
		switch refusal.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return exit.With(exit.Refused, err)
		case http.StatusNotFound:
			return exit.With(exit.NotFound, err)
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return exit.With(exit.BadInput, err)
		}
		return exit.With(exit.Failed, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exit.With(exit.Unreachable, fmt.Errorf("no answer within %s; is the server running? %w", answerIn, err))
	}
	return err
}

// names completes the arguments of a command with names from the server.
func (a *app) names(cmd *cobra.Command, list func(ctx context.Context, c *operator.Client) ([]string, error)) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		var names []string
		err := a.withClient(func(c *operator.Client) (err error) {
			names, err = list(ctx, c)
			return err
		})
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (a *app) hostNames(cmd *cobra.Command) *cobra.Command {
	return a.names(cmd, func(ctx context.Context, c *operator.Client) ([]string, error) {
		hosts, err := c.Hosts(ctx)
		var names []string
		for _, h := range hosts {
			names = append(names, h.Name+"\t"+h.Phase)
		}
		return names, err
	})
}

func (a *app) rolloutNames(cmd *cobra.Command) *cobra.Command {
	return a.names(cmd, func(ctx context.Context, c *operator.Client) ([]string, error) {
		rollouts, err := c.Rollouts(ctx)
		var names []string
		for _, r := range rollouts {
			names = append(names, r.Name+"\t"+r.Standing)
		}
		return names, err
	})
}

func (a *app) loginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "login",
		GroupID: groupWatch,
		Short:   "Keep how to reach a server, for later commands",
		Long: `Checks the given context against the server and keeps it in
~/.config/steady/config.json, readable by you alone. Later commands use it unless
flags or the environment say otherwise.`,
		Example: "  steady login --context data/operator.json\n  STEADY_TOKEN=... steady login --server https://steady.example:8443 --ca server-ca.pem",
		Args:    exit.Args(cobra.NoArgs),
	}
	return a.talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		where, err := a.remote.context(a)
		if err != nil {
			return err
		}
		path := configFile(a.Getenv)
		if err := writeContext(path, where); err != nil {
			return err
		}
		a.say("Reached fleet %s at %s; kept in %s\n", s.Fleet, where.Server, path)
		return nil
	})
}
