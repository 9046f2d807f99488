package workspace_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// behind puts a proxy between the reconciler and the engine.
func (w *world) behind() *dockertest.Proxy {
	p := w.d.Proxy()
	e, err := dockerapi.Open(dockerapi.Options{Socket: p.Socket(), Timeout: patience})
	w.ok(err)
	w.t.Cleanup(func() { w.ok(e.Close()) })
	w.o.Engine = e
	w.anew()
	return p
}

// TestCutShort: whichever write of a replacement is cut off, before the engine
// has it or after, an agent that starts anew ends with one container that runs,
// as declared, with its data.
func TestCutShort(t *testing.T) {
	for _, startFirst := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			if after == startFirst && !testkit.Nightly() {
				continue // each order and each side once; the agent's own test kills it at every call
			}
			t.Run(fmt.Sprintf("start first %v, after %v", startFirst, after), func(t *testing.T) {
				w := newWorld(t)
				w.want(func(d *workspace.Desired) {
					d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}
					if startFirst {
						d.Spec.Workspace.Update.Order = spec.StartFirst
					}
				})
				w.converge("create")
				w.run("sh", "-c", "echo kept >/data/f")
				data := w.one().Mounts[0].Name
				p := w.behind()
				for n := 1; ; n++ {
					base := len(p.Writes())
					var cut atomic.Bool
					fate := func(r dockertest.Request) dockertest.Outcome {
						if r.Write == base+n {
							cut.Store(true)
							return dockertest.Drop
						}
						return dockertest.Pass
					}
					if after {
						p.After(fate)
					} else {
						p.Before(fate)
					}
					w.anew()
					w.want(func(d *workspace.Desired) { d.Spec.Workspace.Env[0].Value = fmt.Sprint("n", n) })
					got := w.settle()
					if !cut.Load() {
						if got.name != "converged" || n < 5 {
							t.Fatalf("after %d cuts: %+v", n-1, got)
						}
						break
					}
					p.After(nil)
					p.Before(nil)
					w.anew()
					w.converge()
					if c := w.one(); !slices.Contains(c.Config.Env, fmt.Sprint("A=n", n)) || c.Mounts[0].Name != data {
						t.Fatalf("cut %d: %v %v", n, c.Config.Env, c.Mounts)
					}
				}
				if got := w.run("cat", "/data/f"); got != "kept\n" {
					t.Fatalf("data %q", got)
				}
			})
		}
	}
}

// TestUnknownOutcome: a create whose answer is lost is waited for, not counted,
// and never made twice.
func TestUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	p := w.behind()
	p.After(func(r dockertest.Request) dockertest.Outcome {
		if r.Path == "/containers/create" {
			return dockertest.Drop
		}
		return dockertest.Pass
	})
	got := w.settle()
	blocked := reconcile.Blocked(engine.NewReason(dockerapi.CodeUnknown, "")).Error()
	if got.err == nil || len(got.err.Error()) < 8 || got.err.Error()[:8] != blocked[:8] {
		t.Fatalf("%+v, want blocked", got)
	}
	p.After(nil)
	w.converge()
	creates := 0
	for _, r := range p.Writes() {
		if r.Path == "/containers/create" {
			creates++
		}
	}
	if w.one(); creates != 1 {
		t.Errorf("%d creates", creates)
	}
}

// TestObserveAll: with nothing new one call looks at all; an event or a listing
// that disagrees makes it look closer, and a minute tells of what no event tells.
func TestObserveAll(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	seen := func() (workspace.Observed, int64) {
		t.Helper()
		before := w.e.Calls().Reads
		all, err := w.m.ObserveAll(t.Context())
		w.ok(err)
		return all[w.r.Ref], w.e.Calls().Reads - before
	}
	w.hear(func(dockerapi.Event) {}) // of what made it, nothing comes between the looks
	seen()
	o, calls := seen()
	if calls != 1 || len(o.Seen.Containers) != 1 {
		t.Fatalf("%d calls for %+v", calls, o)
	}
	if alone := w.observe(); len(alone.Seen.Containers) != 1 || alone.Seen.Containers[0].ID != o.Seen.Containers[0].ID {
		t.Fatalf("%+v is not %+v", alone, o)
	}
	for len(w.events) > 0 {
		<-w.events
	}
	w.ok(byHand["pause"](t.Context(), w, w.box("web")))
	if o, _ := seen(); o.Seen.Containers[0].State != "paused" {
		t.Errorf("paused: %+v", o)
	}
	_, err := w.api.ContainerUnpause(t.Context(), w.n.Name("web"), client.ContainerUnpauseOptions{})
	w.ok(err)
	_, err = w.api.NetworkDisconnect(t.Context(), w.n.Name("net"), client.NetworkDisconnectOptions{Container: w.n.Name("web"), Force: true})
	w.ok(err)
	if o, _ := seen(); len(o.Seen.Containers[0].Differences) == 0 || o.Seen.Containers[0].Differences[0].Class != diff.InPlace {
		t.Errorf("disconnected: %+v", o)
	}
}

// TestPreview: a look at what is only thought of leaves no trace in what is known.
func TestPreview(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	thought := w.r
	thought.Desired.Spec.Workspace.Env = []spec.Env{{Name: "A", Value: "2"}}
	o, err := w.m.Preview(t.Context(), thought)
	w.ok(err)
	if ds := o.Seen.Containers[0].Differences; len(ds) != 1 || ds[0].Field != "env/A" {
		t.Errorf("differences %v", ds)
	}
	all, err := w.m.ObserveAll(t.Context())
	w.ok(err)
	if ds := all[w.r.Ref].Seen.Containers[0].Differences; len(ds) != 0 {
		t.Errorf("afterwards %v", ds)
	}
	w.quiet()
}

// TestOrphans: only workspaces of this host that no row declares.
func TestOrphans(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	declared := map[string]bool{"web": true}
	w.o.Declared = func(context.Context) (map[string]bool, error) { return declared, nil }
	m := workspace.New(w.o)
	for _, want := range []int{0, 1} {
		got, err := m.Orphans(t.Context())
		w.ok(err)
		if len(got) != want || want == 1 && got[0] != w.r.Ref {
			t.Errorf("%v, want %d", got, want)
		}
		declared = nil
	}
}

// road is what a router does: requests go to the container that was named last.
type road struct {
	mu   sync.Mutex
	free sync.Cond
	to   *workspace.Target
	busy map[string]int
	held int
}

func (r *road) Pause(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = nil
	r.held++
}

func (r *road) Set(_ string, to workspace.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = &to
	r.free.Broadcast()
}

func (r *road) Drain(_ context.Context, _ string, from workspace.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy[from.ID] > 0 {
		r.free.Wait()
	}
}

// get makes one request.
func (r *road) get(c *http.Client, network string) (string, error) {
	r.mu.Lock()
	for r.to == nil {
		r.free.Wait()
	}
	to := *r.to
	r.busy[to.ID]++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[to.ID]--
		r.free.Broadcast()
	}()
	resp, err := c.Get("http://" + net.JoinHostPort(to.Addresses[network].String(), "8080"))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestStartFirstRefusesNothing: while a container with a healthcheck is replaced,
// every request is answered, first by the old one, in the end by the new one.
func TestStartFirstRefusesNothing(t *testing.T) {
	w := newWorld(t)
	r := &road{busy: map[string]int{}}
	r.free.L = &r.mu
	w.o.Upstreams = r
	w.anew()
	serve := func(version string) []string {
		return []string{"sh", "-c", "trap 'exit 0' TERM; mkdir -p /w; echo " + version + " >/w/index.html; httpd -p 8080 -h /w; sleep 1000 & wait"}
	}
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Command = serve("one")
		d.Spec.Workspace.Health = &spec.Health{Test: []string{"CMD-SHELL", "wget -qO- http://127.0.0.1:8080/"}, Interval: 200, Timeout: clock.Minute, Retries: 100}
	})
	w.converge("create")
	r.mu.Lock()
	before := r.held // until the first one was healthy
	r.mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answered := func(version string) {
		t.Helper()
		if got, err := r.get(c, w.n.Name("net")); err != nil || got != version {
			t.Errorf("answered %q, %v, and not by %s", got, err, version)
		}
	}
	answered("one\n")
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if got, err := r.get(c, w.n.Name("net")); err != nil || got != "one\n" && got != "two\n" {
				t.Errorf("answered %q, %v", got, err)
				return
			}
		}
	})
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Command = serve("two") })
	w.converge("create", "start", "promote", "remove_old")
	answered("two\n")
	stop()
	wg.Wait()
	if r.held != before {
		t.Errorf("held %d times", r.held-before)
	}
}

// TestSecretsStayOut: what a container printed before it failed is told without
// the values of its secrets, and so is every difference.
func TestSecretsStayOut(t *testing.T) {
	w := newWorld(t)
	w.store.secrets["key"] = "hush-hush"
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Env = []spec.Env{{Name: "KEY", Secret: "key"}}
		d.Spec.Workspace.Command = []string{"sh", "-c", "echo bad key $KEY; exit 1"}
		d.Spec.Workspace.State = spec.Once
	})
	_, err := w.turn()
	w.ok(err)
	_, err = w.turn()
	w.ok(err)
	r := w.api.ContainerWait(t.Context(), w.n.Name("web"), client.ContainerWaitOptions{})
	select {
	case <-r.Result:
	case err := <-r.Error:
		t.Fatal(err)
	}
	d, err := w.turn()
	w.ok(err)
	if !strings.Contains(d.Reason().Message, "bad key [secret key]") {
		t.Errorf("%s", d.Reason())
	}
	w.store.secrets["key"] = "another-one"
	d, err = w.turn()
	w.ok(err)
	if d.Reason().Code != replace.CodeReplace || strings.Contains(d.Reason().Message, "hush") || strings.Contains(d.Reason().Message, "another") {
		t.Errorf("a changed secret: %s", d.Reason())
	}
}

// TestTrap15: a container that the engine cannot start stays created, which is
// told with the engine's words, counted, and cured by another declaration.
func TestTrap15(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Command = []string{"/no/such/program"} })
	if got := w.settle(); got.err == nil || !strings.Contains(got.err.Error(), "/no/such/program") {
		t.Fatalf("%+v", got)
	}
	if c := w.box("web"); c.State.Status != "created" || c.State.ExitCode != 127 {
		t.Errorf("%+v", c.State)
	}
	d, err := w.turn()
	if a := d.Action(); err == nil || a == nil || a.ActionName() != "start" || !strings.Contains(d.Reason().Message, "could not be started") {
		t.Errorf("%s %s: %v", d.Name(), d.Reason(), err)
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Command = sleeper("v1") })
	w.converge("create", "swap", "remove_old")
	w.one()
}

// TestTrap16: one that is killed stays down although the engine is to restart it
// always, and is started; also when its image has no name any more.
func TestTrap16(t *testing.T) {
	w := newWorld(t)
	ref := w.build("app", "ENV X=1")
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Restart.Policy = "always"
		d.Spec.Uses.Image = ref
	})
	w.converge("create")
	before := w.one()
	for _, tag := range []string{ref, ""} {
		_, err := w.api.ContainerKill(t.Context(), before.ID, client.ContainerKillOptions{Signal: "KILL"})
		w.ok(err)
		r := w.api.ContainerWait(t.Context(), before.ID, client.ContainerWaitOptions{})
		select {
		case <-r.Result:
		case err := <-r.Error:
			t.Fatal(err)
		}
		if tag == "" {
			_, err := w.api.ImageRemove(t.Context(), ref, client.ImageRemoveOptions{Force: true})
			w.ok(err)
		}
		w.converge("start")
		if w.one().ID != before.ID {
			t.Error("not the same container")
		}
	}
	w.quiet()
}

// TestEngineAway: an engine that does not answer is waited for.
func TestEngineAway(t *testing.T) {
	w := newWorld(t)
	p := w.behind()
	w.converge("create")
	p.Set(dockertest.Drop)
	_, err := w.m.Observe(t.Context(), w.r)
	if want := reconcile.Blocked(engine.NewReason(dockerapi.CodeUnavailable, "")).Error(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := w.m.ObserveAll(t.Context()); err == nil {
		t.Error("ObserveAll answers without an engine")
	}
}

// TestContents: a config of another content replaces the container, and the file
// of the one before goes with it.
func TestContents(t *testing.T) {
	w := newWorld(t)
	content := func(text string) {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Contents = []spec.Content{{Target: "/etc/app.conf", Blob: w.blob(text), UID: 7, GID: 8, Mode: 0o640}}
		})
	}
	content("one")
	w.converge("create")
	content("two")
	w.converge("create", "swap", "remove_old")
	if got := w.run("sh", "-c", "cat /etc/app.conf; stat -c ' %u:%g %a' /etc/app.conf"); got != "two 7:8 640\n" {
		t.Errorf("%q", got)
	}
	if got := w.folder(); len(got) != 1 {
		t.Errorf("files %v", got)
	}
	content("three")
	w.store.blobs[w.r.Desired.Spec.Workspace.Contents[0].Blob.Digest] = []byte("forged")
	if got := w.settle(); got.err == nil || !strings.Contains(got.err.Error(), "digest") {
		t.Errorf("%+v", got)
	}
}

// TestContentsFollowTheStateFolder: what a container mounts does not hang on where
// the state folder was when it was made. A file that went with a folder moved away is
// written again and nothing restarts; a container that mounts from another folder is
// made again from the agent's own, with the reason. Both survive the loss of the old.
func TestContentsFollowTheStateFolder(t *testing.T) {
	w := newWorld(t)
	w.store.secrets["key"] = "hush"
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Contents = []spec.Content{{Target: "/etc/app.conf", Blob: w.blob("one")}, {Target: "/run/key", Secret: "key"}}
	})
	w.converge("create")
	again := func() {
		t.Helper()
		w.ok(w.e.ContainerStop(t.Context(), w.one().ID, 0, ""))
		w.converge("start")
		if got := w.run("cat", "/etc/app.conf", "/run/key"); got != "onehush" {
			t.Errorf("%q", got)
		}
	}
	first := w.one().ID
	w.ok(os.Rename(w.o.Dir, w.o.Dir+".lost"))
	got := w.converge("adjust")
	for _, part := range []string{"/etc/app.conf", "/run/key", "removed from the state folder", "written again"} {
		if !strings.Contains(got.first.Message, part) {
			t.Errorf("the reason does not say %q: %s", part, got.first)
		}
	}
	w.quiet()
	again()
	if w.one().ID != first {
		t.Error("it was made again for files alone")
	}
	old := w.o.Dir
	w.o.Dir, w.o.Ledger = t.TempDir(), &book{m: map[string][]byte{}} // as after an enrolment
	w.anew()
	got = w.converge("create", "swap", "remove_old")
	if !strings.Contains(got.first.Message, "file/etc/app.conf: "+old) || !strings.Contains(got.first.Message, "a folder that is not this agent's") {
		t.Errorf("the reason is %s", got.first)
	}
	w.ok(os.RemoveAll(old))
	w.quiet()
	again()
}
