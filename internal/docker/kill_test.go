package docker_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	mobyc "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func configOf(w *world, labels map[string]string) *mobyc.Config {
	return &mobyc.Config{Image: w.d.Busybox(w.t), Cmd: []string{"sleep", "100000"}, Labels: labels, StopSignal: "KILL"}
}

// replaced is a set with one workspace in a version. Its program writes the
// version into both of its volumes when it begins.
func replaced(version int, startFirst bool) spec.Set {
	grace := clock.Second
	w := spec.Workspace{Name: "web", Image: "plain", StopGrace: &grace, Env: []spec.Env{{Name: "V", Value: fmt.Sprint(version)}},
		Networks: []spec.Attachment{{Network: "back", Aliases: []string{"site"}}, {Network: "front"}},
		Update:   spec.Update{Monitor: 100}}
	s := spec.Set{Images: []spec.Image{plain("plain")}, Networks: []spec.Network{{Name: "back"}, {Name: "front"}}}
	if startFirst {
		w.Command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}
		w.Health = &spec.Health{Test: []string{"CMD", "true"}, Interval: 200, Retries: 3}
		s.Workspaces = []spec.Workspace{w}
		return s
	}
	w.Command = []string{"sh", "-c", "trap 'exit 0' TERM; echo $V >>/data/log; echo $V >>/scratch/log; sleep 100000 & wait"}
	w.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"}, {Type: spec.MountAnonymous, Target: "/scratch"}}
	s.Volumes = []spec.Volume{{Name: "data"}}
	s.Workspaces = []spec.Workspace{w}
	return s
}

// TestKillAtEveryEngineCallOfAReplace: an agent's process is killed before and
// after each change that a replacement asks of the engine. The next one, told
// the same or the version before, ends with the workspace running exactly once
// under its name, with its data, nothing left over, and nothing of others
// touched. It is killed next. What may not run twice never does, and what starts
// first never stops.
// A kill after a call and one before the next leave the engine the same. Every run
// takes each other call, before and after, and so meets each state of the engine;
// the nightly run takes all calls.
func TestKillAtEveryEngineCallOfAReplace(t *testing.T) {
	for _, startFirst := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			name := map[bool]string{false: "stop first", true: "start first"}[startFirst] + map[bool]string{false: ", before the call", true: ", after the call"}[after]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				killAtEachCall(t, startFirst, after)
			})
		}
	}
}

func killAtEachCall(t *testing.T, startFirst, after bool) {
	w := newWorld(t)
	w.cfg.Volumes = true
	same := w.foreign("web")
	proxy := w.d.Proxy()
	w.cfg.Socket = proxy.Socket()
	p := w.spawn(w.cfg, replaced(0, startFirst))
	if !p.await() {
		t.Fatalf("the agent ended: %s", p.said.String())
	}
	w.one("web", true)
	if !startFirst {
		w.run("web", "sh", "-c", "echo kept >/data/mark; echo kept >/scratch/mark")
	}
	version, step := 0, 2
	if testkit.Nightly() {
		step = 1
	}
	for n := 1; ; n += step {
		version++
		fired := w.killedAt(proxy, p, n, replaced(version, startFirst), startFirst, after)
		if !fired {
			if n < 7 {
				t.Errorf("a replacement took only %d calls", n-1)
			}
			t.Logf("%d calls", n-1)
			w.replacedRight(version, startFirst)
			break
		}
		want := version
		if version%2 == 0 {
			want-- // the version before comes back meanwhile
		}
		p = w.spawn(w.cfg, replaced(want, startFirst))
		if !p.await() {
			t.Fatalf("call %d: the next agent ended: %s", n, p.said.String())
		}
		w.replacedRight(want, startFirst)
		same()
		if t.Failed() {
			t.Fatalf("call %d", n)
		}
	}
	same()
}

// killedAt has an agent declare a set and kills it at its n-th change, unless it
// has converged without making so many.
func (w *world) killedAt(proxy *dockertest.Proxy, p *process, n int, s spec.Set, startFirst, after bool) (fired bool) {
	w.t.Helper()
	var mu sync.Mutex
	fate := func(r dockertest.Request) dockertest.Outcome {
		if r.Write == 0 {
			return dockertest.Pass
		}
		w.countRunning(startFirst)
		if r.Write != n {
			return dockertest.Pass
		}
		mu.Lock()
		fired = true
		mu.Unlock()
		p.kill()
		return dockertest.Drop
	}
	proxy.Forget()
	if after {
		proxy.After(fate)
	} else {
		proxy.Before(fate)
	}
	p.declare(s)
	converged := p.await()
	proxy.Before(nil)
	proxy.After(nil)
	mu.Lock()
	defer mu.Unlock()
	if converged == fired {
		w.t.Fatalf("call %d: converged %v, killed %v: %s", n, converged, fired, p.said.String())
	}
	return fired
}

// countRunning fails the test if two run of what may run once only, or none runs
// of what is replaced without a gap.
func (w *world) countRunning(startFirst bool) {
	f := client.Filters{}.Add("label", convert.LabelOwner+"="+w.owner.ID())
	list, err := w.api.ContainerList(w.ctx, client.ContainerListOptions{Filters: f})
	switch {
	case err != nil:
		w.t.Error(err)
	case !startFirst && len(list.Items) > 1:
		w.t.Errorf("%d run at once of what shares a volume", len(list.Items))
	case startFirst && len(list.Items) == 0:
		w.t.Errorf("none runs although the new one starts first:\n%s", w.listed())
	}
}

func (w *world) replacedRight(version int, startFirst bool) {
	w.t.Helper()
	c := w.one("web", true)
	want := fmt.Sprint("V=", version)
	found := false
	for _, e := range c.Config.Env {
		found = found || e == want
	}
	if !found {
		w.t.Errorf("environment %v, want %s", c.Config.Env, want)
	}
	for _, net := range []string{"back", "front"} {
		if c.NetworkSettings.Networks[w.owner.Title(net)] == nil {
			w.t.Errorf("not on network %s", net)
		}
	}
	if startFirst {
		return
	}
	for _, dir := range []string{"/data", "/scratch"} {
		if got := w.run("web", "cat", dir+"/mark"); got != "kept\n" {
			w.t.Errorf("data in %s: %q", dir, got)
		}
		if got := strings.Fields(w.run("web", "cat", dir+"/log")); len(got) == 0 || got[0] != "0" || got[len(got)-1] != fmt.Sprint(version) {
			w.t.Errorf("log in %s: %v", dir, got)
		}
	}
}
