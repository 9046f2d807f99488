package simulate

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/sim"
)

// shrinks bounds how many schedules a shrink plays.
const shrinks = 400

type flags struct {
	seed   uint64
	seeds  int
	hosts  int
	drill  string
	trace  bool
	shrink bool
}

type played struct {
	Seed       uint64            `json:"seed"`
	Drill      string            `json:"drill,omitempty"`
	OK         bool              `json:"ok"`
	Hosts      int               `json:"hosts"`
	Releases   int               `json:"releases"`
	Events     int               `json:"events"`
	Steps      int               `json:"steps"`
	Elapsed    clock.Duration    `json:"elapsed"` // milliseconds of the fleet's time
	Faults     []string          `json:"faults"`
	Quiet      []string          `json:"quiet,omitempty"` // chances that it does not take
	Violations []audit.Violation `json:"violations"`
}

// Command returns the verb.
func Command(env *command.Env) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "simulate --seed SEED", GroupID: command.GroupMore, Short: "Play a fleet with faults and check what must always hold",
		Long: `Plays whole fleets in virtual time: the planner of the server and the machine of
the agent as they are, on a network that loses, delays and repeats messages, with
crashes, partitions, clocks that jump, servers that replace each other and logs
restored from a backup. One seed is one history, and every invariant is checked
after every event. Code 1 means that one does not hold; --trace prints all that
happened, and --shrink looks for less that breaks it. This plays no fleet of
yours: steady release simulate does.`,
		Example: "  steady simulate --seed 42\n  steady simulate --seed 42 --trace\n  steady simulate --seed 1 --seeds 500\n" +
			"  steady simulate --seed 7 --drill CrowdStrike2024 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(env, cmd) },
	}
	var names []string
	for _, d := range sim.Drills() {
		names = append(names, d.Name)
	}
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "the seed of the first schedule")
	cmd.Flags().IntVar(&f.seeds, "seeds", 1, "how many schedules to play, until one fails")
	cmd.Flags().IntVar(&f.hosts, "hosts", 0, "how many hosts (default: 2 to 12, by the seed)")
	cmd.Flags().StringVar(&f.drill, "drill", "", "play an incident: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&f.trace, "trace", false, "print all that happens")
	cmd.Flags().BoolVar(&f.shrink, "shrink", false, "reduce a schedule that fails to what it takes")
	command.Complete(cmd, "drill", names...)
	if err := cmd.MarkFlagRequired("seed"); err != nil {
		panic(err)
	}
	return env.PrintsData(cmd)
}

func (f *flags) config(seed uint64) (sim.Config, error) {
	if f.drill == "" {
		return sim.Config{Seed: seed, Hosts: f.hosts}, nil
	}
	for _, d := range sim.Drills() {
		if strings.EqualFold(d.Name, f.drill) {
			return d.Seed(seed), nil
		}
	}
	return sim.Config{}, exit.Badf("there is no drill %q; steady simulate --help lists them", f.drill)
}

func (f *flags) run(env *command.Env, cmd *cobra.Command) error {
	if f.seeds < 1 || f.hosts < 0 || f.hosts == 1 || f.hosts > 200 {
		return exit.Badf("--seeds is at least 1, --hosts 2 to 200")
	}
	if f.trace && f.seeds > 1 {
		return exit.Badf("--trace is of one schedule: leave --seeds out")
	}
	var last played
	for i := range f.seeds {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		cfg, err := f.config(f.seed + uint64(i))
		if err != nil {
			return err
		}
		if last = f.play(env, cfg); !last.OK {
			break
		}
	}
	if err := env.Print(last, func() error { show(env, f.seeds, &last); return nil }); err != nil {
		return err
	}
	if !last.OK {
		return exit.Silently(exit.Failed)
	}
	return nil
}

func (f *flags) play(env *command.Env, cfg sim.Config) played {
	r := sim.Run(cfg)
	if f.shrink && len(r.Violations) > 0 {
		cfg, r = sim.Shrink(cfg, shrinks)
	}
	if f.trace {
		cfg.Trace = func(at clock.Instant, words string) { fmt.Fprintf(env.Err, "%s %s\n", at, term.Printable(words)) }
		r = sim.Run(cfg)
	}
	p := played{Seed: r.Seed, OK: len(r.Violations) == 0, Hosts: r.Hosts, Releases: r.Releases, Events: r.Events, Steps: r.Steps,
		Elapsed: r.Elapsed, Faults: command.NonNil(r.Left(cfg)), Quiet: cfg.Disabled.Names(), Violations: command.NonNil(r.Violations)}
	if cfg.Drill != nil {
		p.Drill = cfg.Drill.Name
	}
	return p
}

func show(env *command.Env, seeds int, p *played) {
	if p.OK {
		if seeds > 1 {
			env.Printf("%d schedules, every invariant holds; the last:\n", seeds)
		}
		env.Printf("seed %d: %d hosts, %d releases, %d events, %s of the fleet's time; every invariant holds\n", p.Seed, p.Hosts, p.Releases, p.Events, p.Elapsed)
		return
	}
	env.Printf("seed %d: %d hosts, %d releases, %d events, then:\n", p.Seed, p.Hosts, p.Releases, p.Events)
	for _, v := range p.Violations {
		env.Printf("  %s\n", term.Printable(v.String()))
	}
	env.Printf("planned to go wrong:\n")
	for _, words := range p.Faults {
		env.Printf("  %s\n", term.Printable(words))
	}
	if len(p.Quiet) > 0 {
		env.Printf("it takes no %s\n", strings.Join(p.Quiet, ", "))
	}
}
