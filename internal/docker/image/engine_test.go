package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// blobs is the content that travels beside bundles.
type blobs map[digest.Digest][]byte

func (b blobs) add(text []byte) spec.Blob {
	d := digest.Of(text)
	b[d] = text
	return spec.Blob{Digest: d, Size: int64(len(text))}
}

func (b blobs) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	text, ok := b[d]
	if !ok {
		return nil, fmt.Errorf("no blob %s", d)
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

func (b blobs) Damaged(d digest.Digest) error { delete(b, d); return nil }

type keyring map[string]registry.AuthConfig

func (k keyring) For(host string) (registry.AuthConfig, bool, error) {
	a, ok := k[host]
	return a, ok, nil
}

type lab struct {
	*testing.T
	ctx     context.Context
	docker  *dockertest.Daemon
	api     *client.Client
	engine  *dockerapi.Engine
	owner   convert.Owner
	ledger  *image.File
	blobs   blobs
	keys    keyring
	output  *image.Store
	options image.Options
	manager *image.Reconciler
}

func begin(t *testing.T) *lab {
	t.Helper()
	d := dockertest.Engine(t)
	d.Busybox(t)
	e, err := dockerapi.Open(dockerapi.Options{Socket: d.Socket()})
	l := &lab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e, blobs: blobs{}, keys: keyring{},
		owner: convert.Owner{Fleet: "acme", Host: "edge", Prefix: d.Namespace(t).Prefix}}
	l.must(err)
	t.Cleanup(func() { l.must(e.Close()) })
	l.ledger, err = image.Open(filepath.Join(t.TempDir(), "images"))
	l.must(err)
	l.output, err = image.OpenOutput(t.TempDir(), 0)
	l.must(err)
	l.options = image.Options{Engine: e, Owner: l.owner, Ledger: l.ledger, Content: l.blobs, Credentials: l.keys, Output: l.output}
	l.manager = image.New(l.options)
	return l
}

type row = dockertest.Row[image.Desired, image.Observed]

func want(i spec.Image) image.Desired { return image.Desired{Spec: i, Run: "r"} }

func (l *lab) row(i spec.Image) *row {
	return dockertest.New(l.manager, spec.KindImage, i.Name, want(i))
}

func (l *lab) must(err error) {
	l.Helper()
	testkit.Must(l, err)
}

func (l *lab) id(ref string) string {
	l.Helper()
	i, err := l.engine.ImageInspect(l.ctx, ref)
	if dockerapi.NotFound(err) {
		return ""
	}
	l.must(err)
	return i.ID
}

func (l *lab) quiet(r *row) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Finish(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

func (l *lab) log(name string) string {
	l.Helper()
	lines, err := l.output.Tail(name, 0)
	l.must(err)
	var out []string
	for _, x := range lines {
		out = append(out, x.Text)
	}
	return strings.Join(out, "\n")
}

// make builds an image from outside.
func (l *lab) make(ref, content string) string {
	l.Helper()
	tar := dockertest.BuildContext(l, map[string]string{"Dockerfile": "FROM scratch\nCOPY x /x\n", "x": content})
	id, err := l.engine.ImageBuild(l.ctx, tar, dockerapi.Build{Tags: []string{ref}}, nil)
	l.must(err)
	return id
}

func (l *lab) inline(name, dockerfile string) spec.Image {
	return spec.Image{Name: name, Build: &spec.Build{Inline: dockerfile, Labels: map[string]string{"test": l.owner.Prefix}}}
}

func (l *lab) ref(i spec.Image) string { return i.EngineRef(l.owner.Title) }

func TestBuildFromAContext(t *testing.T) { buildFromAContext(t, "") }

func TestBuildOfATarget(t *testing.T) { buildFromAContext(t, "one") }

func buildFromAContext(t *testing.T, target string) {
	l := begin(t)
	tar := dockertest.BuildContext(t, map[string]string{"docker/My.file": "ARG V\nFROM " + dockertest.BusyboxRef + " AS one\nRUN echo made in $V > /f\nFROM one AS two\nRUN cat /f\n", "docker/x": "y"})
	i := spec.Image{Name: "app", Ref: l.owner.Title("named") + ":1", Build: &spec.Build{Dockerfile: "docker/My.file", Args: map[string]string{"V": "test"}, Labels: map[string]string{"l": `a "b" \c $V 'd'`}, Target: target}}
	blob := l.blobs.add(tar.Bytes())
	i.Build.Context = &blob
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
	seen, err := l.engine.ImageInspect(l.ctx, l.ref(i))
	l.must(err)
	if seen.Config.Labels["l"] != `a "b" \c $V 'd'` || !l.owner.Owns(seen.Config.Labels, spec.KindImage, "app") || l.id(i.Ref) != seen.ID {
		t.Fatalf("not as declared: %+v", seen.Config.Labels)
	}
	l.quiet(r)
	r.Want(image.Desired{Spec: i, Run: "another"})
	l.quiet(r)
	if log := l.log("app"); !strings.Contains(log, " : RUN echo made in $V") || !strings.HasSuffix(log, "finished") {
		t.Fatalf("the log is:\n%s", log)
	}
}

func TestInlineBesideAContext(t *testing.T) {
	l := begin(t)
	blob := l.blobs.add(dockertest.BuildContext(t, map[string]string{"x": "content"}).Bytes())
	i := l.inline("app", "FROM scratch\nCOPY x /y\n")
	i.Build.Context = &blob
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
}

func TestDamagedContextIsNeverBuilt(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "")
	blob := l.blobs.add(dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM scratch\n"}).Bytes())
	l.blobs[blob.Digest] = append(bytes.Clone(l.blobs[blob.Digest][:blob.Size-1]), 'x')
	i.Build.Context = &blob
	before := l.engine.Calls().Writes
	x := l.row(i).Finish(t, l.ctx).Must(t, "error", "", "build")
	if !strings.Contains(x.Err.Error(), "damaged") || l.blobs[blob.Digest] != nil || l.engine.Calls().Writes != before {
		t.Fatalf("%v", x.Err)
	}
}

func TestFailedBuildIsRetried(t *testing.T) {
	l := begin(t)
	marker := l.owner.Title("base") + ":1"
	i := l.inline("app", "FROM "+marker+"\nRUN test -e /ok\n")
	l.make(marker, "no shell in it")
	r := l.row(i)
	if x := r.Finish(t, l.ctx).Must(t, "error", "", "build"); x.Err == nil {
		t.Fatal("no error")
	}
	if log := l.log("app"); !strings.Contains(log, "failed: ") {
		t.Fatalf("the log is:\n%s", log)
	}
	tar := dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM " + dockertest.BusyboxRef + "\nRUN touch /ok\n"})
	_, err := l.engine.ImageBuild(l.ctx, tar, dockerapi.Build{Tags: []string{marker}}, nil)
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
}

func TestBrokenDockerfileIsGivenUp(t *testing.T) {
	l := begin(t)
	x := l.row(l.inline("app", "FRM scratch\n")).Finish(t, l.ctx).Must(t, "error", "", "build")
	if !strings.Contains(x.Err.Error(), "FRM") {
		t.Fatalf("%v", x.Err)
	}
}

// A build is seen while it runs, and stopped by a newer declaration.
func TestCancelStopsARunningBuild(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM "+dockertest.BusyboxRef+"\nRUN echo begun; sleep 600\n")
	r := l.row(i)
	ctx, cancel := context.WithCancelCause(l.ctx)
	superseded := errors.New("superseded")
	done := make(chan error, 1)
	go func() { done <- l.manager.Act(ctx, r.Resource, image.Build{}) }()
	for after := int64(0); ; {
		lines, err := l.output.Next(l.ctx, "app", after)
		l.must(err)
		if len(lines) > 0 {
			after = lines[len(lines)-1].Seq
		}
		if strings.Contains(l.log("app"), "\nbegun") {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the build ended before its line came: %v\n%s", err, l.log("app"))
		default:
		}
	}
	cancel(superseded)
	if err := <-done; !errors.Is(err, superseded) {
		t.Fatalf("ended with %v", err)
	}
	d := want(i)
	d.Verb, d.Nonce = image.VerbCancel, "1"
	r.Want(d).Finish(t, l.ctx).Must(t, "wait", image.CodeCancelled)
	if l.id(l.ref(i)) != "" {
		t.Fatal("the image is there")
	}
}

func TestBuildTimeout(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM "+dockertest.BusyboxRef+"\nRUN sleep 600\n")
	i.Build.Timeout = 700
	x := l.row(i).Finish(t, l.ctx).Must(t, "error", "", "build")
	if !errors.Is(x.Err, image.ErrBuildTimeout) {
		t.Fatalf("%v", x.Err)
	}
}

func TestRebuildIsDoneOnce(t *testing.T) {
	l := begin(t)
	r := l.row(l.inline("app", "FROM scratch\nLABEL a=b\n"))
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
	d := r.Resource.Desired
	d.Verb, d.Nonce = image.VerbRebuild, "1"
	r.Want(d).Finish(t, l.ctx).Must(t, "converged", "", "build")
	l.quiet(r)
}

// Trap 12: only the ID tells that a tag was moved.
func TestTrap12_MovedTagIsSeen(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM "+dockertest.BusyboxRef+"\nLABEL a=b\n")
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
	mine := l.id(l.ref(i))
	other := l.make(l.owner.Title("other")+":1", "x")
	l.must(l.engine.ImageTag(l.ctx, mine, l.owner.Title("aside")+":1"))
	l.must(l.engine.ImageTag(l.ctx, other, l.ref(i)))
	r.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	if l.id(l.ref(i)) != mine {
		t.Fatal("the tag was not moved back")
	}
	// A container of it that became the tag has all the labels of it.
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("c"), Config: &container.Config{Image: mine, Cmd: []string{"true"}}})
	l.must(err)
	_, err = l.engine.ContainerCommit(l.ctx, c.ID, dockerapi.Commit{Ref: l.ref(i)})
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	_, err = l.engine.ImageRemove(l.ctx, l.ref(i))
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	l.quiet(r)
}

func TestLostLedgerBuildsNothingAgain(t *testing.T) {
	l := begin(t)
	i := l.inline("app", "FROM scratch\nLABEL a=b\n")
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
	var err error
	l.options.Ledger, err = image.Open(filepath.Join(t.TempDir(), "fresh"))
	l.must(err)
	l.manager = image.New(l.options)
	r := l.row(i)
	before := l.engine.Calls().Writes
	r.Finish(t, l.ctx).Must(t, "converged", "", "record")
	if l.engine.Calls().Writes != before {
		t.Fatal("the engine was changed")
	}
}

func TestPullWithCredentials(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.make(l.owner.Title("seed")+":1", "pulled")
	ref, _ := hub.Push(t, l.docker, l.owner.Title("seed")+":1", l.owner.Prefix+"app:1")
	_, err := l.engine.ImageRemove(l.ctx, l.owner.Title("seed")+":1")
	l.must(err)
	i := spec.Image{Name: "app", Ref: ref, Pull: &spec.Pull{}}
	x := l.row(i).Finish(t, l.ctx).Must(t, "error", "", "pull")
	if !strings.Contains(x.Err.Error(), "access denied") {
		t.Fatalf("without credentials: %v", x.Err)
	}
	bad := hub.Auth()
	bad.Password = "wrong"
	l.keys[hub.Addr] = bad
	if x := l.row(i).Finish(t, l.ctx).Must(t, "error", "", "pull"); !strings.Contains(x.Err.Error(), "credentials") || strings.Contains(x.Err.Error(), "wrong") {
		t.Fatalf("with a wrong password: %v", x.Err)
	}
	l.keys[hub.Addr] = hub.Auth()
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
	l.quiet(r)
	if log := l.log("app"); !strings.Contains(log, "Status: Downloaded newer image") && !strings.Contains(log, "Digest: ") || strings.Contains(log, hub.Password) {
		t.Fatalf("the log is:\n%s", log)
	}
	_, err = l.engine.ImageRemove(l.ctx, ref)
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
}

func TestPullPolicies(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	l.make(l.owner.Title("one")+":1", "1")
	ref, _ := hub.Push(t, l.docker, l.owner.Title("one")+":1", l.owner.Prefix+"app:1")
	always := spec.Image{Name: "app", Ref: ref, Pull: &spec.Pull{Policy: spec.PullAlways}}
	r := l.row(always)
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
	first := l.id(ref)
	l.make(l.owner.Title("two")+":1", "2")
	// The registry has another one now; the engine keeps what it had.
	l.must(l.engine.ImageTag(l.ctx, first, l.owner.Title("kept")+":1"))
	hub.Push(t, l.docker, l.owner.Title("two")+":1", l.owner.Prefix+"app:1")
	l.must(l.engine.ImageTag(l.ctx, first, ref))
	l.quiet(r)
	r.Want(image.Desired{Spec: always, Run: "next"}).Finish(t, l.ctx).Must(t, "converged", "", "pull")
	if l.id(ref) == first {
		t.Fatal("the newer one was not pulled")
	}
	never := spec.Image{Name: "never", Ref: l.owner.Title("brought") + ":1", Pull: &spec.Pull{Policy: spec.PullNever}}
	n := l.row(never)
	n.Finish(t, l.ctx).Must(t, "wait", image.CodeNeverPulled)
	l.make(never.Ref, "by hand")
	n.Finish(t, l.ctx).Must(t, "converged", "", "record")
	l.make(never.Ref, "by hand, newer")
	n.Finish(t, l.ctx).Must(t, "converged", "", "record")
	l.quiet(n)
}

func TestPrivateBaseImage(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	l.make(l.owner.Title("base")+":1", "base")
	ref, _ := hub.Push(t, l.docker, l.owner.Title("base")+":1", l.owner.Prefix+"base:1")
	i := l.inline("app", "ARG B="+ref+"\nFROM ${B}\nLABEL a=b\n")
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "build")
	if !strings.Contains(l.log("app"), "pull "+ref) {
		t.Fatalf("the log is:\n%s", l.log("app"))
	}
	l.quiet(r)
}

func TestBuildWithHostsAndSharedMemory(t *testing.T) {
	l := begin(t)
	i := l.inline("hosts", "FROM "+dockertest.BusyboxRef+"\nRUN grep -q '10.1.2.3.*db.example' /etc/hosts && df -k /dev/shm | grep -q ' 131072 '\n")
	i.Build.ExtraHosts, i.Build.ShmSize = []string{"db.example:10.1.2.3"}, 128<<20
	r := l.row(i)
	if r.Finish(t, l.ctx).Must(t, "converged", "", "build"); t.Failed() {
		t.Log(l.log("hosts"))
	}
	l.quiet(r)
}

// An image that is named by digest is that one, whatever its tag means in the
// registry or on the engine, and goes by that name again.
func TestPinnedImageIsNoOther(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	l.make(l.owner.Title("one")+":1", "1")
	ref, first := hub.Push(t, l.docker, l.owner.Title("one")+":1", l.owner.Prefix+"app:1")
	id := l.id(l.owner.Title("one") + ":1")
	_, err := l.engine.ImageRemove(l.ctx, l.owner.Title("one")+":1")
	l.must(err)
	other := l.make(l.owner.Title("two")+":1", "2")
	hub.Push(t, l.docker, l.owner.Title("two")+":1", l.owner.Prefix+"app:1")
	l.must(l.engine.ImageTag(l.ctx, other, ref)) // on this engine too

	i := spec.Image{Name: "app", Ref: ref + "@" + first, Pull: &spec.Pull{Policy: spec.PullNever}}
	never := l.row(i)
	never.Finish(t, l.ctx).Must(t, "wait", image.CodeNeverPulled)
	gone := spec.Image{Name: "gone", Ref: ref + "@sha256:" + strings.Repeat("0a", 32), Pull: &spec.Pull{}}
	if x := l.row(gone).Finish(t, l.ctx).Must(t, "error", "", "pull"); !strings.Contains(x.Err.Error(), "lock another") {
		t.Errorf("a digest that the registry has not: %v", x.Err)
	}
	i.Pull.Policy = ""
	r := l.row(i)
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
	l.quiet(r)
	if got := l.id(i.Ref); got != id || l.id(ref) != other {
		t.Fatalf("%s is %s, want %s; the tag is %s, want %s", i.Ref, got, id, l.id(ref), other)
	}
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("c"), Config: &container.Config{Image: i.Ref, Cmd: []string{"x"}}})
	l.must(err)
	list, err := l.engine.ContainerList(l.ctx, true)
	l.must(err)
	for _, x := range list {
		if x.ID == c.ID && (x.Image != i.Ref || x.ImageID != id) {
			t.Errorf("the container runs %s and is listed with %s", x.ImageID, x.Image)
		}
	}
	_, err = l.api.ContainerRemove(l.ctx, c.ID, client.ContainerRemoveOptions{})
	l.must(err)
	if l.collect(0, nothing); l.id(id) != "" || l.id(ref) != other {
		t.Errorf("collected: %s is still there, or the tag is %s, want %s", l.id(id), l.id(ref), other)
	}
	r.Finish(t, l.ctx).Must(t, "converged", "", "pull")
}

// TestStepsOfABuildHaveItsLimits asks the kernel from within a step.
func TestStepsOfABuildHaveItsLimits(t *testing.T) {
	l := begin(t)
	i := l.inline("limited", "FROM "+l.docker.Busybox(t)+"\nRUN for f in memory.max cpu.max memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us; do test ! -e /sys/fs/cgroup/$f || echo $f is $(cat /sys/fs/cgroup/$f); done\n")
	i.Build.NoCache, i.Build.Memory, i.Build.NanoCPUs = true, 64<<20, 5e8
	l.row(i).Finish(t, l.ctx).Must(t, "converged", "", "build")
	out := l.log("limited")
	if !strings.Contains(out, "67108864") || !strings.Contains(out, "is 50000") {
		t.Fatalf("the step saw\n%s", out)
	}
}

// A base image that the release names by digest is that one, wherever the
// Dockerfile stands and whatever its tag means.
func TestPinnedBaseImageIsNoOther(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	l := begin(t)
	hub := dockertest.Registry(t)
	l.keys[hub.Addr] = hub.Auth()
	bottom := func(ref string) string {
		i, err := l.engine.ImageInspect(l.ctx, ref)
		l.must(err)
		return i.RootFS.Layers[0]
	}
	l.make(l.owner.Title("one")+":1", "1")
	ref, first := hub.Push(t, l.docker, l.owner.Title("one")+":1", l.owner.Prefix+"base:1")
	want := bottom(l.owner.Title("one") + ":1")
	other := l.make(l.owner.Title("two")+":1", "2")
	hub.Push(t, l.docker, l.owner.Title("two")+":1", l.owner.Prefix+"base:1")
	l.must(l.engine.ImageTag(l.ctx, other, ref))
	text := "ARG B=" + ref + "\nFROM ${B} AS last\nCOPY --from=" + ref + " /x /y\n"
	inline := l.inline("inline", text)
	blob := l.blobs.add(dockertest.BuildContext(t, map[string]string{"Dockerfile": text}).Bytes())
	file := spec.Image{Name: "file", Build: &spec.Build{Context: &blob, Target: "last"}}
	for _, i := range []spec.Image{inline, file} {
		i.Build.Bases = map[string]string{ref: first}
		r := l.row(i)
		if r.Finish(t, l.ctx).Must(t, "converged", "", "build"); t.Failed() {
			t.Log(l.log(i.Name))
		}
		if got := bottom(l.ref(i)); got != want {
			t.Errorf("%s is built on %s, want %s", i.Name, got, want)
		}
		l.quiet(r)
	}
}
