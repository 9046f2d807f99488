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
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// storiesEnv is how many random stories are told; the default fits into a check
// of every change.
const storiesEnv = "STEADY_DOCKER_STORIES"

func stories(t testing.TB, usual int) int { return count(t, storiesEnv, usual) }

// count is the number in a variable, or the usual one.
func count(t testing.TB, env string, usual int) int {
	t.Helper()
	if os.Getenv(env) == "" {
		return usual
	}
	return testkit.Value(strconv.Atoi(os.Getenv(env)))(t)
}

// Names that random sets use.
var (
	someWorkspaces = []string{"api", "job", "web"}
	someNetworks   = []string{"back", "front"}
	someVolumes    = []string{"data", "logs"}
)

// randomSet makes up a set. What a workspace uses is in it.
func randomSet(t *rapid.T) spec.Set {
	s := spec.Set{Images: []spec.Image{plain("plain"), built("made", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version"))}}
	for _, n := range someNetworks {
		x := spec.Network{Name: n, Internal: rapid.IntRange(0, 5).Draw(t, n+" is internal") == 0}
		if rapid.IntRange(0, 3).Draw(t, n+" has labels") == 0 {
			x.Labels = map[string]string{"a": rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "label")}
		}
		s.Networks = append(s.Networks, x)
	}
	for _, v := range someVolumes {
		s.Volumes = append(s.Volumes, spec.Volume{Name: v})
	}
	names := dockertest.Names{Images: []string{"plain", "made"}, Networks: someNetworks, Volumes: someVolumes, Secrets: []string{"db"}}
	for _, n := range someWorkspaces {
		if rapid.IntRange(0, 4).Draw(t, n+" is left out") == 0 {
			continue
		}
		w := dockertest.Workspace(n, names).Draw(t, n)
		quick(&w)
		s.Workspaces = append(s.Workspaces, w)
	}
	return s
}

// quick makes a workspace that ends and is found good soon: the program does not
// hear signals.
func quick(w *spec.Workspace) {
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
		return dockertest.Pause(func() error {
			_, err := w.api.ContainerPause(w.ctx, n, client.ContainerPauseOptions{})
			return err
		})
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
	set   *spec.Set
	again bool // the agent ends and starts again
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
		} else if rapid.IntRange(0, 7).Draw(t, "again") == 0 {
			m.again = true
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
	for seed := range stories(t, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			last := w.tell(rapid.Custom(randomStory).Example(seed))
			w.settled()
			w.right(last)
		})
	}
}

// tell has the moves of a story happen, and gives what was declared last.
func (w *world) tell(story []move) (last spec.Set) {
	w.t.Helper()
	w.ok(os.WriteFile(w.cfg.Dir+"/secrets/db", []byte("s3cret-of-"+w.n.Prefix), 0o600))
	for _, m := range story {
		switch {
		case m.set != nil:
			last = *m.set
			w.declare(last)
			w.t.Log("declared", len(last.Workspaces), "workspaces")
		case m.again:
			w.halt(w.a)
			w.start()
			w.t.Log("the agent starts again")
		default:
			err := byHand[m.hand].do(w, w.owner.Title(m.on))
			w.t.Log(byHand[m.hand].what, m.on, err)
		}
		w.rest(m.pause)
	}
	return last
}

// TestRandomStoriesOnAnEngineThatFails: the same while the engine refuses, loses
// and cuts off every tenth change, before it was made or after. Once it is well and
// everything is tried again, all ends as declared and rests.
func TestRandomStoriesOnAnEngineThatFails(t *testing.T) {
	for seed := range stories(t, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.d.Proxy()
			w.cfg.Socket = p.Socket()
			ill := func(what uint64, fates ...dockertest.Outcome) func(dockertest.Request) dockertest.Outcome {
				return func(r dockertest.Request) dockertest.Outcome {
					// By number, so that a story can be told again nearly as it was.
					if h := (uint64(r.Seq)*2654435761 + uint64(seed)*40503 + what) >> 7; r.Write > 0 && h%20 == 0 {
						return fates[h/20%uint64(len(fates))]
					}
					return dockertest.Pass
				}
			}
			p.Before(ill(1, dockertest.Fail, dockertest.Drop))
			p.After(ill(2, dockertest.Fail, dockertest.Drop))
			w.start()
			story := rapid.Custom(randomStory).Example(1000 + seed)
			for i := range story {
				story[i].pause = min(story[i].pause, 12) // it may never rest
			}
			last := w.tell(story)
			p.Before(nil)
			p.After(nil)
			l := w.layer(last)
			for kind, names := range named(last) {
				for _, n := range names {
					l.Requests = append(l.Requests, deploy.LayerRequest{Kind: kind, Name: n, Verb: spec.VerbRetry, Nonce: "well"})
				}
			}
			w.ok(w.a.declare(w.ctx, l))
			w.settled()
			w.right(last)
		})
	}
}

// named are the names in a set by kind.
func named(s spec.Set) map[string][]string {
	out := map[string][]string{}
	for _, x := range s.Networks {
		out[spec.KindNetwork] = append(out[spec.KindNetwork], x.Name)
	}
	for _, x := range s.Volumes {
		out[spec.KindVolume] = append(out[spec.KindVolume], x.Name)
	}
	for _, x := range s.Images {
		out[spec.KindImage] = append(out[spec.KindImage], x.Name)
	}
	for _, x := range s.Workspaces {
		out[spec.KindWorkspace] = append(out[spec.KindWorkspace], x.Name)
	}
	return out
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
