package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Steps of a round.
const (
	stepCold    = "cold up"
	stepNothing = "nothing to do"
	stepOne     = "one change"
	stepAll     = "replace all, 10 at a time"
)

// What else ours is measured at with nothing to do, beside the peer's step.
const (
	stepLook    = "the same, every 5 s"
	stepListing = "the same from one listing"
	stepFloor   = "list and inspect, one by one"
)

var steps = []string{stepCold, stepNothing, stepOne, stepAll}

// mostAtOnce is how many containers a peer replaces at once.
const mostAtOnce = 10

// The peers.
const (
	newCompose = "compose v2"
	oldCompose = "compose 1.29"
)

// program is one of those that bring a project up.
type program struct {
	name string
	// round takes one project through all steps.
	round func(dir string, say func(step string, s spent))
}

// ups measures the steps, each program in turn in every round.
func (b *bench) ups() {
	programs := []program{{"steady", b.steady}}
	if b.o.v2 != "" {
		programs = append(programs, program{newCompose, b.compose(b.o.v2, newCompose)})
	}
	if b.o.v1 != "" {
		programs = append(programs, program{oldCompose, b.compose(b.o.v1, oldCompose)})
	}
	if b.o.programs != "" {
		asked := strings.Split(b.o.programs, ",")
		programs = slices.DeleteFunc(programs, func(p program) bool { return !slices.Contains(asked, p.name) })
	}
	var longest time.Duration
	for round := range b.o.Rounds {
		began := time.Now()
		if round > 0 && time.Since(b.began)+longest+b.rest() > b.o.within {
			b.report.Left = append(b.report.Left, fmt.Sprintf("%d of %d rounds: more would have taken longer than %s", round, b.o.Rounds, b.o.within))
			break
		}
		for i := range programs {
			p := programs[(i+round)%len(programs)]
			if p.name == oldCompose && round > 0 {
				continue // it takes as long as the two others together
			}
			dir, err := os.MkdirTemp(b.dir, "round-")
			b.ok(err)
			p.round(dir, func(step string, s spent) {
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %.0f ms, running after %.0f ms, CPU %.0f and %.0f ms, %d calls\n",
					round+1, p.name, step, s.Wall, s.Running, s.Client, s.Engine, s.Calls)
				b.report.add(step, p.name, s)
			})
			b.wipe()
		}
		longest = max(longest, time.Since(began))
	}
}

// rest is about what cycles and the agent at rest take.
func (b *bench) rest() (sum time.Duration) {
	if strings.Contains(b.o.only, "cycle") {
		sum += 150 * time.Second
	}
	if strings.Contains(b.o.only, "idle") {
		sum += 90*time.Second + time.Duration(b.o.Idle)*time.Second
	}
	return sum
}

// compose takes a project through the steps with a peer.
func (b *bench) compose(binary, name string) func(string, func(string, spent)) {
	return func(dir string, say func(string, spent)) {
		up := func(text string, starts int) spent {
			b.ok(os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o644))
			return b.measure(starts, func() {
				cmd := exec.Command(binary, "-p", "bench", "-f", "compose.yaml", "up", "-d")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+b.d.Socket(), "HOME="+dir)
				// Else as many at once as it likes; with a bound the old one may hang for ever.
				if starts > 1 && name != oldCompose && strings.Contains(text, `"vb"`) {
					cmd.Env = append(cmd.Env, fmt.Sprintf("COMPOSE_PARALLEL_LIMIT=%d", mostAtOnce))
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%s: %v: %s", name, err, tail(string(out)))
				}
			})
		}
		n := b.o.Services
		say(stepCold, up(project(n, "1", "a", true), n))
		if b.o.cold {
			return
		}
		for range b.nothings() {
			say(stepNothing, up(project(n, "1", "a", true), 0))
		}
		say(stepOne, up(project(n, "2", "a", true), 1))
		say(stepAll, up(project(n, "2", "b", true), n))
	}
}

func (b *bench) nothings() int { return min(3, 2*b.o.Rounds-1) }

// steady takes the project through the steps with ours.
func (b *bench) steady(dir string, say func(string, spent)) {
	r := openRig(b.host, dir, b.d.Socket(), b.o.starts)
	defer r.close()
	n := b.o.Services
	up := func(text string, starts int) spent {
		set := load(b.host, dir, text)
		return b.counted(r, starts, func() { r.converge(set) })
	}
	stop := b.profile()
	say(stepCold, up(project(n, "1", "a", true), n))
	stop()
	if b.o.cold {
		return
	}
	for range b.nothings() {
		say(stepNothing, b.nothing(r, whole))
		b.report.add(stepLook, "steady", b.nothing(r, usual))
		b.report.add(stepListing, "steady", b.nothing(r, atOnce))
		b.report.add(stepFloor, "steady", b.floor())
	}
	say(stepOne, up(project(n, "2", "a", true), 1))
	say(stepAll, up(project(n, "2", "b", true), n))
}

// counted measures f with the calls to the engine.
func (b *bench) counted(r *rig, starts int, f func()) spent {
	before := r.engine.Calls()
	s := b.measure(starts, f)
	after := r.engine.Calls()
	s.Writes = after.Writes - before.Writes
	s.Calls = after.Reads - before.Reads + s.Writes
	return s
}

// floor is the least that a look at every field can take without a memory.
func (b *bench) floor() spent {
	return b.measure(0, func() {
		list, err := b.api.ContainerList(b.ctx, client.ContainerListOptions{All: true})
		b.ok(err)
		for _, c := range list.Items {
			_, err := b.api.ContainerInspect(b.ctx, c.ID, client.ContainerInspectOptions{})
			b.ok(err)
		}
		_, err = b.api.NetworkList(b.ctx, client.NetworkListOptions{})
		b.ok(err)
		_, err = b.api.VolumeList(b.ctx, client.VolumeListOptions{})
		b.ok(err)
		_, err = b.api.ImageList(b.ctx, client.ImageListOptions{})
		b.ok(err)
	})
}

// profile writes a CPU profile until stop, if one is asked for.
func (b *bench) profile() (stop func()) {
	if b.o.profile == "" {
		return func() {}
	}
	f, err := os.Create(b.o.profile)
	b.ok(err)
	b.ok(pprof.StartCPUProfile(f))
	return func() {
		pprof.StopCPUProfile()
		b.ok(f.Close())
	}
}
