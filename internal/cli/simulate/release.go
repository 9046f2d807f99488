package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/replay"
)

// Bounds of --runs, and how many host courses are played unless it is given.
const (
	maxRuns    = 10_000
	fullRuns   = 200
	leastRuns  = 20
	hostsInAll = 200_000
)

type simulateOptions struct {
	source
	assumptions
	runs  int
	seed  uint64
	until string
	live  bool
	svg   string
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
or were never enrolled stay away, rollouts that are open go on.

What is assumed, and no more: an activation fails independently on each host with
--failure-rate, half of the times by itself and half by an enforce probe where there
is one; times are drawn evenly from their range; the timestamp is signed again
in time; no operator does anything; going back never fails. A bundle that is bad
everywhere is --failure-rate 100%.`,
		Example: `  steady release simulate
  steady release simulate fleet.yaml --failure-rate 2% --activation 30s..5m
  steady release simulate release --live --offline 5% --svg forecast.svg
  steady release simulate --failure-rate tag:gpu=20% --fail-hosts web-3 --runs 1000 --seed 7
  steady release simulate --failure-rate 100% -o json`,
	}
	f := cmd.Flags()
	o.assumptions.flags(cmd)
	f.IntVar(&o.runs, "runs", 0, "how many runs (default 200, fewer for more than 1000 hosts, at least 20)")
	f.Uint64Var(&o.seed, "seed", 1, "where chance begins: the same seed gives the same forecast")
	f.StringVar(&o.until, "until", "168h", "how far ahead to simulate")
	f.BoolVar(&o.live, "live", false, "begin with what the server has now")
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
	if o.runs < 0 || o.runs > maxRuns {
		return exit.Badf("--runs %d: expected 1 to %d", o.runs, maxRuns)
	}
	plans, err := a.plans(args)
	if err != nil {
		return err
	}
	f := fleetOf(plans, a.Wall(), horizon)
	if o.live || o.data != "" || o.file != "" {
		if err := a.begin(ctx, f, plans, o.source); err != nil {
			return err
		}
	}
	if err := known(assumed, f); err != nil {
		return err
	}
	runs := o.runs
	if runs == 0 {
		runs = max(leastRuns, min(fullRuns, hostsInAll/max(1, len(f.Hosts))))
	}
	if a.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // what a run leaves behind is garbage at once
	}
	tell := a.progress(fmt.Sprintf("played %%d of %d runs", runs))
	report, err := forecast.Run(ctx, f, assumed, runs, o.seed, tell)
	tell(-1)
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

// fleetOf is a fleet in which every host waits for the release.
func fleetOf(p *release.Plans, now clock.Instant, horizon clock.Duration) *forecast.Fleet {
	f := &forecast.Fleet{Docs: p, Release: p.Accepted(), Tags: map[string][]string{}, Start: now, Horizon: horizon,
		Hosts: slices.Sorted(maps.Keys(p.Roster.Hosts))}
	for name, h := range p.Roster.Hosts {
		f.Tags[name] = h.Tags
	}
	return f
}

// known refuses names that nothing in the fleet has.
func known(s forecast.Assumptions, f *forecast.Fleet) error {
	host := func(name string) error {
		if _, ok := f.Tags[name]; !ok {
			return exit.Badf("the release declares no host %q", name)
		}
		return nil
	}
	for _, name := range s.Fail {
		if err := host(name); err != nil {
			return err
		}
	}
	for _, r := range slices.Concat(s.Failure, s.Offline) {
		if r.Host != "" {
			if err := host(r.Host); err != nil {
				return err
			}
		}
		tagged := false
		for _, tags := range f.Tags {
			tagged = tagged || slices.Contains(tags, r.Tag)
		}
		if r.Tag != "" && !tagged {
			return exit.Badf("no host of the release has the tag %q", r.Tag)
		}
	}
	return nil
}

// both gives the manifests of a release and those of a log.
type both struct{ first, then plan.Documents }

// Manifest returns a manifest of either.
func (b both) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m, err := b.first.Manifest(d); err == nil {
		return m, nil
	}
	return b.then.Manifest(d)
}

// begin has the forecast start where a log ends. A channel of which the release
// changes nothing keeps the manifest that the server has.
func (a verbs) begin(ctx context.Context, f *forecast.Fleet, p *release.Plans, src source) error {
	h, err := a.history(ctx, src)
	if err != nil {
		return err
	}
	s, err := replay.Fold(h, h, h.End())
	if err != nil {
		return err
	}
	docs := both{p, h}
	for i := range f.Release.Channels {
		c := &f.Release.Channels[i]
		old := s.Channels[c.Channel]
		if old == nil || len(old.Manifests) == 0 || len(c.Manifests) == 0 {
			continue
		}
		next, err := docs.Manifest(c.Manifests[0].Digest)
		if err != nil {
			return err
		}
		if last, err := docs.Manifest(old.Manifests[0].Digest); err == nil && release.SamePlan(last.Header, next.Header) {
			c.Manifests = old.Manifests
		}
	}
	f.Docs = docs
	if f.Snapshot, err = json.Marshal(s); err != nil {
		return err
	}
	f.Skew = replay.Skew(h)
	if n := len(h.Records); n > 0 {
		f.Start = max(f.Start, s.Release.At)
	}
	return nil
}
