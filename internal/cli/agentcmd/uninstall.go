package agentcmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/sockets"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

func uninstall(use string) *cobra.Command {
	i := installer{use: use}
	purge := false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the agent of this host and remove its service and program",
		Long: `Stops and disables the service steady-agent, and removes it and its program from
/usr/local/bin; a program that another service of the machine names stays. What the
agent brought to the host stays: files, and containers that run. The state folder with
the host's identity stays too, so that install brings the same host back; --purge
removes it, after which the host needs a new token.

The server does not learn of it. To retire the host there: steady host decommission HOST.`,
		Example: "  sudo steady " + use + " uninstall\n  sudo steady " + use + " uninstall --purge",
		RunE: func(cmd *cobra.Command, _ []string) error {
			i.out = cmd.OutOrStdout()
			return i.end(i.uninstall(cmd.Context(), purge))
		},
	}
	i.flags(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the state folder as well: the host's identity, secrets and kept files")
	return cmd
}

func (i *installer) uninstall(ctx context.Context, purge bool) error {
	if err := i.prepare(); err != nil {
		return err
	}
	if i.ground.nixos {
		return exit.With(exit.Refused, errors.New("this is NixOS: remove services.steady-agent from its configuration, then nixos-rebuild switch; the host's identity stays in "+i.State()))
	}
	if i.services() == nil { // nobody starts it
		i.ground.services = &systemd
	}
	before, err := i.services().before(i.layout)
	if err != nil && !before.There {
		return err
	}
	i.Host = before.Host
	if before.There && i.ground.runs {
		if err := i.run(ctx, i.services().Stop...); err != nil {
			return err
		}
	}
	if purge {
		if err := i.unused(); err != nil {
			return err
		}
	}
	if (purge || i.ground.runs) && !i.print { // no agent runs: nobody is to wait for the next one
		if err := sockets.Stop(ctx, i.State()); err != nil {
			return err
		}
	}
	if err := i.removeAll(ctx, before); err != nil {
		return err
	}
	if purge {
		if err := i.remove(i.State()); err != nil {
			return err
		}
	} else {
		i.did("kept", i.State(), "the host's identity; --purge removes it")
	}
	i.note("Files and containers that the agent brought stay as they are.")
	if host, _, ok := strings.Cut(i.Host, " of fleet "); ok {
		i.note("To retire the host: steady host decommission %s, where operators are", host)
	}
	return nil
}

// removeAll removes the service and its program.
func (i *installer) removeAll(ctx context.Context, before declared) error {
	if err := i.removeLinks(); err != nil {
		return err
	}
	if err := i.remove(i.at(i.services().Declared)); err != nil {
		return err
	}
	program := i.Binary()
	if before.Program != "" {
		program = before.Program
		if filepath.Dir(program) != i.at(programs) {
			program = i.at(program)
		}
	}
	if err := i.removeProgram(program); err != nil {
		return err
	}
	if before.There && i.ground.runs {
		return i.run(ctx, i.services().Removed...)
	}
	return nil
}

// removeLinks has the service not begin with the machine.
func (i *installer) removeLinks() error {
	if i.services().Links == "" {
		return nil
	}
	links, err := filepath.Glob(i.at(i.services().Links))
	for _, l := range links {
		err = errors.Join(err, i.remove(l))
	}
	return err
}

// unused refuses to remove a state folder under an agent that runs.
func (i *installer) unused() error {
	if _, err := os.Stat(i.State()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a, err := daemon.Open(daemon.Config{StateDir: i.State(), Root: i.Root})
	if errors.Is(err, state.ErrLocked) {
		return exit.Badf("an agent still uses %s: stop it, then run this again", i.State())
	}
	if err != nil {
		return nil // there is no identity, or none that can be read: nobody uses it
	}
	return a.Close()
}
