package docker_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/testkit"
)

// observer looks at this host's containers every few milliseconds, and fails the test
// when two of one workspace run, or two have its name.
type observer struct {
	stop chan struct{}
	done chan struct{}
	once sync.Once
}

func (w *world) observe() *observer {
	o := &observer{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-o.stop:
				return
			case <-tick.C:
			}
			f := client.Filters{}.Add("label", convert.LabelOwner+"="+w.owner.ID())
			list, err := w.api.ContainerList(w.ctx, client.ContainerListOptions{Filters: f})
			if err != nil {
				w.t.Error(err)
				return
			}
			running := map[string]int{}
			for _, c := range list.Items {
				running[c.Labels[convert.LabelName]]++
			}
			for name, n := range running {
				if n > 1 {
					w.t.Errorf("%d containers of workspace %s run at once", n, name)
				}
			}
		}
	}()
	w.t.Cleanup(o.end)
	return o
}

func (o *observer) end() { o.once.Do(func() { close(o.stop) }); <-o.done }

// shared is a set of two workspaces, one of them of an image that is built.
func shared(version int) spec.Set {
	s := replaced(version, false)
	s.Images = append(s.Images, built("made", fmt.Sprint(version)))
	other := s.Workspaces[0]
	other.Name, other.Image, other.Mounts, other.Command = "other", "made", nil, sleeper("other")
	s.Workspaces = append(s.Workspaces, other)
	return s
}

// agreed waits until all agents have come to rest at once: until then one may undo
// what another had seen.
func (w *world) agreed(agents []*agent) {
	w.t.Helper()
	wrote := func() (n int64) {
		for _, a := range agents {
			n += a.engine.Calls().Writes
		}
		return n
	}
	w.a = agents[0]
	quiet := 0 // looks in a row: one of them may come between two writes of an agent
	w.until("the agents do not agree", func() (bool, string) {
		before := wrote()
		quiet++
		for _, a := range agents {
			if words, err := a.unsettled(w.ctx); words != "" || err != nil {
				quiet = 0
				return false, fmt.Sprint(words, err)
			}
		}
		if wrote() != before || len(w.own("web")) != 1 || len(w.own("other")) != 1 {
			quiet = 0
		}
		return quiet >= 3, "one writes"
	})
}

// TestFourAgentsOnOneEngine: four agents of one host, which cannot be told from
// each other, deploy and replace the same at once: the engine is never asked to
// run two containers of a workspace, makes one of each when they are new, and all
// four end with the same.
func TestFourAgentsOnOneEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	births := w.births()
	var agents []*agent
	for i := range 4 {
		cfg := w.cfg
		cfg.Dir = filepath.Join(w.t.TempDir(), fmt.Sprint(i))
		agents = append(agents, w.open(cfg))
	}
	watch := w.observe()
	versions := 2
	if testkit.Nightly() {
		versions = 3
	}
	for version := range versions {
		s := shared(version)
		var wg sync.WaitGroup
		for _, a := range agents {
			wg.Go(func() {
				if err := a.declare(w.ctx, w.layer(s)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.agreed(agents)
		if version == 0 {
			w.run("web", "sh", "-c", "echo kept >/data/mark; echo kept >/scratch/mark")
			made := births()
			if web, other := made[w.owner.Title("web")], made[w.owner.Title("other")]; web != 1 || other != 1 {
				t.Errorf("the engine made %v", made)
			}
		}
		w.replacedRight(version, false)
		w.one("other", true)
	}
	watch.end()
	before := int64(0)
	for _, a := range agents {
		w.a = a
		w.settled()
		w.right(shared(versions - 1))
		before += a.engine.Calls().Writes
	}
	after := int64(0)
	for _, a := range agents {
		after += a.engine.Calls().Writes
	}
	if before != after {
		t.Errorf("the agents go on writing: %d, then %d", before, after)
	}
	nets, err := w.api.NetworkList(w.ctx, client.NetworkListOptions{})
	w.ok(err)
	names := map[string]int{}
	for _, n := range nets.Items {
		if strings.HasPrefix(n.Name, w.n.Prefix) {
			names[n.Name]++
		}
	}
	if len(names) != 2 || names[w.owner.Title("back")] != 1 || names[w.owner.Title("front")] != 1 {
		t.Errorf("networks %v", names)
	}
}

// TestTwoHostsOnOneEngine: two hosts with prefixes of their own declare things of
// the same names at once. Neither sees the other: each converges, and what one
// changes or removes leaves the other's as it was, byte for byte.
func TestTwoHostsOnOneEngine(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t), newWorld(t)
	one.start()
	two.start()
	sets := func(version int) spec.Set {
		s := replaced(version, false)
		s.Images = append(s.Images, built("made", "1"))
		return s
	}
	one.declare(sets(1))
	two.declare(sets(2))
	one.settled()
	two.settled()
	one.right(sets(1))
	two.right(sets(2))
	id := two.one("web", true).ID
	inspected := func() string {
		got, err := two.api.ContainerInspect(two.ctx, id, client.ContainerInspectOptions{})
		two.ok(err)
		return without(two, got.Raw, nil)
	}
	before, wrote := inspected(), two.a.engine.Calls().Writes
	one.declare(sets(3))
	one.settled()
	one.declare(spec.Set{})
	one.settled()
	if len(one.own("")) != 0 {
		t.Errorf("left over: %s", one.listed())
	}
	two.settled()
	two.right(sets(2))
	if inspected() != before || two.a.engine.Calls().Writes != wrote {
		t.Errorf("the other host's container is not as it was, or its agent wrote:\n%s\n%s", before, inspected())
	}
}

// TestAgentsOfOneNameUnderTwoPrefixes: an agent of another prefix serves a host of
// the same name in a fleet of the same name. Neither sees, changes or removes what
// the other made, whatever it declares, leaves out or prunes.
func TestAgentsOfOneNameUnderTwoPrefixes(t *testing.T) {
	w := newWorld(t)
	set := spec.Set{
		Networks: []spec.Network{{Name: "net"}},
		Volumes:  []spec.Volume{{Name: "data"}},
		Images:   []spec.Image{plain("base"), built("made", "1")},
		Workspaces: []spec.Workspace{
			{Name: "web", Image: "base", Command: sleeper("here"), Networks: []spec.Attachment{{Network: "net"}},
				Mounts: []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"}}},
			{Name: "more", Image: "made", Command: sleeper("here")},
		},
	}
	as := func(prefix string) config {
		cfg := w.cfg
		cfg.Dir, cfg.Owner.Prefix = filepath.Join(t.TempDir(), "state"), w.n.Prefix+prefix
		return cfg
	}
	mine, other := as("one-"), as("two-")
	// here is what is on the engine under a prefix.
	here := func(cfg config) (out []string) {
		for _, c := range w.own("") {
			if x := w.inspect(c.ID); cfg.Owner.HasPrefix(x.Name) {
				out = append(out, x.Name+" "+x.ID+" "+x.State.StartedAt+" "+x.State.FinishedAt)
			}
		}
		n, err := w.api.NetworkInspect(w.ctx, cfg.Owner.Title("net"), client.NetworkInspectOptions{})
		w.ok(err)
		v, err := w.api.VolumeInspect(w.ctx, cfg.Owner.Title("data"), client.VolumeInspectOptions{})
		w.ok(err)
		slices.Sort(out)
		return append(out, n.Network.ID, v.Volume.CreatedAt)
	}
	w.a = w.open(mine)
	w.declare(set)
	w.converged()
	was := here(mine)
	same := func(when string) {
		t.Helper()
		if now := here(mine); !slices.Equal(now, was) {
			t.Fatalf("%s, what an agent of another prefix made did not go on:\nwas %q\nnow %q", when, was, now)
		}
	}

	w.a = w.open(other)
	if id, _, err := w.a.host.Find(w.ctx, "web"); !errors.Is(err, docker.ErrNoWorkspace) {
		t.Errorf("found %.12s %v where nothing is declared", id, err)
	}
	if list, err := w.a.host.Targets(w.ctx); len(list) > 0 || err != nil {
		t.Errorf("%+v is measured where nothing is declared: %v", list, err)
	}
	var out bytes.Buffer
	w.ok(w.a.host.Prune(w.ctx, false, &out))
	if out.Len() > 0 {
		t.Errorf("pruned where nothing was made:\n%s", &out)
	}
	same("after a prune")
	w.declare(set)
	w.converged()
	same("beside the same")
	w.declare(spec.Set{})
	w.converged()
	same("after a removal")
}

// TestRenamedWorkspaceIsFoundByItsNewName: the declaration gives a workspace another
// title. Its container is renamed and runs on, and everything that asks for the
// workspace by its name still finds it: commands, measures, snapshots and an agent
// that has just started.
func TestRenamedWorkspaceIsFoundByItsNewName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := spec.Set{Images: []spec.Image{plain("base")},
		Workspaces: []spec.Workspace{{Name: "web", Title: "before", Image: "base", Command: sleeper("here")}}}
	w.start()
	w.declare(set)
	w.converged()
	id, _, err := w.a.host.Find(w.ctx, "web")
	w.ok(err)
	set.Workspaces[0].Title = "after"
	set.Snapshots = []spec.Snapshot{{Name: "copy", Workspace: "web", Take: 1}}
	found := func(when string) {
		t.Helper()
		w.converged()
		if now, err := w.a.host.FindRunning(w.ctx, "web"); now != id || err != nil {
			t.Errorf("%s, %.12s %v is found, expected %.12s", when, now, err, id)
		}
		if list, err := w.a.host.Targets(w.ctx); err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("%s, %+v %v is measured", when, list, err)
		}
	}
	w.declare(set)
	found("renamed")
	if x := w.inspect(id); x.Name != "/"+w.owner.Title("after") {
		t.Errorf("it is named %s", x.Name)
	}
	w.halt(w.a)
	w.start()
	found("after a restart of the agent")
}
