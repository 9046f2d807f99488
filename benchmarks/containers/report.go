package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// report is what a run measured.
type report struct {
	Options options                       `json:"options"`
	At      time.Time                     `json:"at"`
	CPUs    int                           `json:"cpus"`
	Go      string                        `json:"go"`
	Engine  string                        `json:"engine"`
	Left    []string                      `json:"leftOut,omitempty"`
	Rounds  map[string]map[string][]spent `json:"rounds"` // by step and program
	Cycles  []cycle                       `json:"cycles"`
	Idle    *idle                         `json:"idle,omitempty"`
	Seconds float64                       `json:"seconds"` // of the whole
	Targets []target                      `json:"targets"`
}

// cycle is what looking at everything costs, medians.
type cycle struct {
	Workspaces string `json:"workspaces"`
	List       spent  `json:"list"`  // one call that lists the containers
	Cycle      spent  `json:"cycle"` // as every five seconds while events are heard, with its share of the sweep
	Whole      spent  `json:"whole"` // everything inspected anew
}

func (r *report) begin(o options) {
	*r = report{Options: o, At: time.Now().UTC(), CPUs: runtime.NumCPU(), Go: runtime.Version(), Left: o.missing, Rounds: map[string]map[string][]spent{}}
}

func (r *report) add(step, program string, s spent) {
	if r.Rounds[step] == nil {
		r.Rounds[step] = map[string][]spent{}
	}
	r.Rounds[step][program] = append(r.Rounds[step][program], s)
}

// typical has the median of each figure.
func typical(all []spent) spent {
	return spent{
		Wall:    median(all, func(s spent) float64 { return s.Wall }),
		Client:  median(all, func(s spent) float64 { return s.Client }),
		Engine:  mean(all, func(s spent) float64 { return s.Engine }), // its steps are too coarse for one
		Running: median(all, func(s spent) float64 { return s.Running }),
		Calls:   int64(median(all, func(s spent) float64 { return float64(s.Calls) })),
		Writes:  int64(median(all, func(s spent) float64 { return float64(s.Writes) })),
	}
}

func mean(all []spent, of func(spent) float64) (sum float64) {
	for _, s := range all {
		sum += of(s) / float64(len(all))
	}
	return sum
}

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d services on %d networks, %d rounds, %d CPUs, %s, engine %s. Medians in ms; engine CPU is a mean.\n",
		r.Options.Services, networks, r.Options.Rounds, r.CPUs, r.Go, r.Engine)
	for _, l := range r.Left {
		fmt.Fprintln(&b, l)
	}
	fmt.Fprintf(&b, "\n%-28s %-14s %9s %9s %9s %9s %7s %7s   %s\n", "", "", "wall", "running", "own CPU", "engine", "calls", "writes", "ratio to compose v2")
	for _, step := range append(steps, stepLook, stepListing, stepFloor) {
		of := r.Rounds[step]
		for _, name := range sorted(of) {
			s := typical(of[name])
			fmt.Fprintf(&b, "%-28s %-14s %9.1f %9.1f %9.1f %9.1f %7d %7d   %s\n", step, name, s.Wall, s.Running, s.Client, s.Engine, s.Calls, s.Writes, r.ratio(step, name, s))
		}
	}
	if len(r.Cycles) > 0 {
		fmt.Fprintf(&b, "\n%-28s %9s %9s %9s   %s\n", "a cycle with nothing to do", "wall", "own CPU", "engine", "one listing alone; everything inspected anew")
	}
	for _, c := range r.Cycles {
		fmt.Fprintf(&b, "%-28s %9.1f %9.1f %9.1f   %.1f; %.1f (CPU %.1f and %.1f)\n", c.Workspaces, c.Cycle.Wall, c.Cycle.Client, c.Cycle.Engine, c.List.Wall, c.Whole.Wall, c.Whole.Client, c.Whole.Engine)
	}
	if r.Idle != nil {
		b.WriteString(r.Idle.text())
	}
	b.WriteString(r.held())
	fmt.Fprintf(&b, "\nall of it took %s\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	return b.String()
}

// ratio sets ours beside the peer: the whole, and until all run.
func (r *report) ratio(step, name string, s spent) string {
	peerStep := step
	if name != "steady" {
		return ""
	}
	if len(r.Rounds[step]) == 1 && step != stepAll && step != stepCold && step != stepOne {
		peerStep = stepNothing
	}
	peer := r.Rounds[peerStep][newCompose]
	if len(peer) == 0 {
		return ""
	}
	p := typical(peer)
	if s.Running == 0 {
		return fmt.Sprintf("%.2f", s.Wall/p.Wall)
	}
	return fmt.Sprintf("%.2f until declared good, %.2f until all run", s.Wall/p.Wall, s.Running/p.Wall)
}

// list is one listing of all containers.
func (b *bench) list() spent {
	return b.measure(0, func() {
		_, err := b.api.ContainerList(b.ctx, client.ContainerListOptions{All: true})
		b.ok(err)
	})
}
