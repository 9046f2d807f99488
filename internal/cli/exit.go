package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// Exit codes. They are part of the command line's contract.
const (
	exitDone        = 0
	exitFailed      = 1
	exitBadInput    = 2
	exitRefused     = 3
	exitUnreachable = 4
	exitNotFound    = 5
	exitInterrupted = 130
)

const exitCodes = `Every command ends with one of these codes:

  0    done
  1    failed: the error says what and what to do next; for rollout watch, the
       rollout ended other than converged
  2    bad input: arguments, flags, or files, with file:line:column where known
  3    refused: a signature, a token, or a permission is not good enough
  4    not reachable: no server answered in time
  5    not found: no such host, rollout or bundle
  130  interrupted by Ctrl-C

Messages of errors go to stderr and begin with "steady: ". Findings in a file go
to stderr as file:line:column: message, one per line.`

func exitCodesHelp() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitCodes}
}

// failure is an error with an exit code. Without an error of its own, all that
// there is to say was said already.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return "failed"
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

func badInput(err error) error { return &failure{exitBadInput, err} }

func asBadInput(err error) error {
	if err == nil {
		return nil
	}
	return badInput(err)
}

// usage makes what a check of arguments refuses bad input.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return badInput(errors.Join(err, errors.New("usage: "+cmd.UseLine())))
		}
		return nil
	}
}

func told(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.err == nil
}

// codeOf chooses the exit code of an error.
func codeOf(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exitInterrupted
	}
	if _, ok := errors.AsType[*trust.Error](err); ok {
		return exitRefused
	}
	if _, ok := errors.AsType[*identity.TokenError](err); ok {
		return exitRefused
	}
	if errors.Is(err, fs.ErrPermission) {
		return exitRefused
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return exitUnreachable
	}
	if u, ok := errors.AsType[*url.Error](err); ok && u.Timeout() {
		return exitUnreachable
	}
	return exitFailed
}
