package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	mobyc "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, "the agent ends:", child(dir))
		os.Exit(1)
	}
	// They wait for engines and for time to pass; -parallel on the command line counts.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	dockertest.Main(m)
}

// patience bounds a wait for something that has to come.
const patience = 3 * time.Minute

// world is a real engine with the containers of one host.
type world struct {
	t     testing.TB
	ctx   context.Context
	d     *dockertest.Daemon
	api   *client.Client
	n     dockertest.Namespace
	cfg   config
	owner convert.Owner
	a     *agent
	asked int // rounds of looks asked for
}

// newWorld makes one on the engine that all tests share. Nothing looks at the
// engine without being told to: only events do.
func newWorld(t testing.TB) *world { return worldOn(t, dockertest.Engine(t)) }

func worldOn(t testing.TB, d *dockertest.Daemon) *world {
	w := &world{t: t, ctx: t.Context(), d: d, api: d.Client(), n: d.Namespace(t)}
	d.Busybox(t)
	w.owner = convert.Owner{Fleet: "f", Host: strings.TrimSuffix(w.n.Prefix, "-"), Prefix: w.n.Prefix}
	w.cfg = config{Socket: d.Socket(), Dir: t.TempDir(), Owner: w.owner, Resync: 3_600_000}
	return w
}

// start runs the agent in this process.
func (w *world) start() *agent {
	w.t.Helper()
	a := w.open(w.cfg)
	w.a = a
	return a
}

// open runs an agent until the test ends, or until stop.
func (w *world) open(cfg config) *agent {
	w.t.Helper()
	a, err := openAgent(cfg)
	w.ok(err)
	a.run(context.WithoutCancel(w.ctx))
	w.t.Cleanup(func() { w.halt(a) })
	return a
}

// halt ends an agent, once.
func (w *world) halt(a *agent) {
	w.t.Helper()
	if a.ended {
		return
	}
	a.ended = true
	if err := a.end(); err != nil && !errors.Is(err, context.Canceled) {
		w.t.Error("the agent ended:", err)
	}
	if w.t.Failed() && a.cfg.Log != "" {
		said, _ := os.ReadFile(a.cfg.Log)
		w.t.Logf("the agent said:\n%s", said)
	}
}

func (w *world) ok(err error) {
	w.t.Helper()
	testkit.Must(w.t, err)
}

// declare declares a set, which has to be a good one.
func (w *world) declare(s spec.Set) {
	w.t.Helper()
	w.ok(w.a.declare(w.ctx, w.layer(s)))
}

func (w *world) layer(set spec.Set) deploy.Layer {
	w.t.Helper()
	raw, err := json.Marshal(set)
	w.ok(err)
	var s spec.Set // the caller's stays in its order
	w.ok(json.Unmarshal(raw, &s))
	s.Normalize()
	for _, p := range s.Check() {
		w.t.Fatalf("the test declares nonsense: %s", p)
	}
	return deploy.Layer{Set: s}
}

// until waits for f to be fulfilled: it is asked at each commit of the agent, and
// now and then for what the agent does not record.
func (w *world) until(what string, f func() (bool, string)) {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		next, began := w.a.next(), time.Now()
		ok, words := f()
		if ok {
			return
		}
		select {
		case <-next:
		case <-time.After(testkit.Pause(time.Since(began))):
		case <-deadline:
			w.leaked()
			w.t.Fatalf("%s: %s\n%s\n%s", what, words, w.a.phases(w.ctx), w.listed())
		}
	}
}

// converged waits until all has come to rest as declared.
func (w *world) converged() {
	w.t.Helper()
	w.until("does not converge", func() (bool, string) {
		words, err := w.a.unsettled(w.ctx)
		w.ok(err)
		return words == "", words
	})
}

// looked has every resource looked at anew, and waits until it was.
func (w *world) looked(trigger engine.Trigger) {
	w.t.Helper()
	w.asked++
	all, err := w.a.rows.List(w.ctx, reconcile.Filter{})
	w.ok(err)
	cause := engine.Cause{Trigger: trigger, ID: fmt.Sprint("round ", w.asked)}
	since := time.Now()
	for i := range all {
		if !all[i].Phase.Terminal() {
			w.a.loop.Enqueue(all[i].Ref, cause)
		}
	}
	for i := range all {
		if all[i].Phase.Terminal() {
			continue
		}
		ref := all[i].Ref
		w.until("no look at "+ref.String(), func() (bool, string) {
			row, err := w.a.rows.Get(w.ctx, ref)
			if errors.Is(err, reconcile.ErrNotFound) {
				return true, ""
			}
			w.ok(err)
			last := w.a.loop.LastTurn(w.ctx, ref)
			seen := last.At.After(since) || slices.Contains(last.Causes, cause)
			return row.Phase.Terminal() || seen && !last.Acting, last.Decision
		})
	}
	// What was seen is acted on in the same turn, a moment later.
	w.until("turns go on", func() (bool, string) {
		n := w.a.loop.Stats().Running
		return n == 0, fmt.Sprint(n)
	})
}

// settled brings everything to rest, and fails the test unless whole cycles
// after that write nothing (S36): one that looks closely at everything, and one
// as by the clock.
func (w *world) settled() {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		w.converged()
		before := w.a.engine.Calls().Writes
		w.looked(engine.TriggerOperator)
		w.converged()
		if w.a.engine.Calls().Writes == before {
			break
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("it never comes to rest: %v", w.a.transitions(max(0, w.a.count()-30)))
		}
	}
	before, n := w.a.engine.Calls().Writes, w.a.count()
	for _, trigger := range []engine.Trigger{engine.TriggerOperator, engine.TriggerResync} {
		w.looked(trigger)
		if wrote := w.a.engine.Calls().Writes - before; wrote != 0 {
			w.t.Fatalf("S36: a cycle with nothing to do wrote %d times: %v", wrote, w.a.transitions(n))
		}
	}
	if words, err := w.a.unsettled(w.ctx); words != "" || err != nil {
		w.t.Fatalf("a look made something unsettled: %s %v: %v", words, err, w.a.transitions(n))
	}
}

// right fails the test unless the engine has exactly what is declared, as seen by
// another agent that knows nothing yet.
func (w *world) right(s spec.Set) {
	w.t.Helper()
	for i := range s.Workspaces {
		x := &s.Workspaces[i]
		if !x.ReportOnly {
			w.one(x.Name, x.State == "" || x.State == spec.Running)
		}
	}
	want := map[string]bool{}
	for i := range s.Workspaces {
		want[s.Workspaces[i].EngineName(w.owner.Title)] = true
	}
	// The engine removes the containers of a build that was cut off in its own time.
	w.until("something is left over", func() (bool, string) {
		for _, c := range w.own("") {
			if !slices.ContainsFunc(c.Names, func(n string) bool { return want[strings.TrimPrefix(n, "/")] }) {
				return false, c.Names[0]
			}
		}
		return true, ""
	})
	cfg := w.a.cfg
	cfg.Timeout = 0              // the engine is well, and may be busy
	other, err := openAgent(cfg) // it does not run
	w.ok(err)
	defer func() { w.ok(errors.Join(other.engine.Close(), other.db.Close())) }()
	s.Normalize()
	check := func(kind, name string, value any) {
		raw, err := json.Marshal(value)
		w.ok(err)
		p, err := other.host.Preview(w.ctx, kind, name, raw)
		w.ok(err)
		if p.Does != docker.DoesNothing {
			w.t.Errorf("%s %s is not as declared: it would %s: %s", kind, name, p.Does, p.Why)
		}
	}
	for _, x := range s.Networks {
		check(spec.KindNetwork, x.Name, x)
	}
	for _, x := range s.Volumes {
		check(spec.KindVolume, x.Name, x)
	}
	for _, x := range s.Images {
		check(spec.KindImage, x.Name, x)
	}
	for _, x := range s.Workspaces {
		check(spec.KindWorkspace, x.Name, x)
	}
}

// own are this host's containers of a workspace, of all if name is empty.
func (w *world) own(name string) []mobyc.Summary {
	w.t.Helper()
	f := client.Filters{}.Add("label", convert.LabelOwner+"="+w.owner.ID())
	if name != "" {
		f.Add("label", convert.LabelName+"="+name)
	}
	list, err := w.api.ContainerList(w.ctx, client.ContainerListOptions{All: true, Filters: f})
	w.ok(err)
	return list.Items
}

// one is the one container of a workspace, under its name.
func (w *world) one(name string, runs bool) mobyc.InspectResponse {
	w.t.Helper()
	list := w.own(name)
	if len(list) != 1 || !slices.Contains(list[0].Names, "/"+w.owner.Title(name)) { // links are further names
		w.t.Fatalf("workspace %s: not exactly its one container:\n%s", name, w.listed())
	}
	c := w.inspect(list[0].ID)
	if runs && (!c.State.Running || c.State.Paused) {
		w.t.Fatalf("workspace %s does not run: %+v", name, c.State)
	}
	return c
}

func (w *world) inspect(id string) mobyc.InspectResponse {
	w.t.Helper()
	c, err := w.api.ContainerInspect(w.ctx, id, client.ContainerInspectOptions{})
	w.ok(err)
	return c.Container
}

// listed is what is on the engine, for messages.
func (w *world) listed() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 10*time.Second)
	defer cancel()
	list, err := w.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, c := range list.Items {
		fmt.Fprintf(&out, "%.12s %v %s %s\n", c.ID, c.Names, c.State, c.Status)
	}
	return out.String()
}

// run runs a command in a container and gives what it printed.
func (w *world) run(name string, cmd ...string) string {
	w.t.Helper()
	x, err := w.api.ExecCreate(w.ctx, w.owner.Title(name), client.ExecCreateOptions{Cmd: cmd, AttachStdout: true, AttachStderr: true, TTY: true})
	w.ok(err)
	got, err := w.api.ExecAttach(w.ctx, x.ID, client.ExecAttachOptions{TTY: true})
	w.ok(err)
	defer got.Close()
	said, err := io.ReadAll(got.Reader)
	w.ok(err)
	return strings.ReplaceAll(string(said), "\r", "")
}

// sleeper is a program that ends when it is asked to, and says a word at first.
func sleeper(word string) []string {
	return []string{"sh", "-c", "trap 'exit 0' TERM; echo " + word + "; sleep 100000 & wait"}
}

// plain is an image of Busybox by name, for sets.
func plain(name string) spec.Image {
	return spec.Image{Name: name, Ref: dockertest.BusyboxRef, Pull: &spec.Pull{Policy: spec.PullNever}}
}

// built is an image that is built with one more label.
func built(name, version string) spec.Image {
	return spec.Image{Name: name, Build: &spec.Build{Inline: "FROM " + dockertest.BusyboxRef + "\nLABEL version=" + version + "\n"}}
}

// rows are all resources of the agent.
func (w *world) rows() []engine.Row {
	w.t.Helper()
	all, err := w.a.rows.List(w.ctx, reconcile.Filter{})
	w.ok(err)
	return all
}

// drain reads a stream of the engine to its end.
func drain(r io.ReadCloser) error {
	_, err := io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// idle waits until the owner of everything had one more turn.
func (w *world) idle() {
	w.t.Helper()
	w.asked++
	cause := engine.Cause{Trigger: engine.TriggerOperator, ID: fmt.Sprint("round ", w.asked)}
	ref, since := deploy.ManagedLayer, time.Now()
	w.a.loop.Enqueue(ref, cause)
	w.until("no look at "+ref.String(), func() (bool, string) {
		last := w.a.loop.LastTurn(w.ctx, ref)
		return slices.Contains(last.Causes, cause) || last.At.After(since), last.Decision
	})
}

var nameInUse = regexp.MustCompile(`already in use by container "([0-9a-f]{64})"`)

// leaked leaves a test out that met a defect of the engine: a container that is
// removed while it is renamed may keep its name for ever, and nothing short of a
// restart of the engine frees it.
func (w *world) leaked() {
	w.t.Helper()
	for _, m := range nameInUse.FindAllStringSubmatch(w.a.phases(w.ctx), -1) {
		if _, err := w.a.engine.ContainerInspect(w.ctx, m[1]); dockerapi.NotFound(err) {
			testkit.Defect(w.t, fmt.Sprintf("the engine keeps the name of container %.12s, which is gone: %s", m[1], w.a.phases(w.ctx)))
		}
	}
}
