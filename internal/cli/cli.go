// Package cli is the command line of Steady: one function per verb. What the
// verbs share is in command, those that only ask a server in operate.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operations"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/bench"
	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/devices"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/keys"
	"github.com/steadyfleet/steady/internal/cli/operate"
	"github.com/steadyfleet/steady/internal/cli/simulate"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/workspaces"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/wire"
)

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
	agent := agentcmd.New("agent")
	agent.GroupID = command.GroupRun
	root.AddCommand(a.initCmd(), a.schemaCmd(), keys.Command(a.Env), a.releaseCmd(),
		a.demoCmd(), a.serverCmd(), command.Group(command.GroupRun, "token", "Let hosts enrol", "  steady token create web-1", a.tokenCreate()), agent,
		a.benchCmd(), a.doctorCmd(), simulate.Audit(a.Env), a.versionCmd(),
		&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exit.Help})
	root.AddCommand(simulate.Replay(a.Env), simulate.Command(a.Env), simulate.Worker(a.Env), operate.Command(a.Env))
	root.AddCommand(operate.Verbs(a.Env)...)
	root.AddCommand(apply.Verbs(a.Env)...)
	root.AddCommand(workspaces.Verbs(a.Env, a.imageLock())...)
	root.AddCommand(a.StreamVerbs()...)
	root.AddCommand(devices.Node(a.Env, a.nodeToken()), devices.Drift(a.Env))
	root.AddCommand(devices.Objects(a.Env)...)
	root.AddCommand(apply.Sessions(a.Env))
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
					err = exit.Accepts(about, rest, 0, 0)
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

func (a *app) versionCmd() *cobra.Command {
	return a.PrintsData(&cobra.Command{
		Use:     "version",
		GroupID: command.GroupMore,
		Short:   "Print the version",
		Example: "  steady version\n  steady version -o json",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Protocol string `json:"protocol"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{agentcmd.Version(), wire.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.Print(v, func() error {
				a.Printf("steady %s, agent protocol %s, %s, %s\n", v.Version, v.Protocol, v.Go, v.Platform)
				return nil
			})
		},
	})
}

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "init DIR",
		GroupID: command.GroupDeclare,
		Short:   "Write a small sample fleet to start from",
		Long: `Writes a sample fleet into DIR, which must be new or empty: fleet.yaml with six
hosts, two bundles, waves, a budget and probes, all with comments.`,
		Example: "  steady init fleet\n  cd fleet && steady keys init && steady release build",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			written, err := fleetdir.Sample(dir)
			if err != nil {
				return exit.Bad(err)
			}
			ignore, err := command.KeepOut(dir)
			if err != nil {
				return err
			}
			a.Printf("Wrote a sample fleet:\n  %s\n", strings.Join(append(written, ignore), "\n  "))
			enter := "cd " + dir + " && "
			if filepath.Clean(dir) == "." {
				enter = ""
			}
			a.Printf("Next: %ssteady keys init && steady release build\n", enter)
			return nil
		},
	}
}

// apiSchema names the description of the operator API.
const apiSchema = "api"

// schemaText is a schema as it is printed.
func schemaText(name string) ([]byte, error) {
	var v any = operator.SchemaOf(name)
	switch {
	case name == apiSchema:
		raw, err := operations.Description()
		if err != nil {
			return nil, err
		}
		v = json.RawMessage(raw)
	case slices.Contains(schemas, name):
		return fleetdir.SchemaJSON(name), nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

// schemas are the documents that people write.
var schemas = []string{"fleet", "bundle"}

func (a *app) schemaCmd() *cobra.Command {
	names := append(append(slices.Clone(schemas), apiSchema), spec.Kinds...)
	return &cobra.Command{
		Use:     "schema fleet|bundle|api|KIND",
		GroupID: command.GroupDeclare,
		Short:   "Print the JSON Schema of a document or a kind of resource, or the OpenAPI of a server",
		Long: `Prints the JSON Schema by which release build reads a declaration, for editors and
other programs. An editor with a YAML language server takes it with a first line
  # yaml-language-server: $schema=fleet.schema.json
That of a kind, such as workspace, is of the spec of a resource that steady apply sets.
That of api is the description in OpenAPI of what a server of this version answers to operators.`,
		Example:   "  steady schema fleet > fleet.schema.json\n  steady schema bundle\n  steady schema workspace\n  steady schema api > openapi.json",
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(names, args[0]) {
				return exit.Badf("there is no schema %q: expected %s%s", args[0], prose.Either(names), prose.DidYouMean(args[0], names))
			}
			text, err := schemaText(args[0])
			if err == nil {
				_, err = a.Out.Write(text)
			}
			return err
		},
	}
}

func (a *app) benchCmd() *cobra.Command {
	o := bench.Options{Version: agentcmd.Version()}
	cmd := &cobra.Command{
		Use:     "bench",
		GroupID: command.GroupMore,
		Short:   "Measure a server under a fleet of simulated hosts",
		Long: `Runs a server in a process of its own and a fleet of simulated hosts in this
one, and measures enrolment, changes without and with waves and a budget, and
the fleet at rest. The hosts have real keys, certificates, connections,
long-polls, claims and signed events; only their disks and what they change are
missing. It takes about 45 s for 1000 hosts. Nothing leaves this machine. --soak
makes many more changes and compares what the last third of them left behind with
the second. --viewers makes changes while tabs of the web UI follow the fleet, and says
how much longer they take; --forecasts does the same while the server plays forecasts,
and --nodes while nodes that own their configuration all reconnect at once.

Below the measurements, the figures stand beside those of another product and
beside what Steady aims for. They do not carry from one machine to another.`,
		Example: "  steady bench --hosts 100\n  steady bench --hosts 1000 --rounds 5 --idle 60s\n  steady bench --hosts 1000 --soak 168\n  steady bench --hosts 1000 --viewers 100\n  steady bench --hosts 1000 -o json > bench.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = func(line string) { fmt.Fprintln(a.Err, line) }
			r, err := bench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Print(r, func() error { return r.Print(a.Out) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Hosts, "hosts", 100, "how many hosts")
	f.IntVar(&o.Rounds, "rounds", 3, "changes without the policy, and as many with it in turn")
	f.StringVar(&o.KeepLog, "keep-log", "", "how long the server keeps the log, such as 60s, so that it is pruned in a soak (default: that of steady server)")
	f.IntVar(&o.Viewers, "viewers", 0, "how many look at the fleet, as tabs of the web UI do, in as many changes more")
	f.BoolVar(&o.Forecasts, "forecasts", false, "have the server play forecasts during as many changes more")
	f.IntVar(&o.Nodes, "nodes", 0, "how many nodes are connected, and all reconnect at once during as many changes more")
	f.IntVar(&o.Soak, "soak", 0, "changes to make after these, one after the other, the server killed in every tenth; 0 for none")
	f.DurationVar(&o.SoakEvery, "soak-every", 0, "least time from one of these changes to the next; each also waits until the running audit has read the log")
	f.DurationVar(&o.Idle, "idle", 10*time.Second, "how long to watch the fleet at rest; 60s is one cycle of long-polls")
	f.BoolVar(&o.Verify, "verify", false, "have the simulated hosts check every signature, as real ones do")
	f.StringVar(&o.Dir, "keep-dir", "", "new folder for all that the run makes, which is kept")
	viewers := &cobra.Command{
		Use: "viewers", Hidden: true, Args: cobra.NoArgs,
		Short:   "Be the tabs of the web UI that follow a benchmark",
		Example: "  steady bench viewers < viewers.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return bench.RunViewers(cmd.Context(), a.In, a.Out) },
	}
	nodes := &cobra.Command{
		Use: "nodes", Hidden: true, Args: cobra.NoArgs,
		Short:   "Be the nodes that a benchmark has connected",
		Example: "  steady bench nodes < nodes.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return bench.RunNodes(cmd.Context(), a.In) },
	}
	floor := &cobra.Command{
		Use: "floor DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short:   "Serve nothing, to be measured beside the server",
		Example: "  steady bench floor /tmp/steady-bench-1/floor",
		RunE:    func(cmd *cobra.Command, args []string) error { return bench.ServeBare(cmd.Context(), args[0], a.Out) },
	}
	cmd.AddCommand(floor, nodes, viewers)
	return a.PrintsData(cmd)
}
