package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// restarted are the fields of a container that an engine changes by itself when
// it was killed and starts again: how it runs, where it is on networks, and how
// it spells empty lists.
var restarted = []string{"State", "NetworkSettings", "HostConfig.Dns", "HostConfig.DnsOptions", "HostConfig.DnsSearch"}

// trouble is a way for an engine to fail.
type trouble struct {
	name     string
	volatile []string // fields of foreign containers that it changes
	begin    func(d *dockertest.Daemon)
	end      func(d *dockertest.Daemon)
}

var troubles = []trouble{
	{"frozen", nil, (*dockertest.Daemon).Stop, (*dockertest.Daemon).Continue},
	{"killed", restarted, (*dockertest.Daemon).Kill, (*dockertest.Daemon).Start},
}

// broken is a world behind a proxy, with calls that end soon.
func broken(t *testing.T) (*world, *dockertest.Proxy) {
	w := worldOn(t, dockertest.Private(t))
	p := w.d.Proxy()
	w.cfg.Socket, w.cfg.Timeout = p.Socket(), time.Second
	return w, p
}

// hold keeps the n-th change that is asked for from now on from the engine until it
// is let go. Reached is closed when it is there.
func hold(p *dockertest.Proxy, n int) (reached <-chan struct{}, letGo func()) {
	there, over := make(chan struct{}), make(chan struct{})
	p.Forget()
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if r.Write == n {
			close(there)
			<-over
		}
		return dockertest.Pass
	})
	return there, func() { close(over); p.Before(nil) }
}

// at breaks the engine when the agent asks for its n-th change from now on: the
// engine gets the request, and nobody an answer.
func (w *world) at(p *dockertest.Proxy, n int, x trouble, change func()) (fired bool) {
	w.t.Helper()
	reached, letGo := hold(p, n)
	change()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.converged()
	}()
	select {
	case <-reached:
	case <-done:
		letGo()
		return false
	}
	x.begin(w.d)
	letGo()
	w.unknown()
	for name, asked := range creates(p) {
		if asked > 1 {
			w.t.Errorf("call %d: asked %d times for container %s of an engine that does not answer", n, asked, name)
		}
	}
	x.end(w.d)
	<-done
	return true
}

// unknown waits until the agent says of something that nobody knows how it is.
func (w *world) unknown() {
	w.t.Helper()
	w.until("nobody says that the engine does not answer", func() (bool, string) {
		all, err := w.a.rows.List(w.ctx, reconcile.Filter{})
		w.ok(err)
		for i := range all {
			switch all[i].Reason.Code {
			case dockerapi.CodeUnavailable, dockerapi.CodeUnknown:
				return true, ""
			}
			if all[i].Phase == engine.Failed {
				w.t.Errorf("%s failed for the engine's fault: %s", all[i].Ref, all[i].Reason)
			}
		}
		return false, ""
	})
}

// creates counts the containers that the agent asked for, by name.
func creates(p *dockertest.Proxy) map[string]int {
	out := map[string]int{}
	for _, r := range p.Writes() {
		if r.Path == "/containers/create" {
			out[r.Query]++
		}
	}
	return out
}

// TestEngineStoppedKilledRestartedInTheMiddle: an engine that is frozen for
// longer than calls may take, or killed and started again, at every change that a
// deployment and a replacement ask for: the agent says that it does not know, asks
// for no second container meanwhile, has none made twice, and ends with one that
// runs with its data. Containers of others stay as they are. Every run has one of
// the two at each change of a replacement and at some of a deployment, the nightly
// run both.
func TestEngineStoppedKilledRestartedInTheMiddle(t *testing.T) {
	for i, x := range troubles {
		t.Run(x.name+" while it replaces", func(t *testing.T) {
			t.Parallel()
			w, p := broken(t)
			same := w.foreign("web", x.volatile...)
			w.start()
			w.declare(replaced(0, false))
			w.converged()
			w.run("web", "sh", "-c", "echo kept >/data/mark; echo kept >/scratch/mark")
			first, step := 1+i, len(troubles)
			if testkit.Nightly() {
				first, step = 1, 1
			}
			for n := first; ; n += step {
				made := func() map[string]int { return nil } // one that is killed tells no more
				if x.name == "frozen" {
					made = w.births()
				}
				if !w.at(p, n, x, func() { w.declare(replaced(n, false)) }) {
					if n < 7 {
						t.Errorf("a replacement took only %d calls", n-1)
					}
					break
				}
				w.converged()
				w.replacedRight(n, false)
				for name, times := range made() {
					if times > 1 {
						t.Errorf("call %d: the engine made %d containers named %s", n, times, name)
					}
				}
				same()
				if t.Failed() {
					t.Fatalf("call %d\n%s", n, w.listed())
				}
			}
			w.settled()
		})
		t.Run(x.name+" while it deploys", func(t *testing.T) {
			t.Parallel()
			w, p := broken(t)
			same := w.foreign("web", x.volatile...)
			w.start()
			calls := []int{2, 5, 8, 11}
			if !testkit.Nightly() {
				calls = [][]int{{2, 8}, {5, 11}}[i]
			}
			for _, n := range calls {
				s := w.several(n)
				if !w.at(p, n, x, func() { w.declare(s) }) {
					t.Fatalf("no %d changes", n)
				}
				w.converged()
				w.right(s)
				if x.name == "frozen" {
					w.processes(n, len(s.Workspaces))
				}
				same()
				w.declare(spec.Set{})
				w.converged()
				if t.Failed() {
					t.Fatalf("call %d\n%s", n, w.listed())
				}
			}
		})
	}
}

// several is a set of independent workspaces on networks of their own.
func (w *world) several(version int) spec.Set {
	s := spec.Set{Images: []spec.Image{plain("plain")}}
	for i := range 4 {
		name := fmt.Sprint("w", i)
		s.Networks = append(s.Networks, spec.Network{Name: name})
		s.Workspaces = append(s.Workspaces, spec.Workspace{Name: name, Image: "plain", Command: sleeper(w.marker(version)),
			Networks: []spec.Attachment{{Network: name}}, Update: spec.Update{Monitor: 100}})
	}
	return s
}

// marker is a word in the command of what several declares, and in no other world's.
func (w *world) marker(version int) string { return w.n.Name(fmt.Sprint("version-", version)) }

// processes waits until so many processes run what several declares, known to the
// engine or not: it ends what it does not know after a while.
func (w *world) processes(version, want int) {
	w.t.Helper()
	w.until("programs run more than once", func() (bool, string) { n := w.count(version); return n == want, fmt.Sprint(n) })
}

func (w *world) count(version int) int { return w.commands("sh\x00", w.marker(version)+";") }

// commands counts the processes whose command begins with the first word and has
// the others.
func (w *world) commands(begin string, words ...string) (n int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		ok := err == nil && strings.HasPrefix(string(text), begin)
		for _, word := range words {
			ok = ok && strings.Contains(string(text), word)
		}
		if ok {
			n++
		}
	}
	return n
}

// TestHungEngineIsUnknownAndNeverAskedTwice: while an engine hangs, everything
// that is looked at says so, no container is asked for again, and nothing counts
// as an attempt. Each container was made once, as the engine tells.
func TestHungEngineIsUnknownAndNeverAskedTwice(t *testing.T) {
	t.Parallel()
	w, p := broken(t)
	w.start()
	set := w.several(1)
	first := set
	first.Workspaces = nil // what waits for a network is not there to be looked at
	w.declare(first)
	w.converged()
	births := w.births()
	var once sync.Once
	frozen := make(chan struct{})
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if r.Path == "/containers/create" {
			once.Do(func() { w.d.Stop(); close(frozen) })
		}
		return dockertest.Pass
	})
	w.declare(set)
	<-frozen
	said := func() (bool, string) {
		all, err := w.a.rows.List(w.ctx, reconcile.Filter{Kind: spec.KindWorkspace})
		w.ok(err)
		for i := range all {
			if c := all[i].Reason.Code; c != dockerapi.CodeUnavailable && c != dockerapi.CodeUnknown {
				return false, all[i].Ref.String() + " " + all[i].Reason.String()
			}
			if all[i].Attempts > 1 {
				w.t.Errorf("%s: %d attempts", all[i].Ref, all[i].Attempts)
			}
		}
		return len(all) == 4, "not all are there"
	}
	w.until("not everything says that the engine hangs", said)
	for range 3 {
		all, err := w.a.rows.List(w.ctx, reconcile.Filter{Kind: spec.KindWorkspace})
		w.ok(err)
		for i := range all {
			w.a.loop.Enqueue(all[i].Ref, engine.Cause{Trigger: engine.TriggerOperator})
		}
		w.until("not everything says that the engine hangs", said)
	}
	for name, n := range creates(p) {
		if n != 1 {
			t.Errorf("asked %d times for %s of an engine that hangs", n, name)
		}
	}
	w.d.Continue()
	w.converged()
	made := births()
	for _, s := range set.Workspaces {
		if n := made[w.owner.Title(s.Name)]; n != 1 {
			t.Errorf("the engine made %d containers named %s", n, s.Name)
		}
	}
	w.settled()
	w.right(set)
}

// births hears from the engine which containers of this host's workspaces it makes
// from now on, and gives a count of them by name. It listens all the time: an engine
// remembers its last 256 events only, whoever caused them.
func (w *world) births() (made func() map[string]int) {
	w.t.Helper()
	now := time.Now()
	stream := w.api.Events(w.ctx, client.EventsListOptions{
		Since: fmt.Sprintf("%d.%09d", now.Unix(), now.Nanosecond()), Filters: client.Filters{}.Add("type", "container").Add("event", "create"),
	})
	return func() map[string]int {
		w.t.Helper()
		last, out := w.n.Name("made-last"), map[string]int{}
		_, err := w.api.ContainerCreate(w.ctx, client.ContainerCreateOptions{Name: last, Config: configOf(w, nil)})
		w.ok(err)
		_, err = w.api.ContainerRemove(w.ctx, last, client.ContainerRemoveOptions{})
		w.ok(err)
		for {
			select {
			case m := <-stream.Messages:
				of := m.Actor.Attributes
				if of["name"] == last {
					return out
				}
				if of[convert.LabelOwner] == w.owner.ID() && of[convert.LabelKind] == spec.KindWorkspace {
					out[of["name"]]++
				}
			case err := <-stream.Err:
				w.t.Fatal("the engine tells no more: ", err)
			}
		}
	}
}

// TestEngineKilledWhileItStartsAContainer: an engine that dies after the program
// runs and before it has written that down knows nothing of it later, and can
// never start that container. The workspace still ends with one that runs. What
// becomes of the program is the engine's: at some instants it never ends it, and
// nobody can ask it to.
func TestEngineKilledWhileItStartsAContainer(t *testing.T) {
	t.Parallel()
	w, p := broken(t)
	w.start()
	w.declare(spec.Set{Images: []spec.Image{plain("plain")}})
	w.converged()
	var once sync.Once
	killed := make(chan struct{})
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if strings.HasSuffix(r.Path, "/start") {
			go once.Do(func() {
				defer close(killed)
				for w.count(1) == 0 && w.ctx.Err() == nil {
				}
				w.d.Kill()
			})
		}
		return dockertest.Pass
	})
	s := w.several(1)
	s.Workspaces = s.Workspaces[:1]
	w.declare(s)
	<-killed
	p.Before(nil)
	w.d.Start()
	w.converged()
	w.settled()
	w.right(s)
	if n := w.count(1); n != 1 {
		t.Logf("the engine let %d programs go on that it does not know", n-1)
	}
}
