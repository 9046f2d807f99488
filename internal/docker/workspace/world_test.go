package workspace_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// patience bounds a wait for the engine.
const patience = 3 * time.Minute

// book is a ledger in memory.
type book struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (b *book) Baseline(_ context.Context, id string) ([]byte, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.m[id]
	return v, ok, nil
}

func (b *book) SetBaseline(_ context.Context, id string, v []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[id] = v
	return nil
}

func (b *book) Forget(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, id)
	return nil
}

// store has the blobs and secrets of a test.
type store struct {
	blobs   map[digest.Digest][]byte
	secrets map[string]string
}

func (s *store) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	b, ok := s.blobs[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (s *store) Get(name string) ([]byte, error) {
	v, ok := s.secrets[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(v), nil
}

// world is one workspace on a real engine. Waits pass at once: the reconciler's
// clock is moved instead.
type world struct {
	t      testing.TB
	d      *dockertest.Daemon
	api    *client.Client
	e      *dockerapi.Engine
	n      dockertest.Namespace
	m      *workspace.Reconciler
	o      workspace.Options
	r      engine.Resource[workspace.Desired]
	store  *store
	events chan dockerapi.Event
	now    clock.Instant
	runs   map[string]bool // containers that ran when the events were last read

	mu    sync.Mutex
	ahead time.Duration
	still time.Time // set: no time passes but by pass
}

func newWorld(t testing.TB) *world { return newWorldOn(t, dockertest.Engine(t)) }

func newWorldOn(t testing.TB, d *dockertest.Daemon) *world {
	w := &world{t: t, d: d, api: d.Client(), n: d.Namespace(t), now: 1, events: make(chan dockerapi.Event, 4096),
		store: &store{blobs: map[digest.Digest][]byte{}, secrets: map[string]string{}}}
	w.e = w.open()
	w.o = workspace.Options{Engine: w.e, Owner: convert.Owner{Fleet: "f", Host: w.n.Prefix, Prefix: w.n.Prefix},
		Ledger: &book{m: map[string][]byte{}}, Content: w.store, Secrets: w.store, Dir: t.TempDir(),
		Digest: secret.Keyed([]byte("key")), Now: w.clock}
	w.m = workspace.New(w.o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	heard := make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		err := w.e.Watch(ctx, func(ev dockerapi.Event) {
			w.manager().OnEvent(ev)
			once.Do(func() { close(heard) })
			select {
			case w.events <- ev:
			default:
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-heard
	_, err := w.api.NetworkCreate(t.Context(), w.n.Name("net"), client.NetworkCreateOptions{})
	w.ok(err)
	w.r = engine.Resource[workspace.Desired]{Ref: engine.Ref{Kind: spec.KindWorkspace, ID: "web"}, Generation: 1}
	grace := clock.Second // one that was started this moment does not hear the signal yet
	w.r.Desired.Spec = spec.Deployment{Workspace: spec.Workspace{Name: "web", Image: "app", Command: sleeper("v1"), StopGrace: &grace,
		Networks: []spec.Attachment{{Network: "net", Aliases: []string{"site"}}}, Env: []spec.Env{{Name: "A", Value: "1"}}},
		Uses: spec.Uses{Image: d.Busybox(t), Networks: map[string]string{"net": w.n.Name("net")}}}
	return w
}

// anew starts the agent's part anew, with what the options are now.
func (w *world) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m = workspace.New(w.o)
}

func (w *world) manager() *workspace.Reconciler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m
}

func (w *world) open() *dockerapi.Engine {
	e, err := dockerapi.Open(dockerapi.Options{Socket: w.d.Socket(), Timeout: patience})
	w.ok(err)
	w.t.Cleanup(func() { w.ok(e.Close()) })
	return e
}

// sleeper is a program that ends when it is asked to.
func sleeper(version string) []string {
	return []string{"sh", "-c", "trap 'exit 0' TERM; echo " + version + "; sleep 1000 & wait"}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.still.IsZero() {
		return w.still.Add(w.ahead)
	}
	return time.Now().Add(w.ahead)
}

func (w *world) pass(d clock.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d.Std()
	w.now = w.now.Add(d)
}

func (w *world) ok(err error) {
	w.t.Helper()
	testkit.Must(w.t, err)
}

// sub runs a part of a test on the world as the parts before left it, and ends
// the test with the first that fails.
func (w *world) sub(name string, f func()) {
	outer := w.t
	defer func() { w.t = outer }()
	if !outer.(*testing.T).Run(name, func(t *testing.T) {
		w.t = t
		f()
	}) {
		outer.FailNow()
	}
}

// want changes what is desired.
func (w *world) want(f func(d *workspace.Desired)) {
	raw, err := json.Marshal(w.r.Desired)
	w.ok(err)
	var d workspace.Desired
	w.ok(json.Unmarshal(raw, &d))
	f(&d)
	w.r.Desired = d
	w.r.Generation++
}

// done is how taking turns ended.
type done struct {
	name   string
	reason engine.Reason
	acts   []string
	err    error
	first  engine.Reason // of the first act
}

func (w *world) observe() workspace.Observed {
	w.t.Helper()
	o, err := w.m.Observe(w.t.Context(), w.r)
	w.ok(err)
	return o
}

// turn takes one turn.
func (w *world) turn() (engine.Decision, error) {
	w.t.Helper()
	d := w.m.Decide(engine.View[workspace.Desired, workspace.Observed]{Resource: w.r, Observed: w.observe(), Now: w.now.Time()})
	if d.Action() == nil {
		return d, nil
	}
	return d, w.m.Act(w.t.Context(), w.r, d.Action())
}

// hear waits until the reconciler has heard of all that happened up to now, and gives
// each event to read.
func (w *world) hear(read func(dockerapi.Event)) {
	w.t.Helper()
	// An event of our own marks the end.
	mark, err := w.api.VolumeCreate(w.t.Context(), client.VolumeCreateOptions{Name: w.n.Name(rand.Text())})
	w.ok(err)
	for {
		select {
		case ev := <-w.events:
			if ev.Subject == dockerapi.Volume && ev.ID == mark.Volume.Name {
				return
			}
			read(ev)
		case <-time.After(patience):
			w.t.Fatal("the events stopped")
		}
	}
}

// settle takes turns until all is as desired, or something fails.
func (w *world) settle() done {
	w.t.Helper()
	var out done
	w.hear(func(dockerapi.Event) {})
	for len(out.acts) < 40 {
		for len(w.events) > 0 {
			<-w.events
		}
		d, err := w.turn()
		out.name, out.reason, out.err = d.Name(), d.Reason(), err
		if d.Action() != nil {
			if len(out.acts) == 0 {
				out.first = d.Reason()
			}
			out.acts = append(out.acts, d.Action().ActionName())
		}
		switch {
		case err != nil || d.Name() == "fail":
			return out
		case d.Name() == "converged":
			w.r.Status.ConvergedGeneration = w.r.Generation
			return out
		case d.Name() == "wait" && !w.await(d):
			return out
		}
	}
	w.t.Fatalf("does not come to rest: %+v", out)
	return out
}

// await lets a wait pass. What waits for a healthcheck or an end is waited for.
func (w *world) await(d engine.Decision) bool {
	w.t.Helper()
	until := clock.FromTime(d.Until())
	if d.Reason().Code == replace.CodeNotThere {
		return false
	}
	if w.r.Desired.Spec.Workspace.Health != nil || w.r.Desired.Spec.Workspace.State == spec.Once {
		select {
		case <-w.events:
			return true
		case <-time.After(patience):
			w.t.Fatalf("nothing happens: %s", d.Reason())
		}
	}
	if until == 0 {
		return false
	}
	w.pass(until.Sub(w.now))
	return true
}

// converge settles and fails the test unless it ends as desired.
func (w *world) converge(acts ...string) done {
	w.t.Helper()
	got := w.settle()
	if got.name != "converged" || got.err != nil || len(acts) > 0 && !slices.Equal(acts, got.acts) {
		w.t.Fatalf("ended with %s (%s) after %v, error %v; expected to converge after %v\n%+v", got.name, got.reason, got.acts, got.err, acts,
			w.observe().Seen.Containers)
	}
	return got
}

// quiet fails the test if one more look writes anything, or finds anything.
func (w *world) quiet() {
	w.t.Helper()
	before := w.e.Calls().Writes
	if got := w.settle(); got.name != "converged" || len(got.acts) > 0 {
		w.t.Fatalf("a second look ends with %s (%s) after %v", got.name, got.reason, got.acts)
	}
	if after := w.e.Calls().Writes; after != before {
		w.t.Fatalf("a second look wrote %d times", after-before)
	}
}

// box is the container under a name.
func (w *world) box(name string) container.InspectResponse {
	w.t.Helper()
	c, err := w.api.ContainerInspect(w.t.Context(), w.n.Name(name), client.ContainerInspectOptions{})
	w.ok(err)
	return c.Container
}

// all are the names of the containers of the test.
func (w *world) all() []string {
	w.t.Helper()
	list, err := w.api.ContainerList(w.t.Context(), client.ContainerListOptions{All: true,
		Filters: client.Filters{}.Add("label", convert.LabelOwner+"=f/"+w.n.Prefix)})
	w.ok(err)
	var out []string
	for _, c := range list.Items {
		out = append(out, c.Names...)
	}
	slices.Sort(out)
	return out
}

// one fails the test unless the workspace has exactly its container, running.
func (w *world) one() container.InspectResponse {
	w.t.Helper()
	if got := w.all(); !slices.Equal(got, []string{"/" + w.n.Name("web")}) {
		w.t.Fatalf("containers %v", got)
	}
	c := w.box("web")
	if !c.State.Running || c.State.Paused {
		w.t.Fatalf("state %+v", c.State)
	}
	return c
}

// run runs a command in the workspace's container and gives what it printed.
func (w *world) run(cmd ...string) string {
	w.t.Helper()
	code, out, err := w.e.Run(w.t.Context(), w.n.Name("web"), dockerapi.Exec{Cmd: cmd}, 1<<16)
	w.ok(err)
	if code != 0 {
		w.t.Fatalf("%v ended with %d: %s", cmd, code, out)
	}
	return string(out)
}

// build makes an image of busybox with further lines.
func (w *world) build(name string, lines string) string {
	w.t.Helper()
	ref := w.n.Name(name) + ":1"
	_, err := w.e.ImageBuild(w.t.Context(), dockertest.BuildContext(w.t, map[string]string{"Dockerfile": "FROM " + w.d.Busybox(w.t) + "\n" + lines}),
		dockerapi.Build{Tags: []string{ref}}, nil)
	w.ok(err)
	return ref
}

func (w *world) blob(text string) *spec.Blob {
	d := digest.Of([]byte(text))
	w.store.blobs[d] = []byte(text)
	return &spec.Blob{Digest: d, Size: int64(len(text))}
}

func (w *world) folder() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.o.Dir + "/web")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w.ok(err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
