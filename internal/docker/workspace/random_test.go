package workspace_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
)

// story is what happens to one workspace: declarations, and what people do
// between and after them.
type story struct{ moves []move }

type move struct {
	value  spec.Workspace // if declare
	byHand string         // else
	turns  int            // turns that are taken before the next move
}

func stories() *rapid.Generator[story] {
	return rapid.Custom(func(t *rapid.T) story {
		var s story
		for range rapid.IntRange(2, 5).Draw(t, "moves") {
			m := move{turns: rapid.IntRange(0, 4).Draw(t, "turns")}
			if len(s.moves) == 0 || rapid.Bool().Draw(t, "declare") {
				m.value = specs(t)
			} else {
				m.byHand = rapid.SampledFrom([]string{"stop", "kill", "pause", "rename", "remove", "disconnect", "update", "limit", "restart"}).Draw(t, "by hand")
			}
			s.moves = append(s.moves, m)
		}
		return s
	})
}

// specs are of every class of field, with values that engines are known to show
// otherwise than they were asked for.
func specs(t *rapid.T) spec.Workspace {
	pick := func(name string) bool { return rapid.Bool().Draw(t, name) }
	w := spec.Workspace{Name: "web", Image: "app", Command: sleeper(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "command")),
		Networks: []spec.Attachment{{Network: "net"}}, Mounts: []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}}
	if pick("env") {
		w.Env = []spec.Env{{Name: "A", Value: rapid.SampledFrom([]string{"", "1", "a b"}).Draw(t, "value")}, {Name: "PATH", Value: "/bin"}}
	}
	if pick("limits") {
		w.Limits.Memory = rapid.SampledFrom([]int64{32 << 20, 64 << 20}).Draw(t, "memory")
		w.Limits.NanoCPUs = 500_000_000
	}
	if pick("aliases") {
		w.Networks[0].Aliases = []string{"site", "www"}
	}
	if pick("restart") {
		w.Restart.Policy = rapid.SampledFrom([]string{"always", "unless-stopped", "on-failure"}).Draw(t, "policy")
	}
	if pick("ports") {
		w.Ports = []spec.Port{{HostIP: "127.0.0.1", Port: 80, Protocol: "tcp"}}
	}
	if pick("more") {
		grace := 3 * clock.Second
		w.StopGrace, w.ShmSize, w.Hostname, w.WorkingDir = &grace, 1<<20, "h", "/tmp"
		w.Labels = map[string]string{"a": "", "b": "c"}
		w.Security.CapDrop = []string{"NET_RAW"}
		w.Ulimits = []spec.Ulimit{{Name: "nofile", Soft: 100, Hard: 200}}
		w.ExtraHosts = []string{"db:10.0.0.1"}
		w.Mounts = append(w.Mounts, spec.Mount{Type: spec.MountTmpfs, Target: "/t", Size: 1 << 20})
	}
	return w
}

func (w *world) meddle(what string) {
	ctx, name := w.t.Context(), w.n.Name("web")
	var err error
	switch what {
	case "stop":
		_, err = w.api.ContainerStop(ctx, name, client.ContainerStopOptions{})
	case "kill":
		_, err = w.api.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: "KILL"})
	case "pause":
		_, err = w.api.ContainerPause(ctx, name, client.ContainerPauseOptions{})
	case "rename":
		_, err = w.api.ContainerRename(ctx, name, client.ContainerRenameOptions{NewName: w.n.Name("by-hand")})
	case "remove":
		_, err = w.api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true})
	case "disconnect":
		_, err = w.api.NetworkDisconnect(ctx, w.n.Name("net"), client.NetworkDisconnectOptions{Container: name, Force: true})
	case "update":
		_, err = w.api.ContainerUpdate(ctx, name, client.ContainerUpdateOptions{Resources: &container.Resources{CPUShares: 77}})
	case "limit":
		_, err = w.api.ContainerUpdate(ctx, name, client.ContainerUpdateOptions{Resources: &container.Resources{Memory: 48 << 20, MemorySwap: 96 << 20}})
	case "restart":
		_, err = w.api.ContainerRestart(ctx, name, client.ContainerRestartOptions{})
	}
	if err != nil {
		w.t.Logf("%s: %v", what, err) // there is nothing to do it to at this moment
	}
}

// TestS36OnTheEngine: random declarations and changes by hand, at any point of
// what is under way, end with one container as declared, and one more look
// writes nothing. The seed of a failing story is its name.
func TestS36OnTheEngine(t *testing.T) {
	seeds := 4
	if testkit.Nightly() {
		seeds = 40
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			for _, m := range stories().Example(seed).moves {
				if m.byHand == "" {
					w.want(func(d *workspace.Desired) { d.Spec.Workspace = m.value })
				} else {
					w.meddle(m.byHand)
				}
				for range m.turns {
					d, err := w.turn()
					if err != nil {
						t.Logf("%s: %v", d.Reason(), err)
					}
					if d.Name() == "wait" {
						w.pass(clock.Second)
					}
				}
			}
			w.converge()
			c := w.one()
			if got := w.r.Desired.Spec.Workspace.Command; !slices.Equal(c.Config.Cmd, got) {
				t.Errorf("command %v, want %v", c.Config.Cmd, got)
			}
			w.quiet()
			w.anew() // an agent that starts anew finds nothing to do either
			w.quiet()
			w.o.Ledger = &book{m: map[string][]byte{}} // nor does one that lost its state
			w.anew()
			w.quiet()
		})
	}
}
