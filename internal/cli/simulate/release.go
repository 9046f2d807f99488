package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/replay"
)

type simulateOptions struct {
	source
	assumptions
	runs  int
	seed  uint64
	until string
	live  bool
	// accepted is without another release than the server has.
	accepted bool
	rollout  string
	svg      string
}

// Simulate returns steady release simulate.
func Simulate(e *command.Env) *cobra.Command {
	a, o := verbs{e}, simulateOptions{}
	cmd := &cobra.Command{
		Use: "simulate [DIR|fleet.yaml]", Short: "Play a release ahead: waves, budgets, halts and when it would end",
		Long: `Runs the server's own planner, and hosts that run the agent's own state machine,
over a release in virtual time, many times with other luck, and sums up: when each
wave is promoted, how far disruption budgets are used, in how many runs and in
which wave the release would be stopped and how many hosts it had touched by then,
and what would hold it. Nothing is pushed.

The argument is a release folder, signed or not, or a fleet folder or its
fleet.yaml, which is built in memory. The folder is read, not verified.

By default every host is there, healthy, and runs nothing yet. With --live the
forecast begins with what the server has now, with --data or --file with where that
log ends: hosts that run their target already change nothing, hosts that are away
or were never enrolled stay away, rollouts that are open go on. --accepted begins
there, too, and plays what the server has accepted already.

What is assumed, and no more: an activation fails independently on each host with
--failure-rate, half of the times by itself and half by an enforce probe where there
is one; times are drawn evenly from their range; the timestamp is signed again
in time; no operator does anything; going back never fails. A bundle that is bad
everywhere is --failure-rate 100%.`,
		Example: `  steady release simulate
  steady release simulate fleet.yaml --failure-rate 2% --activation 30s..5m
  steady release simulate release --live --offline 5% --svg forecast.svg
  steady release simulate --failure-rate tag:gpu=20% --fail-hosts web-3 --runs 1000 --seed 7
  steady release simulate --accepted --rollout stable@r2 --offline 5%
  steady release simulate --failure-rate 100% -o json`,
	}
	f := cmd.Flags()
	o.assumptions.flags(cmd)
	f.IntVar(&o.runs, "runs", 0, "how many runs (default 200, fewer for more than 1000 hosts, at least 20)")
	f.Uint64Var(&o.seed, "seed", 1, "where chance begins: the same seed gives the same forecast")
	f.StringVar(&o.until, "until", "168h", "how far ahead to simulate")
	f.BoolVar(&o.live, "live", false, "begin with what the server has now")
	f.BoolVar(&o.accepted, "accepted", false, "play what the server has accepted already, from what it has now, instead of a release folder")
	f.StringVar(&o.rollout, "rollout", "", "count this rollout alone")
	f.StringVar(&o.svg, "svg", "", "write a picture to this file: waves as bars over time, use of budgets")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.simulate(cmd.Context(), args, o) }
	a.fromFlags(cmd, &o.source)
	return a.PrintsData(cmd)
}

func (a verbs) simulate(ctx context.Context, args []string, o simulateOptions) error {
	assumed, err := o.assumptions.parse()
	if err != nil {
		return err
	}
	horizon, err := clock.ParseDuration(o.until)
	if err != nil {
		return exit.Badf("--until: %w", err)
	}
	if horizon <= 0 {
		return exit.Badf("--until %s: expected a time ahead, such as 24h", o.until)
	}
	if o.runs < 0 || o.runs > forecast.MaxRuns {
		return exit.Badf("--runs %d: expected 1 to %d", o.runs, forecast.MaxRuns)
	}
	f, err := a.fleet(ctx, args, &o)
	if err != nil {
		return err
	}
	f.Horizon, f.Only = horizon, o.rollout
	if err := f.Knows(&assumed); err != nil {
		return exit.Bad(err)
	}
	runs := o.runs
	if runs == 0 {
		runs = forecast.DefaultRuns(len(f.Hosts))
	}
	if a.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // what a run leaves behind is garbage at once
	}
	tell := a.progress(fmt.Sprintf("played %%d of %d runs", runs))
	report, err := forecast.Run(ctx, f, assumed, runs, o.seed, tell)
	tell(-1)
	if unknown, is := errors.AsType[*forecast.NameError](err); is {
		return exit.With(exit.NotFound, unknown)
	}
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, picture(report), 0o644); err != nil {
			return exit.Bad(err)
		}
	}
	return a.Print(report, func() error {
		if err := a.showForecast(report); err != nil {
			return err
		}
		if o.svg != "" {
			a.Printf("Picture: %s\n", o.svg)
		}
		return nil
	})
}

// fleet is what the forecast begins with.
func (a verbs) fleet(ctx context.Context, args []string, o *simulateOptions) (*forecast.Fleet, error) {
	var plans *release.Plans
	var err error
	if !o.accepted {
		if plans, err = a.plans(args); err != nil {
			return nil, err
		}
	} else if len(args) > 0 {
		return nil, exit.Badf("--accepted is of what the server has, without %s", args[0])
	}
	if !o.live && !o.accepted && o.data == "" && o.file == "" {
		return replay.Fresh(plans, a.Wall()), nil
	}
	h, err := a.history(ctx, o.source)
	if err != nil {
		return nil, err
	}
	return replay.Ahead(h, plans, a.Wall())
}

// plans reads or builds what the argument names.
func (a verbs) plans(args []string) (*release.Plans, error) {
	dir := "."
	if len(args) == 1 {
		dir = args[0]
	}
	if filepath.Base(dir) == fleetdir.FleetFile {
		dir = filepath.Dir(dir)
	} else if _, err := os.Stat(filepath.Join(dir, fleetdir.FleetFile)); err != nil {
		root, fsys, err := release.Open(dir)
		if err != nil {
			return nil, exit.Bad(err)
		}
		defer root.Close()
		p, err := release.PlansOf(fsys)
		return p, exit.Bad(err)
	}
	src, problems := fleetdir.Load(dir)
	var rel *release.Release
	if src != nil && !release.Fatal(problems) {
		var more []release.Problem
		rel, more = release.Build(src, release.BuildOptions{Now: a.Wall()})
		problems = release.Join(problems, more)
	}
	for _, p := range problems {
		fmt.Fprintln(a.Err, p)
	}
	if rel == nil || release.Fatal(problems) {
		return nil, exit.Silently(exit.BadInput)
	}
	return rel.Plans()
}
