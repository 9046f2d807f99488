package docker_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	mobyc "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/random"
)

// storiesEnv is how many random stories are told; the default fits into a check
// of every change.
const storiesEnv = "STEADY_DOCKER_STORIES"

func stories(t testing.TB, usual int) int {
	n, err := strconv.Atoi(os.Getenv(storiesEnv))
	if err != nil && os.Getenv(storiesEnv) != "" {
		t.Fatal(err)
	}
	if n == 0 {
		n = usual
	}
	return n
}

// Names that random sets use.
var (
	someWorkspaces = []string{"api", "job", "web"}
	someNetworks   = []string{"back", "front"}
	someVolumes    = []string{"data", "logs"}
)

// randomSet makes up a set. What a workspace uses is in it.
func randomSet(t *rapid.T) container.Set {
	s := container.Set{Images: []container.Image{plain("plain"), built("made", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version"))}}
	for _, n := range someNetworks {
		x := container.Network{Name: n, Internal: rapid.IntRange(0, 5).Draw(t, n+" is internal") == 0}
		if rapid.IntRange(0, 3).Draw(t, n+" has labels") == 0 {
			x.Labels = map[string]string{"a": rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "label")}
		}
		s.Networks = append(s.Networks, x)
	}
	for _, v := range someVolumes {
		s.Volumes = append(s.Volumes, container.Volume{Name: v})
	}
	names := random.Names{Images: []string{"plain", "made"}, Networks: someNetworks, Volumes: someVolumes, Secrets: []string{"db"}}
	for _, n := range someWorkspaces {
		if rapid.IntRange(0, 4).Draw(t, n+" is left out") == 0 {
			continue
		}
		w := random.Workspace(n, names).Draw(t, n)
		quick(&w)
		s.Workspaces = append(s.Workspaces, w)
	}
	return s
}

// quick makes a workspace that ends and is found good soon: the program does not
// hear signals.
func quick(w *container.Workspace) {
	none := clock.Duration(0)
	w.StopGrace = &none
	w.Update.Monitor = 50
	w.Update.HealthWait = clock.Minute
	if w.Health != nil && !w.Health.Disable {
		w.Health.Interval, w.Health.StartPeriod = 200, 0
	}
}

// byHand is what somebody does by hand. It may fail: there is nothing to do it to,
// or not now.
var byHand = []struct {
	what string
	on   []string
	do   func(w *world, name string) error
}{
	{"stop", someWorkspaces, func(w *world, n string) error {
		none := 0
		_, err := w.api.ContainerStop(w.ctx, n, client.ContainerStopOptions{Timeout: &none})
		return err
	}},
	{"start", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerStart(w.ctx, n, client.ContainerStartOptions{})
		return err
	}},
	{"kill", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerKill(w.ctx, n, client.ContainerKillOptions{Signal: "KILL"})
		return err
	}},
	{"pause", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerPause(w.ctx, n, client.ContainerPauseOptions{})
		return err
	}},
	{"remove", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerRemove(w.ctx, n, client.ContainerRemoveOptions{Force: true})
		return err
	}},
	{"rename", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerRename(w.ctx, n, client.ContainerRenameOptions{NewName: n + "-by-hand"})
		return err
	}},
	{"update cpu shares", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerUpdate(w.ctx, n, client.ContainerUpdateOptions{Resources: &mobyc.Resources{CPUShares: 77}})
		return err
	}},
	{"update memory", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerUpdate(w.ctx, n, client.ContainerUpdateOptions{Resources: &mobyc.Resources{Memory: 48 << 20, MemorySwap: 96 << 20}})
		return err
	}},
	{"update restart policy", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.ContainerUpdate(w.ctx, n, client.ContainerUpdateOptions{RestartPolicy: &mobyc.RestartPolicy{Name: "on-failure", MaximumRetryCount: 9}})
		return err
	}},
	{"disconnect", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.NetworkDisconnect(w.ctx, w.owner.Title("front"), client.NetworkDisconnectOptions{Container: n, Force: true})
		return err
	}},
	{"connect", someWorkspaces, func(w *world, n string) error {
		_, err := w.api.NetworkConnect(w.ctx, w.owner.Title("back"), client.NetworkConnectOptions{Container: n})
		return err
	}},
	{"connect anew without aliases", someWorkspaces, func(w *world, n string) error {
		net := w.owner.Title("back")
		if _, err := w.api.NetworkDisconnect(w.ctx, net, client.NetworkDisconnectOptions{Container: n, Force: true}); err != nil {
			return err
		}
		_, err := w.api.NetworkConnect(w.ctx, net, client.NetworkConnectOptions{Container: n, EndpointConfig: &network.EndpointSettings{}})
		return err
	}},
	{"remove network", someNetworks, removeNetwork},
	{"remove volume", someVolumes, func(w *world, n string) error {
		_, err := w.api.VolumeRemove(w.ctx, n, client.VolumeRemoveOptions{})
		return err
	}},
	{"tag another", []string{"made"}, func(w *world, n string) error {
		refs := w.refs(n)
		if len(refs) == 0 {
			return fmt.Errorf("nothing was made yet")
		}
		_, err := w.api.ImageTag(w.ctx, client.ImageTagOptions{Source: w.d.Busybox(w.t), Target: refs[0]})
		return err
	}},
	{"remove tag", []string{"made"}, func(w *world, n string) error {
		refs := w.refs(n)
		if len(refs) == 0 {
			return fmt.Errorf("nothing was made yet")
		}
		_, err := w.api.ImageRemove(w.ctx, refs[0], client.ImageRemoveOptions{Force: true})
		return err
	}},
}

// removeNetwork takes a network from under its containers.
func removeNetwork(w *world, n string) error {
	x, err := w.api.NetworkInspect(w.ctx, n, client.NetworkInspectOptions{})
	if err != nil {
		return err
	}
	for id := range x.Network.Containers {
		if _, err := w.api.NetworkDisconnect(w.ctx, x.Network.ID, client.NetworkDisconnectOptions{Container: id, Force: true}); err != nil {
			return err
		}
	}
	_, err = w.api.NetworkRemove(w.ctx, x.Network.ID, client.NetworkRemoveOptions{})
	return err
}

// refs are the references of images whose name has that title.
func (w *world) refs(title string) []string {
	list, err := w.api.ImageList(w.ctx, client.ImageListOptions{})
	w.ok(err)
	var out []string
	for _, i := range list.Items {
		for _, r := range i.RepoTags {
			if strings.HasPrefix(r, title+":") {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return out
}

// move is one step of a story: a declaration, or something by hand, and then
// whether all comes to rest before the next.
type move struct {
	set   *container.Set
	hand  int
	on    string
	pause int // commits of the agent that are waited for
}

func randomStory(t *rapid.T) []move {
	var out []move
	for i := range rapid.IntRange(5, 12).Draw(t, "moves") {
		var m move
		if i == 0 || rapid.IntRange(0, 3).Draw(t, "declare") == 0 {
			s := randomSet(t)
			m.set = &s
		} else {
			m.hand = rapid.IntRange(0, len(byHand)-1).Draw(t, "by hand")
			m.on = rapid.SampledFrom(byHand[m.hand].on).Draw(t, "on")
		}
		m.pause = rapid.SampledFrom([]int{0, 2, 12, 1000, 1000, 1000}).Draw(t, "pause")
		out = append(out, m)
	}
	return out
}

// TestRandomSpecsAndOutsideChangesConverge: random sets of all kinds and random
// changes by hand, at any point of what is under way, end with exactly what is
// declared, and whole cycles after that write nothing (S36). A failing story is
// named by its seed.
func TestRandomSpecsAndOutsideChangesConverge(t *testing.T) {
	for seed := range stories(t, 16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			w.ok(os.WriteFile(w.cfg.Dir+"/secrets/db", []byte("s3cret-of-"+w.n.Prefix), 0o600))
			var last container.Set
			for _, m := range rapid.Custom(randomStory).Example(seed) {
				if m.set != nil {
					last = *m.set
					w.declare(last)
					t.Log("declared", len(last.Workspaces), "workspaces")
				} else {
					err := byHand[m.hand].do(w, w.owner.Title(m.on))
					t.Log(byHand[m.hand].what, m.on, err)
				}
				w.rest(m.pause)
			}
			w.settled()
			w.right(last)
		})
	}
}

// rest waits for so many commits, or until all has come to rest.
func (w *world) rest(commits int) {
	w.t.Helper()
	deadline := time.After(patience)
	for n := w.a.count(); w.a.count() < n+commits; {
		next := w.a.next()
		words, err := w.a.unsettled(w.ctx)
		w.ok(err)
		if words == "" {
			return
		}
		select {
		case <-next:
		case <-deadline:
			w.t.Fatalf("nothing goes on: %s\n%s", words, w.a.phases(w.ctx))
		}
	}
}
