// Package cli is the command line of Steady: one function per verb. What the
// verbs share is in command, those that only ask a server in operate.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/keys"
	"github.com/steadyfleet/steady/internal/cli/operate"
	"github.com/steadyfleet/steady/internal/cli/simulate"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/workspaces"
)

// app is one run of the command line.
type app struct{ *command.Env }

// Run runs one command to its end and returns the exit code of the process.
func Run(ctx context.Context, args []string, s command.Streams) int {
	a := &app{command.New(s)}
	cmd := a.root()
	cmd.SetArgs(args)
	cmd.SetIn(s.In)
	cmd.SetOut(s.Out)
	cmd.SetErr(s.Err)
	ran, err := cmd.ExecuteContextC(ctx)
	return exit.Report(ctx, s.Err, "steady", wantsJSON(ran), err)
}

// wantsJSON reports whether a command was to print for programs: its error is
// then for them as well.
func wantsJSON(cmd *cobra.Command) bool {
	for flag, value := range map[string]string{"output": string(term.JSON), "json": "true"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Value.String() == value {
			return true
		}
	}
	return false
}

const about = `Steady keeps a fleet of hosts as declared.

Declare the fleet in a folder, build and sign a release of it, and push it to a
server. Hosts run an agent that checks every signature itself, activates in
waves, and goes back by itself when a release is bad.

Try it: steady demo runs all of it on this machine in less than a minute.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "steady",
		Version:       agentcmd.Version(),
		Short:         "Keep a fleet of hosts as declared",
		Long:          about,
		Example:       "  steady demo\n  steady init fleet && cd fleet && steady keys init\n  steady release build && steady release sign\n  steady why web-1",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(exit.Flags)
	for _, g := range []struct{ id, title string }{
		{command.GroupDeclare, "Declare and sign:"}, {command.GroupRun, "Run:"}, {command.GroupWatch, "Watch and operate:"}, {command.GroupMore, "More:"},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
	}
	root.SetHelpCommandGroupID(command.GroupMore)
	root.SetCompletionCommandGroupID(command.GroupMore)
	root.AddCommand(a.initCmd(), a.schemaCmd(), keys.Command(a.Env), a.releaseCmd(),
		a.demoCmd(), a.serverCmd(), a.tokenCmd(), a.agentCmd(), a.benchCmd(), a.doctorCmd(), simulate.Audit(a.Env), a.versionCmd(),
		&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exit.Help})
	root.AddCommand(simulate.Replay(a.Env))
	root.AddCommand(simulate.Command(a.Env))
	root.AddCommand(operate.Verbs(a.Env)...)
	root.AddCommand(operate.Command(a.Env))
	root.AddCommand(apply.Verbs(a.Env)...)
	root.AddCommand(workspaces.Verbs(a.Env, a.imageLock())...)
	root.AddCommand(a.StreamVerbs()...)
	strict(root)
	return root
}

// strict has every command refuse what it does not know, those that cobra adds as well:
// by themselves they print help and end as if all were well.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Run = nil
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil {
					err = exit.Takes(about, rest, 0, 0)
				}
				if err != nil {
					return exit.Bad(err)
				}
				about.InitDefaultHelpFlag()
				return about.Help()
			}
		case "completion":
			cmd.Args, cmd.RunE = nil, command.Group("", cmd.Use, "", "").RunE
			for _, shell := range cmd.Commands() {
				shell.Args = nil
			}
		}
	}
	exit.CheckArgs(root)
}
