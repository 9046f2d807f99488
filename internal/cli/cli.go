// Package cli is the command line of Steady: one function per verb, and the
// rules that all of them share for output, errors and exit codes.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// Streams is what a command touches of its process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// Process returns the streams of this process.
func Process() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// app is one run of the command line.
type app struct {
	Streams
	now    func() time.Time
	format string
	remote remoteFlags
}

// Run runs one command to its end and returns the exit code of the process.
func Run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s, now: time.Now}
	cmd := a.root()
	cmd.SetArgs(args)
	cmd.SetIn(s.In)
	cmd.SetOut(s.Out)
	cmd.SetErr(s.Err)
	return exit.Report(ctx, s.Err, "steady", cmd.ExecuteContext(ctx))
}

const about = `Steady keeps a fleet of hosts as declared.

Declare the fleet in a folder, build and sign a release of it, and push it to a
server. Hosts run an agent that checks every signature itself, activates in
waves, and goes back by itself when a release is bad.

Try it: steady demo runs all of it on this machine in less than a minute.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "steady",
		Short:         "Keep a fleet of hosts as declared",
		Long:          about,
		Example:       "  steady demo\n  steady init fleet && cd fleet && steady keys init\n  steady release build && steady release sign\n  steady why web-1",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          exit.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(exit.Flags)
	for _, g := range []struct{ id, title string }{
		{groupDeclare, "Declare and sign:"}, {groupRun, "Run:"}, {groupWatch, "Watch and operate:"}, {groupMore, "More:"},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
	}
	root.SetHelpCommandGroupID(groupMore)
	root.SetCompletionCommandGroupID(groupMore)
	root.AddCommand(a.initCmd(), a.keysCmd(), a.releaseCmd(),
		a.demoCmd(), a.serverCmd(), a.tokenCmd(), a.agentCmd(), a.statusCmd(), a.hostCmd(), a.rolloutCmd(), a.whyCmd(), a.eventsCmd(),
		a.quarantineCmd(), a.reconcileCmd(), a.loginCmd(), a.operatorCmd(), a.benchCmd(), a.doctorCmd(), a.versionCmd(),
		&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exit.Help})
	return root
}

const (
	groupDeclare = "declare"
	groupRun     = "run"
	groupWatch   = "watch"
	groupMore    = "more"
)

// wall returns wall time.
func (a *app) wall() clock.Instant { return clock.FromTime(a.now()) }

// printsData adds -o to a command that prints data.
func (a *app) printsData(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&a.format, "output", "o", string(term.Table), "output format: table, json or yaml")
	complete(cmd, "output", string(term.Table), string(term.JSON), string(term.YAML))
	return cmd
}

// print shows v in the format that was asked for; table prints it for people.
func (a *app) print(v any, table func() error) error {
	f, err := term.ParseFormat(a.format)
	if err != nil {
		return exit.Bad(err)
	}
	if f == term.Table {
		return table()
	}
	return term.Data(a.Out, f, v)
}

// saysTable reports whether output is for people; it refuses unknown formats.
func (a *app) saysTable() (bool, error) {
	f, err := term.ParseFormat(a.format)
	return f == term.Table, exit.Bad(err)
}

func (a *app) say(format string, args ...any) { fmt.Fprintf(a.Out, format, args...) }

func (a *app) warn(format string, args ...any) { fmt.Fprintf(a.Err, "steady: "+format+"\n", args...) }

// complete offers fixed values for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not defined
	}
}

// group makes a command that only holds others.
func group(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exit.Badf("%s needs a command", cmd.CommandPath())
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}
