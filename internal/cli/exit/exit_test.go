package exit_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

func TestReport(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	cause := errors.New("cause")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		code int
		says string
	}{
		"done":                {nil, nil, exit.Done, ""},
		"any error":           {nil, cause, exit.Failed, "steady: cause\n"},
		"bad input":           {nil, fmt.Errorf("file: %w", exit.Bad(cause)), exit.BadInput, "steady: file: cause\n"},
		"bad input, said":     {nil, exit.Silently(exit.BadInput), exit.BadInput, ""},
		"trust":               {nil, fmt.Errorf("x: %w", &trust.Error{Code: trust.Expired, Message: "w"}), exit.Refused, ""},
		"token":               {nil, &identity.TokenError{Code: identity.TokenExpired, Message: "w"}, exit.Refused, ""},
		"permission":          {nil, &fs.PathError{Op: "open", Path: "p", Err: fs.ErrPermission}, exit.Refused, ""},
		"wrong certificate":   {nil, &tls.CertificateVerificationError{Err: cause}, exit.Refused, ""},
		"not reachable":       {nil, &net.OpError{Op: "dial", Net: "tcp", Err: cause}, exit.Unreachable, ""},
		"interrupted":         {ended, fmt.Errorf("x: %w", context.Canceled), exit.Interrupted, ""},
		"cancelled by chance": {nil, context.Canceled, exit.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			var out bytes.Buffer
			if got := exit.Report(c.ctx, &out, "steady", false, c.err); got != c.code {
				t.Errorf("code %d, expected %d", got, c.code)
			}
			silent := c.err == nil || name == "bad input, said"
			if silent != (out.Len() == 0) || (c.says != "" && out.String() != c.says) {
				t.Errorf("said %q, expected %q", out.String(), c.says)
			}
		})
	}
}

func TestBadOfNothingIsNothing(t *testing.T) {
	if err := exit.Bad(nil); err != nil {
		t.Errorf("bad input without an error is %v", err)
	}
	cmd := &cobra.Command{Use: "show HOST"}
	exit.CheckArgs(cmd)
	if err := cmd.Args(cmd, []string{"a"}); err != nil {
		t.Errorf("one argument of one: %v", err)
	}
	if err := cmd.Args(cmd, nil); exit.Report(t.Context(), &bytes.Buffer{}, "", false, err) != exit.BadInput {
		t.Errorf("no argument of one: %v", err)
	}
}

// TestUseSaysHowManyArguments reads Use lines of every form.
func TestUseSaysHowManyArguments(t *testing.T) {
	for use, c := range map[string]struct{ least, most int }{
		"list": {0, 0}, "show HOST": {1, 1}, "show [FILE]": {0, 1}, "lock [IMAGE...]": {0, 9}, "push FILE...": {1, 9},
		"retry HOST [KIND/NAME]": {1, 2}, "apply -f FILE [HOST]": {0, 1}, "rollback CHANNEL --to REF": {1, 1},
		"exec [-it] HOST/WORKSPACE -- COMMAND [ARG...]": {2, 9}, "create HOST/NAME [-- COMMAND...]": {1, 9},
	} {
		cmd := &cobra.Command{Use: use}
		exit.CheckArgs(cmd)
		for n := range 10 {
			if err := cmd.Args(cmd, make([]string, n)); (err == nil) != (n >= c.least && n <= c.most) {
				t.Errorf("%s with %d arguments: %v", use, n, err)
			}
		}
	}
}
