package image_test

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func nothing(string) bool { return false }

func (l *lab) collect(grace time.Duration, desired func(string) bool) []string {
	l.Helper()
	out, err := l.manager.Collect(l.ctx, grace, desired)
	l.must(err)
	return out
}

func TestS37CollectByReference(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM scratch\nLABEL a=b\n")
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
	foreign := l.make(l.owner.Title("theirs")+":1", "x")
	ref := l.ref(i)
	if got := l.collect(0, func(r string) bool { return r == ref }); len(got) != 0 {
		t.Fatalf("removed %v, which is desired", got)
	}
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("c"), Config: &container.Config{Image: ref, Cmd: []string{"x"}}})
	l.must(err)
	// Trap 13: with another name an engine takes this one away under the container.
	l.must(l.engine.ImageTag(l.ctx, ref, l.owner.Title("another")+":1"))
	if got := l.collect(0, nothing); len(got) != 0 {
		t.Fatalf("removed %v, which a container uses", got)
	}
	_, err = l.api.ContainerRemove(l.ctx, c.ID, client.ContainerRemoveOptions{})
	l.must(err)
	if got := l.collect(time.Hour, nothing); len(got) != 0 {
		t.Fatalf("removed %v within its grace", got)
	}
	id := l.id(ref)
	if got := l.collect(0, nothing); !slices.Equal(got, []string{ref}) {
		t.Fatalf("removed %v", got)
	}
	if l.id(id) == "" || l.id(l.owner.Title("theirs")+":1") != foreign {
		t.Fatal("what others named is gone")
	}
	if got := l.collect(0, nothing); len(got) != 0 {
		t.Fatalf("removed %v after all was removed", got)
	}
}

// Trap 13: an engine takes a name away from an image that a container uses.
func TestTrap13_UsedImageKeepsItsName(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM scratch\nLABEL a=b\n")
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
	ref := l.ref(i)
	l.must(l.engine.ImageTag(l.ctx, ref, l.owner.Title("another")+":1"))
	_, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("c"), Config: &container.Config{Image: ref, Cmd: []string{"x"}}})
	l.must(err)
	if _, err := l.engine.ImageRemove(l.ctx, ref); err != nil {
		t.Fatalf("the trap is not there on this engine: %v", err)
	}
	l.must(l.engine.ImageTag(l.ctx, l.owner.Title("another")+":1", ref))
	if got := l.collect(0, nothing); len(got) != 0 || l.id(ref) == "" {
		t.Fatalf("removed %v", got)
	}
}

func TestCollectLeavesWhatWasThereBefore(t *testing.T) {
	l := begin(t)
	ref := l.owner.Title("before") + ":1"
	id := l.make(ref, "x")
	i := spec.Image{Name: "app", Ref: ref, Pull: &spec.Pull{}}
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "record")
	if got := l.collect(0, nothing); len(got) != 0 || l.id(ref) != id {
		t.Fatalf("removed %v", got)
	}
}

func TestCollectKeepsBasesOfWhatIsDesired(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	l.make(l.owner.Title("base")+":1", "base")
	base, _ := hub.Push(t, l.docker, l.owner.Title("base")+":1", l.owner.Prefix+"base:1")
	i := l.inline("app", "FROM "+base+"\nLABEL a=b\n")
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
	desired := func(ref string) bool { return ref == l.ref(i) }
	if got := l.collect(0, desired); len(got) != 0 {
		t.Fatalf("removed %v", got)
	}
	got := l.collect(0, nothing)
	got = append(got, l.collect(0, nothing)...)
	if l.id(base) != "" || l.id(l.ref(i)) != "" {
		t.Fatalf("removed only %v", got)
	}
}

func TestCollectTakesWhatANewerPullLeft(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	push := func(content string) string {
		name := l.owner.Title(content) + ":1"
		l.make(name, content)
		ref, _ := hub.Push(t, l.docker, name, l.owner.Prefix+"app:1")
		_, err := l.engine.ImageRemove(l.ctx, name)
		l.must(err)
		return ref
	}
	ref := push("one")
	i := spec.Image{Name: "app", Ref: ref, Pull: &spec.Pull{Policy: spec.PullAlways}}
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
	first := l.id(ref)
	push("two")
	r.Want(image.Desired{Spec: i, Run: "next"}).Finish(t, l.ctx).Must(t, "converged", "", "pull")
	second := l.id(ref)
	if got := l.collect(0, func(r string) bool { return r == ref }); first == second || !slices.Equal(got, []string{first}) {
		t.Fatalf("removed %v of %s and %s", got, first, second)
	}
	l.quiet(r)
}

func TestLoad(t *testing.T) {
	l := begin(t)
	ref := l.owner.Title("loaded") + ":1"
	id := l.make(ref, "saved")
	save := func(refs ...string) spec.Blob {
		r, err := l.api.ImageSave(l.ctx, refs)
		l.must(err)
		defer r.Close()
		text, err := io.ReadAll(r)
		l.must(err)
		return l.blobs.add(text)
	}
	alone := save(ref)
	l.must(l.engine.ImageTag(l.ctx, id, l.owner.Title("second")+":1"))
	both := save(ref, l.owner.Title("second")+":1")
	for _, name := range []string{ref, l.owner.Title("second") + ":1"} {
		_, err := l.engine.ImageRemove(l.ctx, name)
		l.must(err)
	}
	two := spec.Image{Name: "two", Ref: ref, Load: &spec.Load{Archive: both}}
	if x := l.row(two).Finish(t, l.ctx).Must(t, "error", "", "load"); !strings.Contains(x.Err.Error(), "second") || l.id(ref) != "" {
		t.Fatalf("an archive with another name: %v", x.Err)
	}
	i := spec.Image{Name: "app", Ref: ref, Load: &spec.Load{Archive: alone}}
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "load")
	if l.id(ref) != id {
		t.Fatal("another image was loaded")
	}
	l.quiet(r)
	_, err := l.engine.ImageRemove(l.ctx, ref)
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "load")
}

type full struct{ words string }

func (f *full) Short(context.Context) (string, error) { return f.words, nil }

type pool struct{ free int }

func (p *pool) TryEnter(string) (func(), bool) {
	if p.free == 0 {
		return nil, false
	}
	p.free--
	return func() { p.free++ }, true
}

func TestNoRoomAndNoTurnAreWaitedFor(t *testing.T) {
	l := begin(t)
	space, builds := &full{"no room"}, &pool{}
	l.options.Space, l.options.Builds = space, builds
	l.manager = image.New(l.options)
	r := l.row(l.inline("app", "FROM scratch\nLABEL a=b\n"))
	before := l.engine.Calls().Writes
	r.Finish(t, l.ctx).Must(t, "wait", image.CodeDiskPressure)
	space.words = ""
	if x := r.Finish(t, l.ctx).Must(t, "error", "", "build"); !strings.HasPrefix(x.Err.Error(), "blocked: pool-full") {
		t.Fatalf("%v", x.Err)
	}
	if l.engine.Calls().Writes != before {
		t.Fatal("the engine was changed")
	}
	builds.free = 1
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
	if builds.free != 1 {
		t.Fatal("its place was not given back")
	}
	space.words = "no room"
	l.quiet(r)
}

// TestASilentEngineIsNoFailureOfAnImage: an engine that says how an image is, and
// not how full its disk is, is waited for like one that says nothing.
func TestASilentEngineIsNoFailureOfAnImage(t *testing.T) {
	l := begin(t)
	e, err := dockerapi.Open(dockerapi.Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
	l.must(err)
	t.Cleanup(func() { l.must(e.Close()) })
	l.options.Space = image.NewGuard(func(ctx context.Context) (disk.Space, error) {
		_, err := e.Info(ctx)
		return disk.Space{}, err
	}, nil)
	l.manager = image.New(l.options)
	x := l.row(l.inline("app", "FROM scratch\nLABEL a=b\n")).Finish(t, l.ctx).Must(t, "error", "")
	if !strings.HasPrefix(x.Err.Error(), "blocked: engine-unavailable") {
		t.Fatalf("not waited for: %v", x.Err)
	}
}

func TestOrphans(t *testing.T) {
	l := begin(t)
	for _, name := range []string{"kept", "stray"} {
		l.row(l.inline(name, "FROM scratch\nLABEL a=b\n")).Finish(t, l.ctx).Must(t, "converged", "", "build")
	}
	l.options.Declared = func(context.Context) (map[string]bool, error) { return map[string]bool{"kept": true}, nil }
	orphans := func() []engine.Ref {
		refs, err := image.New(l.options).Orphans(l.ctx)
		l.must(err)
		return refs
	}
	if refs := orphans(); !slices.Contains(refs, engine.Ref{Kind: spec.KindImage, ID: "stray"}) || slices.Contains(refs, engine.Ref{Kind: spec.KindImage, ID: "kept"}) {
		t.Fatalf("orphans are %v", refs)
	}
	// An image that somebody made from it has its labels, and is not ours.
	stray := l.ref(l.inline("stray", "FROM scratch\nLABEL a=b\n"))
	tar := dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM " + stray + "\nLABEL c=d\n"})
	_, err := l.engine.ImageBuild(l.ctx, tar, dockerapi.Build{Tags: []string{l.owner.Title("derived") + ":1"}}, nil)
	l.must(err)
	_, err = l.engine.ImageRemove(l.ctx, stray)
	l.must(err)
	if refs := orphans(); slices.Contains(refs, engine.Ref{Kind: spec.KindImage, ID: "stray"}) {
		t.Fatalf("orphans are %v", refs)
	}
}

// TestS37MayGo: nothing that is referred to, in use, younger than its grace or
// not of this host may go, and what is none of that may.
func TestS37MayGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := image.Garbage{Fetched: rapid.Bool().Draw(t, "fetched"), Referenced: rapid.Bool().Draw(t, "referenced"),
			Used: rapid.Bool().Draw(t, "used"), Free: time.Duration(rapid.Int64Range(0, 10).Draw(t, "free"))}
		grace := time.Duration(rapid.Int64Range(0, 10).Draw(t, "grace"))
		switch may := image.MayGo(g, grace); {
		case may && (!g.Fetched || g.Referenced || g.Used || g.Free < grace):
			t.Fatalf("%+v goes within %d", g, grace)
		case !may && g.Fetched && !g.Referenced && !g.Used && g.Free >= grace:
			t.Fatalf("%+v stays for ever", g)
		}
	})
}
