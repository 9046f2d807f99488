package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

// answerIn is how long a command waits for one answer.
const answerIn = 30 * time.Second

// Talk makes a command that calls the server once: do gets a client and a
// context with a deadline.
func (e *Env) Talk(cmd *cobra.Command, do func(ctx context.Context, c *operator.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, args); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), answerIn)
		defer cancel()
		return e.WithClient(func(c *operator.Client) error { return do(ctx, c, args) })
	}
	e.NamesServer(cmd)
	return cmd
}

// filled refuses an argument or a reason that is empty: in a path it would name
// something else.
func filled(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return exit.Badf("an argument is empty\nusage: %s; see %s --help", cmd.UseLine(), cmd.CommandPath())
	}
	if f := cmd.Flags().Lookup("reason"); f != nil && f.Value.String() == "" && f.DefValue == NoReason {
		return exit.Badf("--reason is empty: say why, for the log")
	}
	return nil
}

// Shows makes a command that prints an answer of the server: as data, or by show for
// people.
func Shows[T any](e *Env, cmd *cobra.Command, get func(ctx context.Context, c *operator.Client, args []string) (T, error), show func(T) error) *cobra.Command {
	return e.PrintsData(e.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		answer, err := get(ctx, c, args)
		if err != nil {
			return err
		}
		return e.Print(answer, func() error { return show(answer) })
	}))
}

// Lists makes a command that prints a list of the server's, for people a row for each.
func Lists[T any](e *Env, cmd *cobra.Command, get func(ctx context.Context, c *operator.Client, args []string) ([]T, error), header []string, row func(T) []string) *cobra.Command {
	return Shows(e, cmd, func(ctx context.Context, c *operator.Client, args []string) ([]T, error) {
		list, err := get(ctx, c, args)
		return NonNil(list), err
	}, func(list []T) error {
		var rows [][]string
		for _, x := range list {
			rows = append(rows, row(x))
		}
		return e.Table(header, rows)
	})
}

// Stream is Talk without a deadline.
func (e *Env) Stream(cmd *cobra.Command, do func(ctx context.Context, c *operator.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, args); err != nil {
			return err
		}
		return e.WithClient(func(c *operator.Client) error { return do(cmd.Context(), c, args) })
	}
	e.NamesServer(cmd)
	return cmd
}

// WithClient calls the server that the flags of NamesServer name.
func (e *Env) WithClient(do func(*operator.Client) error) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return RemoteError(do(c))
}

func (e *Env) client() (*operator.Client, error) {
	where, err := e.Context()
	if err != nil {
		return nil, err
	}
	if where.Token == "" {
		return nil, exit.Badf("no operator token is known for %s; give --context DATA/operator.json of the server, or set %s", where.Server, EnvToken)
	}
	c, err := operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)})
	return c, exit.Bad(err)
}

// RemoteError gives what the server said, or did not say, its exit code.
func RemoteError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exit.Failure](err); ok {
		return err // it has its code
	}
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
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return exit.With(exit.Refused, fmt.Errorf("the server shows a certificate that the known authority did not sign: it is another fleet's server, one that was set up anew, or the authority is missing; give --ca DATA/pki/servers-ca.pem, or --context with the server's own operator.json (%w)", err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exit.With(exit.Unreachable, fmt.Errorf("no answer within %s; is the server running? %w", answerIn, err))
	}
	if _, ok := errors.AsType[*net.OpError](err); ok && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Unreachable, fmt.Errorf("%w; is the server running, and is it the one that --server or --context names?", err))
	}
	return err
}

// HostNames completes an argument with the names of hosts.
func (e *Env) HostNames(cmd *cobra.Command) *cobra.Command {
	return e.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, args []string, _ string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return Hosts(ctx, c, "")
	})
}

// Hosts lists the hosts for a completion, each name with what follows it.
func Hosts(ctx context.Context, c *operator.Client, end string) ([]string, error) {
	hosts, err := c.Hosts(ctx)
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name+end+"\t"+h.Phase)
	}
	return names, err
}

// RolloutNames completes an argument with the names of rollouts.
func (e *Env) RolloutNames(cmd *cobra.Command) *cobra.Command {
	return e.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, args []string, _ string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		rollouts, err := c.Rollouts(ctx)
		var names []string
		for _, r := range rollouts {
			names = append(names, r.Name+"\t"+r.Status)
		}
		return names, err
	})
}
