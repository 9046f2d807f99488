package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/demo"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/sandbox"
)

// demoWorld is where the private engine of a demonstration runs.
var demoWorld = sandbox.World{Env: "STEADY_DEMO_SANDBOX"}

type demoFlags struct {
	json, keep, docker bool
	engine             string
}

func (a *app) demoCmd() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo", GroupID: command.GroupRun, Short: "Run a whole fleet on this machine, from keys to converged hosts",
		Long: `Makes a sample fleet with keys and signed releases in a temporary folder, starts a
server and six agents as processes of their own over mutual TLS on loopback, and
rolls out three releases: one in waves, a bad one that stops at its canary and
goes back by itself, and one that converges everywhere. It types the commands
that you would, then checks in the server's log and in the files of every host
that all of it happened. Code 0 means that it did.

With --docker the fleet runs containers: a Compose application of two services,
a network, a volume and an image built from a folder, on two hosts that share one
engine. Clients ask for it all the while, and none may be refused; then a
container is removed by hand, and has to come back. The engine is that of the
machine if it answers. If not, and this is root on Linux with dockerd installed,
a private one is started in namespaces of its own, with no way in or out.

Nothing outside of the temporary folder is touched, and it is removed at the end;
so is everything that the demonstration made on the engine, and nothing else.`,
		Example: "  steady demo\n  steady demo --json\n  steady demo --keep\n  steady demo --docker",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.engine != "" && !f.docker {
				return exit.Badf("--engine is for the demonstration of containers: give --docker as well")
			}
			err := a.demonstrate(cmd.Context(), f)
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return exit.With(exit.Interrupted, errors.New("interrupted; everything was cleaned up"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line, the last one being the result")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave everything running until Ctrl-C, to play with")
	cmd.Flags().BoolVar(&f.docker, "docker", false, "run containers, on the machine's engine or a private one")
	cmd.Flags().StringVar(&f.engine, "engine", "", "socket or URL of the container engine (default: the machine's, else a private one)")
	cmd.AddCommand(demoAppCmd())
	return cmd
}

// demoAppCmd is what runs in the demonstration's containers: they are made of
// this program, so that nothing has to be pulled.
func demoAppCmd() *cobra.Command {
	return &cobra.Command{
		Use: "app count|serve|check ARG...", Hidden: true, Short: "Be the application in the demonstration's containers",
		Example: "  steady demo app serve /data /site",
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.App(cmd.Context(), args)
		},
	}
}

func (a *app) demonstrate(ctx context.Context, f demoFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := demo.Options{
		Keep:   f.keep,
		Report: demo.Report{Out: a.Out, Screen: a.Screen(), JSON: f.json, Inside: demoWorld.Inside()},
		Command: func(ctx context.Context, args ...string) *exec.Cmd {
			c := exec.CommandContext(ctx, self, args...)
			c.Args[0] = os.Args[0] // by which a binary of many names knows itself
			return c
		},
	}
	switch {
	case !f.docker:
		return demo.Run(ctx, o)
	case demoWorld.First():
		return enterDemo()
	case demoWorld.Inside() != 0:
		return demoInside(ctx, o)
	}
	socket := f.engine
	if socket == "" {
		socket = dockerapi.DefaultSocket
	}
	switch err := answers(ctx, socket); {
	case err == nil:
		return demo.RunContainers(ctx, demo.Containers{Options: o, Engine: socket})
	case f.engine != "":
		return exit.With(exit.Unreachable, err)
	default:
		return a.demoPrivate(ctx, f, err)
	}
}

// answers reports whether an engine is there.
func answers(ctx context.Context, socket string) error {
	api, err := dockerapi.Open(dockerapi.Options{Socket: socket})
	if err != nil {
		return exit.Badf("--engine: %w", err)
	}
	return errors.Join(api.Alive(ctx), api.Close())
}

// demoPrivate runs the demonstration again on a private engine; why is what the
// machine's engine said.
func (a *app) demoPrivate(ctx context.Context, f demoFlags, why error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := sandbox.Possible(); err != nil {
		return exit.With(exit.Unreachable, fmt.Errorf("no container engine: %w; and %w. Install one (%s), start it, or run this as root where dockerd is installed", why, err, sandbox.Install))
	}
	text := "No engine answers at " + dockerapi.DefaultSocket + ": starting a private one"
	if f.json {
		if err := term.Line(a.Out, map[string]string{"step": text}); err != nil {
			return err
		}
	} else {
		a.Printf("%s\n", text)
	}
	return enterDemo()
}

// enterDemo runs this program in the world of the demonstration.
func enterDemo() error {
	code, err := demoWorld.Enter()
	if err != nil {
		return exit.With(exit.Unreachable, err)
	}
	if code != exit.Done {
		return exit.Silently(code)
	}
	return nil
}

// demoInside starts a private engine and runs the demonstration on it.
func demoInside(ctx context.Context, o demo.Options) (err error) {
	dir, err := os.MkdirTemp("", "steady-engine-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e := sandbox.NewEngine("/run/steady", dir)
	if err := e.Start(ctx); err != nil {
		return exit.With(exit.Unreachable, err)
	}
	defer e.End(syscall.SIGTERM)
	return demo.RunContainers(ctx, demo.Containers{Options: o, Engine: e.Socket()})
}
