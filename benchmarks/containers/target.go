package main

import (
	"fmt"
	"strings"
)

// target is one figure that is to be reached.
type target struct {
	What string  `json:"what"`
	Unit string  `json:"unit"`
	Most float64 `json:"most"`
	Got  float64 `json:"got"`
	Kept bool    `json:"kept"`
}

// judge sets what was measured beside what is to be reached.
func (r *report) judge() {
	r.Targets = nil
	add := func(what, unit string, most, got float64) {
		r.Targets = append(r.Targets, target{what, unit, most, got, got <= most})
	}
	beside := func(what, step string, most float64, of func(spent) float64) {
		ours, peer := r.Rounds[step]["steady"], r.Rounds[step][newCompose]
		if len(ours) > 0 && len(peer) > 0 {
			add(what, "x compose v2", most, of(typical(ours))/typical(peer).Wall)
		}
	}
	wall, running := func(s spent) float64 { return s.Wall }, func(s spent) float64 { return s.Running }
	n := r.Options.Services
	beside(fmt.Sprintf("cold start of %d, until all run", n), stepCold, 1, running)
	beside(fmt.Sprintf("nothing to do, %d, each inspected anew", n), stepNothing, 0.35, wall)
	if ours, peer := r.Rounds[stepLook]["steady"], r.Rounds[stepNothing][newCompose]; len(ours) > 0 && len(peer) > 0 {
		add(fmt.Sprintf("nothing to do, %d, checked every 5 s", n), "x compose v2", 0.35, typical(ours).Wall/typical(peer).Wall)
	}
	beside(fmt.Sprintf("one change of %d, until it runs", n), stepOne, 1, running)
	if ours := r.Rounds[stepAll]["steady"]; len(ours) > 0 && n == swarmServices {
		add(fmt.Sprintf("replace all %d, until all run", n), "x swarm's 21.8 s", 0.6, typical(ours).Running/swarmReplace)
	}
	for _, c := range r.Cycles {
		if strings.HasPrefix(c.Workspaces, "100 ") {
			add("a cycle with nothing to do, 100 workspaces", "ms", 25, c.Cycle.Wall)
		}
	}
	if i := r.Idle; i != nil && i.Workspaces == mostRunning {
		add("RSS of the agent at rest", "MB", 25, mb(i.RSS))
		add("CPU of the agent at rest", "% of a core", 0.5, i.Agent)
	}
}

// What swarm took on a machine with 2 CPUs, in milliseconds. It has to be
// measured anew on others, and is not part of this program.
const (
	swarmServices = 50
	swarmReplace  = 21_800
)

// held is the table of targets.
func (r *report) held() string {
	if r.judge(); len(r.Targets) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %-44s | %9s | %9s | %-17s | %-4s |\n|---|---|---|---|---|\n", "what", "measured", "at most", "unit", "held")
	for _, t := range r.Targets {
		fmt.Fprintf(&b, "| %-44s | %9.2f | %9.2f | %-17s | %-4s |\n", t.What, t.Got, t.Most, t.Unit, map[bool]string{true: "yes", false: "no"}[t.Kept])
	}
	return b.String()
}
