package docker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// running are the names of this host's workspaces that run.
func (w *world) running() (out []string) {
	w.t.Helper()
	for _, c := range w.own("") {
		if c.State == "running" {
			out = append(out, c.Labels["io.steady.name"])
		}
	}
	return out
}

// row is one resource as the agent has it; zero if it has none yet.
func (w *world) row(kind, name string) engine.Row {
	w.t.Helper()
	r, err := w.a.rows.Get(w.ctx, engine.Ref{Kind: kind, ID: name})
	if !errors.Is(err, reconcile.ErrNotFound) {
		w.ok(err)
	}
	return r
}

// TestDisabledHost: a host that is disabled stops its workspaces and keeps them,
// shows them as stopped, runs nothing that somebody starts or that is declared
// anew, and goes on with the same containers when it is enabled.
func TestDisabledHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.declare(w.several(1))
	w.settled()
	before := w.one("w1", true).ID
	off, on := false, true
	w.a.host.Tune(fleet.Settings{Enabled: &off})
	w.until("something runs on a disabled host", func() (bool, string) {
		return len(w.running()) == 0, fmt.Sprint(w.running())
	})
	w.settled()
	stage := spec.Stage{Kind: spec.KindWorkspace, Phase: w.row("workspace", "w1").Phase, Code: w.row("workspace", "w1").Reason.Code}
	if got := spec.Known.StateOf(stage); got != spec.StoppedState {
		t.Errorf("state %s", got)
	}
	n := w.a.count()
	w.ok(byHandOn(w, "start", "w1"))
	w.until("what somebody starts runs on", func() (bool, string) {
		return len(w.running()) == 0 && w.a.count() > n, fmt.Sprint(w.running())
	})
	s := w.several(1)
	s.Workspaces[2].Env = []spec.Env{{Name: "A", Value: "2"}}
	s.Workspaces = append(s.Workspaces, spec.Workspace{Name: "more", Image: "plain", Command: sleeper("more"), Update: spec.Update{Monitor: 100}})
	w.declare(s)
	w.until("a new declaration does not wait", func() (bool, string) {
		for _, name := range []string{"w2", "more"} {
			if r := w.row("workspace", name); r.Phase != engine.Waiting || !strings.Contains(r.Reason.Message, "disabled") {
				return false, fmt.Sprint(r.Ref, r.Phase, r.Reason)
			}
		}
		return true, ""
	})
	if got := w.running(); len(got) != 0 || len(w.own("more")) != 0 {
		t.Errorf("%v run", got)
	}
	w.a.host.Tune(fleet.Settings{Enabled: &on})
	w.settled()
	w.right(s)
	if got := w.one("w1", true).ID; got != before {
		t.Error("another container than before")
	}
}

func byHandOn(w *world, what, name string) error {
	for _, c := range byHand {
		if c.what == what {
			return c.do(w, w.owner.Title(name))
		}
	}
	return fmt.Errorf("nobody does %s by hand", what)
}

// TestMassRemoval: everything goes when nothing is declared any more, in order of
// dependency and without waiting for what is stuck; volumes stay with their data.
func TestMassRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	s := spec.Set{Images: []spec.Image{plain("plain")}, Volumes: []spec.Volume{{Name: "data"}}}
	for i := range 8 {
		name := fmt.Sprint("w", i)
		s.Networks = append(s.Networks, spec.Network{Name: name})
		s.Workspaces = append(s.Workspaces, spec.Workspace{Name: name, Image: "plain", Command: sleeper(name), Update: spec.Update{Monitor: 50},
			Networks: []spec.Attachment{{Network: name}}, Mounts: []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data", ReadOnly: i > 0}}})
	}
	w.declare(s)
	w.converged()
	w.run("w0", "sh", "-c", "echo kept >/data/f")
	w.declare(spec.Set{})
	w.converged()
	if left := w.own(""); len(left) != 0 {
		t.Errorf("left over:\n%s", w.listed())
	}
	s.Workspaces, s.Networks = s.Workspaces[:1], s.Networks[:1]
	w.declare(s)
	w.converged()
	if got := w.run("w0", "cat", "/data/f"); got != "kept\n" {
		t.Errorf("the volume has %q", got)
	}
}

// TestPoolsBoundWhatRunsAtOnce: no more starts and builds reach the engine at once
// than the host is tuned to, and all of them come to their turn.
func TestPoolsBoundWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.d.Proxy()
	w.cfg.Socket = p.Socket()
	w.start()
	w.a.host.Tune(fleet.Settings{Pools: fleet.Pools{Builds: 2, Starts: 2}})
	meters := map[string]*meter{"/start": {}, "/build": {}}
	of := func(r dockertest.Request) *meter {
		for end, m := range meters {
			if r.Method == "POST" && strings.HasSuffix(r.Path, end) {
				return m
			}
		}
		return nil
	}
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if m := of(r); m != nil {
			m.enter()
		}
		return dockertest.Pass
	})
	p.After(func(r dockertest.Request) dockertest.Outcome {
		if m := of(r); m != nil {
			m.leave()
		}
		return dockertest.Pass
	})
	s := spec.Set{}
	for i := range 6 {
		name := fmt.Sprint("w", i)
		s.Images = append(s.Images, built(name, name))
		s.Workspaces = append(s.Workspaces, spec.Workspace{Name: name, Image: name, Command: sleeper(name), Update: spec.Update{Monitor: 50}})
	}
	w.declare(s)
	w.settled()
	w.right(s)
	for what, m := range meters {
		if most, all := m.read(); most > 2 || all != 6 {
			t.Errorf("%s: %d at once, %d altogether", what, most, all)
		}
	}
}

// TestOneFailureIsItsOwn: what cannot be built, pulled, started or named fails
// and says why, and everything else is deployed; a longer build of one delays
// neither the deployment nor the removal of others; it is cancelled by a verb.
func TestOneFailureIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.a.host.Tune(fleet.Settings{Pools: fleet.Pools{Builds: 2}})
	w.runForeign(w.owner.Title("taken"), nil)
	s := w.several(1)
	s.Images = append(s.Images,
		spec.Image{Name: "broken", Build: &spec.Build{Inline: "FROM " + dockertest.BusyboxRef + "\nRUN false\n"}},
		spec.Image{Name: "slow", Build: &spec.Build{Inline: "FROM " + dockertest.BusyboxRef + "\nRUN sleep 1000\n"}},
		spec.Image{Name: "absent", Ref: "127.0.0.1:1/absent:1", Pull: &spec.Pull{}})
	for _, x := range []spec.Workspace{
		{Name: "of-broken", Image: "broken"}, {Name: "of-slow", Image: "slow"}, {Name: "of-absent", Image: "absent"},
		{Name: "no-program", Image: "plain", Command: []string{"/no/such/program"}}, {Name: "taken", Image: "plain", Command: sleeper("x")},
	} {
		x.Update.Monitor = 50
		s.Workspaces = append(s.Workspaces, x)
	}
	w.declare(s)
	good := func(names ...string) func() (bool, string) {
		return func() (bool, string) {
			for _, name := range names {
				if r := w.row("workspace", name); r.Phase != engine.Converged {
					return false, fmt.Sprint(r.Ref, r.Phase, r.Reason)
				}
			}
			return true, ""
		}
	}
	w.until("a failure of others delays", good("w0", "w1", "w2", "w3"))
	for _, x := range []struct{ kind, name, words string }{
		{"image", "broken", "false"}, {"image", "absent", "127.0.0.1:1"}, {"workspace", "no-program", "/no/such/program"},
		{"workspace", "taken", "rename or remove it"},
	} {
		w.until(x.name+" does not say why it fails", func() (bool, string) {
			r := w.row(x.kind, x.name)
			return (r.Phase == engine.Failed || r.Phase == engine.Retrying) && strings.Contains(r.Reason.Message, x.words), fmt.Sprint(r.Phase, r.Reason)
		})
	}
	w.until("the slow build does not run", func() (bool, string) {
		r := w.row("image", "slow")
		return r.Phase == engine.Acting, fmt.Sprint(r.Phase, r.Reason)
	})
	s.Workspaces = slices.DeleteFunc(s.Workspaces, func(x spec.Workspace) bool { return x.Name == "w0" })
	w.declare(s)
	w.until("a build delays a removal", func() (bool, string) { return len(w.own("w0")) == 0, w.listed() })
	l := w.layer(s)
	l.Requests = []deploy.LayerRequest{{Kind: "image", Name: "slow", Verb: spec.VerbCancel, Nonce: "1"}}
	w.ok(w.a.declare(w.ctx, l))
	w.until("the build goes on", func() (bool, string) {
		r := w.row("image", "slow")
		return spec.Known.StateOf(spec.Stage{Kind: "image", Phase: r.Phase, Code: r.Reason.Code}) == spec.ImageCancelled, fmt.Sprint(r.Phase, r.Reason)
	})
	w.until("what it ran goes on", func() (bool, string) { got := w.commands("sleep\x001000\x00"); return got == 0, fmt.Sprint(got) })
	w.until("a cancel disturbs others", good("w1", "w2", "w3"))
}

// meter counts what is inside at once.
type meter struct {
	mu                sync.Mutex
	inside, most, all int
}

func (m *meter) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inside++
	m.all++
	m.most = max(m.most, m.inside)
}

func (m *meter) leave() { m.mu.Lock(); defer m.mu.Unlock(); m.inside-- }

func (m *meter) read() (most, all int) { m.mu.Lock(); defer m.mu.Unlock(); return m.most, m.all }

// TestANetworkInUseIsReplaced: a network that many workspaces are on is made anew
// for a changed declaration. They come back to it as they were and are not
// replaced; none goes back to the old one while it is to go.
func TestANetworkInUseIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	s := w.several(1)
	s.Networks = []spec.Network{{Name: "back"}}
	for i := range s.Workspaces {
		s.Workspaces[i].Networks = []spec.Attachment{{Network: "back", Aliases: []string{"site"}}}
	}
	w.declare(s)
	w.settled()
	before := map[string]string{}
	for _, x := range s.Workspaces {
		before[x.Name] = w.one(x.Name, true).ID
	}
	for _, label := range []string{"1", "2"} {
		s.Networks[0].Labels = map[string]string{"a": label}
		w.declare(s)
		w.settled()
		w.right(s)
	}
	for name, id := range before {
		if w.one(name, true).ID != id {
			t.Errorf("%s was replaced", name)
		}
	}
}
