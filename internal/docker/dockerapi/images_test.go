package dockerapi_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestBuild(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	files := map[string]string{
		"sub/Dockerfile": "FROM " + f.d.Busybox(t) + " AS first\nARG WHO\nRUN echo hello $WHO; echo bad >&2\nCOPY data /data\nFROM first AS second\nRUN exit 3\n",
		"data":           "x",
	}
	who := "you"
	b := dockerapi.Build{Tags: []string{f.n.Name("built") + ":1"}, Dockerfile: "sub/Dockerfile", Target: "first",
		Args: map[string]*string{"WHO": &who}, Labels: map[string]string{"test": f.n.Prefix}, NoCache: true}
	var said strings.Builder
	id := testkit.Value(f.ImageBuild(ctx, dockertest.BuildContext(t, files), b, func(l dockerapi.Line) { said.WriteString(l.Stream) }))(t)
	if !strings.Contains(said.String(), "hello you\n") {
		t.Errorf("the output of the build: %s", said.String())
	}
	got := testkit.Value(f.ImageInspect(ctx, b.Tags[0]))(t)
	if got.ID != id || got.Config.Labels["test"] != f.n.Prefix {
		t.Errorf("built %s, tagged %s %v", id, got.ID, got.Config.Labels)
	}
	if list, err := f.ImageList(ctx, "test="+f.n.Prefix); err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("list: %v %v", list, err)
	}

	b.Target = "second"
	if _, err := f.ImageBuild(ctx, dockertest.BuildContext(t, files), b, nil); err == nil || dockerapi.Unknown(err) || !strings.Contains(err.Error(), "returned a non-zero code: 3") {
		t.Errorf("a step that fails: %v", err)
	}
	b.Dockerfile = "none"
	if _, err := f.ImageBuild(ctx, dockertest.BuildContext(t, files), b, nil); err == nil || dockerapi.Unknown(err) {
		t.Errorf("without a Dockerfile: %v", err)
	}
	testkit.Must(t, f.ImageTag(ctx, id, f.n.Name("other")+":1"))
	gone, err := f.ImageRemove(ctx, f.n.Name("other")+":1")
	if err != nil || len(gone) != 1 || gone[0].Untagged == "" {
		t.Errorf("remove a tag: %v %v", gone, err)
	}
}

func TestBuildIsCancelled(t *testing.T) {
	f := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM " + f.d.Busybox(t) + "\nLABEL test=" + f.n.Prefix + "\nRUN echo begun; sleep 1000\n"})
	_, err := f.ImageBuild(ctx, src, dockerapi.Build{}, func(l dockerapi.Line) {
		if strings.Contains(l.Stream, "begun\n") && !strings.Contains(l.Stream, "RUN") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !dockerapi.Unknown(err) || dockerapi.Unavailable(err) {
		t.Errorf("cancelled: %v", err)
	}
	testkit.Eventually(t, "the engine to remove the container of the step", func() bool {
		return len(testkit.Value(f.ContainerList(t.Context(), true, "test="+f.n.Prefix))(t)) == 0
	})
}

func TestSilentBuildEnds(t *testing.T) {
	f := setup(t)
	e := open(t, f.d.Socket(), dockerapi.Options{LongTimeout: 300 * time.Millisecond})
	testkit.Must(t, e.Alive(t.Context())) // else the version is asked for within that time
	src := dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM " + f.d.Busybox(t) + "\nLABEL test=" + f.n.Prefix + "\nRUN sleep 1000\n"})
	_, err := e.ImageBuild(t.Context(), src, dockerapi.Build{}, nil)
	if !dockerapi.Unknown(err) || dockerapi.Unavailable(err) || !strings.Contains(err.Error(), "no progress for 300ms") {
		t.Errorf("got %v", err)
	}
}

func TestPullWithCredentials(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	f := setup(t)
	ctx := t.Context()
	h := dockertest.Registry(t)
	ref, digest := h.Push(t, f.d, f.d.Busybox(t), f.n.Name("box")+":1")
	good, bad := h.Auth(), h.Auth()
	bad.Password = "wrong"
	for name, auth := range map[string]*registry.AuthConfig{"none": nil, "bad": &bad} {
		if err := f.ImagePull(ctx, dockerapi.Pull{Ref: ref, Auth: auth}, nil); !dockerapi.Denied(err) || dockerapi.Unknown(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.ImagePull(ctx, dockerapi.Pull{Ref: h.Ref("none:1"), Auth: &good}, nil); !dockerapi.NotFound(err) {
		t.Errorf("an image that does not exist: %v", err)
	}
	var lines int
	testkit.Must(t, f.ImagePull(ctx, dockerapi.Pull{Ref: ref, Auth: &good}, func(dockerapi.Line) { lines++ }))
	if lines == 0 {
		t.Error("no progress heard")
	}
	pinned := strings.TrimSuffix(ref, ":1") + "@" + digest
	testkit.Must(t, f.ImagePull(ctx, dockerapi.Pull{Ref: pinned, Auth: &good, Platform: "linux/amd64"}, nil))
	if _, err := f.ImageInspect(ctx, pinned); err != nil {
		t.Error(err)
	}
	private := dockertest.BuildContext(t, map[string]string{"Dockerfile": "FROM " + ref + "\nLABEL test=" + f.n.Prefix + "\n"})
	testkit.Value(f.ImageBuild(ctx, private, dockerapi.Build{Pull: true, Tags: []string{f.n.Name("from")}, Auth: map[string]registry.AuthConfig{h.Addr: good}}, nil))(t)
	unreachable := dockerapi.Pull{Ref: testkit.FreeAddr(t) + "/box:1"}
	if err := f.ImagePull(ctx, unreachable, nil); err == nil || dockerapi.Unavailable(err) || dockerapi.Refused(err) {
		t.Errorf("a registry that is down: %v", err)
	}
}

func TestLoad(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	ref := f.n.Name("saved") + ":1"
	testkit.Must(t, f.ImageTag(ctx, f.d.Busybox(t), ref))
	r := testkit.Value(f.d.Client().ImageSave(ctx, []string{ref}))(t)
	defer r.Close()
	var buf bytes.Buffer
	testkit.Value(buf.ReadFrom(r))(t)
	testkit.Value(f.ImageRemove(ctx, ref))(t)
	var said strings.Builder
	testkit.Must(t, f.ImageLoad(ctx, &buf, func(l dockerapi.Line) { said.WriteString(l.Stream) }))
	if _, err := f.ImageInspect(ctx, ref); err != nil || !strings.Contains(said.String(), ref) {
		t.Errorf("loaded: %v %q", err, said.String())
	}
	if err := f.ImageLoad(ctx, strings.NewReader("no tar"), nil); err == nil {
		t.Error("loaded what is no tar")
	}
}

func TestPlatformIsChecked(t *testing.T) {
	f := setup(t)
	c := dockerapi.Creation{Name: f.n.Name("p"), Config: &container.Config{Image: f.d.Busybox(t), Cmd: []string{"true"}}, Platform: "linux"}
	if _, _, err := f.ContainerCreate(t.Context(), c); !dockerapi.Refused(err) || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("got %v", err)
	}
	c.Platform = "linux/amd64"
	_, _, err := f.ContainerCreate(t.Context(), c)
	testkit.Must(t, err)
}
