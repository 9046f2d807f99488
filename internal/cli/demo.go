package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/demo"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
)

func (a *app) demoCmd() *cobra.Command {
	var asJSON, keep bool
	cmd := &cobra.Command{
		Use: "demo", GroupID: command.GroupRun, Short: "Run a whole fleet on this machine, from keys to converged hosts",
		Long: `Makes a sample fleet with keys and signed releases in a temporary folder, starts a
server and six agents as processes of their own over mutual TLS on loopback, and
rolls out three releases: one in waves, a bad one that stops at its canary and
goes back by itself, and one that converges everywhere. It types the commands
that you would, then checks in the server's log and in the files of every host
that all of it happened. Code 0 means that it did.

Nothing outside of the temporary folder is touched, and it is removed at the end.`,
		Example: "  steady demo\n  steady demo --json\n  steady demo --keep",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			err = demo.Run(cmd.Context(), demo.Options{
				Keep:   keep,
				Report: demo.Report{Out: a.Out, Screen: term.Of(a.Out, a.Getenv), JSON: asJSON},
				Command: func(ctx context.Context, args ...string) *exec.Cmd {
					c := exec.CommandContext(ctx, self, args...)
					c.Args[0] = os.Args[0] // by which a binary of many names knows itself
					return c
				},
			})
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return exit.With(exit.Interrupted, errors.New("interrupted; everything was cleaned up"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line, the last one being the result")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave everything running until Ctrl-C, to play with")
	return cmd
}
