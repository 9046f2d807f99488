package storage_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
)

type snapshotLab struct {
	*testing.T
	ctx     context.Context
	docker  *dockertest.Daemon
	api     *client.Client
	engine  *dockerapi.Engine
	owner   convert.Owner
	secrets storage.Secrets
	settled bool
	states  []bool
	options storage.SnapshotOptions
	manager *storage.Snapshots
}

func beginSnapshots(t *testing.T) *snapshotLab {
	t.Helper()
	d := dockertest.Engine(t)
	e, err := dockerapi.Open(dockerapi.Options{Socket: d.Socket()})
	prefix := d.Namespace(t).Prefix
	l := &snapshotLab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e, settled: true,
		owner: convert.Owner{Fleet: "acme", Host: prefix + "host", Prefix: prefix}}
	l.must(err)
	t.Cleanup(func() { l.must(e.Close()) })
	book, err := image.Open(filepath.Join(t.TempDir(), "images"))
	l.must(err)
	l.options = storage.SnapshotOptions{Engine: e, Owner: l.owner, Ledger: book,
		Running:      l.running,
		Deployed:     func(string) bool { return l.settled },
		Secrets:      func(string) (storage.Secrets, bool) { return l.secrets, true },
		Snapshotting: func(_ string, on bool) { l.states = append(l.states, on) }}
	l.manager = storage.NewSnapshots(l.options)
	return l
}

func (l *snapshotLab) must(err error) {
	l.Helper()
	testkit.Must(l, err)
}

type snapshotRow = dockertest.Row[storage.DesiredSnapshot, storage.SnapshotObserved]

func (l *snapshotLab) row(s spec.Snapshot) *snapshotRow {
	return dockertest.New(l.manager, spec.KindSnapshot, s.Name, storage.DesiredSnapshot{Spec: s, Run: "r"})
}

func (l *snapshotLab) quiet(r *snapshotRow) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Finish(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

// workspace runs a container of this host.
func (l *snapshotLab) workspace(name string, env []string, cmd ...string) string {
	l.Helper()
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title(name), Config: &container.Config{
		Image: l.docker.Busybox(l), Cmd: cmd, Env: env,
		Labels: l.owner.Labels(spec.KindWorkspace, name, l.owner.Title(name))}})
	l.must(err)
	_, err = l.api.ContainerStart(l.ctx, c.ID, client.ContainerStartOptions{})
	l.must(err)
	return c.ID
}

// unknown is the ledger of an agent that made none of the containers.
type unknown struct{ workspace.Ledger }

func (unknown) Baseline(context.Context, string) ([]byte, bool, error) { return nil, false, nil }

// running finds a workspace as its reconciler does.
func (l *snapshotLab) running(ctx context.Context, name string) (string, error) {
	c, err := workspace.New(workspace.Options{Engine: l.engine, Owner: l.owner, Ledger: unknown{}}).Find(ctx, name)
	if err != nil || c == nil || c.State != container.StateRunning {
		return "", err
	}
	return c.ID, nil
}

// raw is what the engine says of an image, with fields that clients leave out.
func (l *snapshotLab) raw(ref string) string {
	l.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.docker.Socket())
	}}}
	r, err := c.Get("http://engine/v1.41/images/" + ref + "/json")
	l.must(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	l.must(err)
	return string(text)
}

// archive is the image as it would leave the host.
func (l *snapshotLab) archive(ref string) string {
	l.Helper()
	r, err := l.api.ImageSave(l.ctx, []string{ref})
	l.must(err)
	defer r.Close()
	text, err := io.ReadAll(r)
	l.must(err)
	return string(text)
}

var busy = []string{"sh", "-c", "echo kept > /data; touch /done; sleep 1000"}

func (l *snapshotLab) ready(id string) {
	l.Helper()
	for {
		if _, err := l.api.ContainerStatPath(l.ctx, id, client.ContainerStatPathOptions{Path: "/done"}); err == nil {
			return
		}
		if l.ctx.Err() != nil {
			l.Fatal("the workspace did not begin")
		}
	}
}

// Trap 19: a commit copies labels and secrets of the container into the image.
func TestTrap19_SnapshotIsScrubbedAndRestored(t *testing.T) {
	l := beginSnapshots(t)
	l.secrets.Env = []string{"DB"}
	env := []string{"DB=s3cret-of-the-store", "API_TOKEN=t0ken-by-its-name", "URL=http://u:pa55word@x/", "PLAIN=kept", "KEEP_TOKEN=kept-by-name"}
	id := l.workspace("app", env, busy...)
	l.ready(id)
	s := spec.Snapshot{Name: "snap", Workspace: "app", Take: 1, Keep: []string{"KEEP_TOKEN"}}
	r := l.row(s)
	r.Finish(t, l.ctx).Must(t, "converged", "", "take")
	l.quiet(r)
	ref := s.EngineRef(l.owner.Title)
	for what, text := range map[string]string{"what the engine shows": l.raw(ref), "the archive": l.archive(ref)} {
		for _, secret := range []string{"s3cret-of-the-store", "t0ken-by-its-name", "pa55word"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", what, secret)
			}
		}
		if !strings.Contains(text, "PLAIN=kept") || !strings.Contains(text, "KEEP_TOKEN=kept-by-name") {
			t.Errorf("%s lacks what is kept", what)
		}
	}
	seen, err := l.engine.ImageInspect(l.ctx, ref)
	l.must(err)
	if l.owner.Owns(seen.Config.Labels, spec.KindWorkspace, "app") || seen.Config.Labels[convert.LabelOwner] != "" {
		t.Fatalf("the image has the workspace's labels: %v", seen.Config.Labels)
	}
	if !slices.Equal(l.states, []bool{true, false}) {
		t.Fatalf("the workspace was told %v", l.states)
	}
	images, err := l.engine.ImageList(l.ctx, "io.steady.snapshot.name=snap", "io.steady.snapshot.owner="+l.owner.ID())
	l.must(err)
	for _, i := range images {
		if len(i.RepoTags) == 0 {
			t.Errorf("image %s was left behind", i.ID)
		}
	}
	// Restored: the same files and command, in a container that is nobody's.
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("restored"), Config: &container.Config{Image: ref, Cmd: []string{"grep", "kept", "/data"}}})
	l.must(err)
	_, err = l.api.ContainerStart(l.ctx, c.ID, client.ContainerStartOptions{})
	l.must(err)
	w := l.api.ContainerWait(l.ctx, c.ID, client.ContainerWaitOptions{})
	select {
	case end := <-w.Result:
		if end.StatusCode != 0 {
			t.Fatalf("ended with %d", end.StatusCode)
		}
	case err := <-w.Error:
		t.Fatal(err)
	}
	again, err := l.api.ContainerInspect(l.ctx, id, client.ContainerInspectOptions{})
	l.must(err)
	if !again.Container.State.Running || again.Container.State.Paused {
		t.Fatal("the workspace does not run any more")
	}
}

func TestOneForEachTake(t *testing.T) {
	l := beginSnapshots(t)
	l.ready(l.workspace("app", nil, busy...))
	s := spec.Snapshot{Name: "snap", Workspace: "app", Take: 1, Live: true}
	r := l.row(s)
	r.Finish(t, l.ctx).Must(t, "converged", "", "take")
	ref := s.EngineRef(l.owner.Title)
	first, err := l.engine.ImageInspect(l.ctx, ref)
	l.must(err)
	s.Take = 2
	r.Want(storage.DesiredSnapshot{Spec: s, Run: "r"}).Finish(t, l.ctx).Must(t, "converged", "", "take")
	second, err := l.engine.ImageInspect(l.ctx, ref)
	l.must(err)
	if first.ID == second.ID {
		t.Fatal("the second take is the first")
	}
	l.quiet(r)
	l.must(l.engine.ImageTag(l.ctx, l.docker.Busybox(t), ref))
	r.Finish(t, l.ctx).Must(t, "converged", "", "tag")
	_, err = l.engine.ImageRemove(l.ctx, ref)
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeLost)
}

func TestWaitsForTheWorkspace(t *testing.T) {
	l := beginSnapshots(t)
	l.settled = false
	r := l.row(spec.Snapshot{Name: "snap", Workspace: "app"})
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeSettling)
	l.settled = true
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeNotRunning)
	id := l.workspace("app", nil, "sleep", "1000")
	r.Finish(t, l.ctx).Must(t, "converged", "", "take")
	zero := 0
	_, err := l.api.ContainerStop(l.ctx, id, client.ContainerStopOptions{Timeout: &zero})
	l.must(err)
	l.quiet(r)
	r.Delete().Finish(t, l.ctx).Must(t, "converged", storage.CodeLeft)
}

// TestASilentEngineIsNoFailureOfASnapshot: an engine that does not say how full its
// disk is is waited for like one that says nothing.
func TestASilentEngineIsNoFailureOfASnapshot(t *testing.T) {
	l := beginSnapshots(t)
	e, err := dockerapi.Open(dockerapi.Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
	l.must(err)
	t.Cleanup(func() { l.must(e.Close()) })
	l.options.Space = image.NewGuard(func(ctx context.Context) (disk.Space, error) {
		_, err := e.Info(ctx)
		return disk.Space{}, err
	}, nil)
	l.manager = storage.NewSnapshots(l.options)
	x := l.row(spec.Snapshot{Name: "snap", Workspace: "app"}).Finish(t, l.ctx).Must(t, "error", "")
	if !strings.HasPrefix(x.Err.Error(), "blocked: engine-unavailable") {
		t.Fatalf("not waited for: %v", x.Err)
	}
}

func TestASecretElsewhereFailsAndLeavesNothing(t *testing.T) {
	l := beginSnapshots(t)
	l.secrets.Env = []string{"DB"}
	l.workspace("app", []string{"DB=s3cret-value"}, "sh", "-c", "sleep 1000; echo s3cret-value")
	s := spec.Snapshot{Name: "snap", Workspace: "app"}
	x := l.row(s).Finish(t, l.ctx).Must(t, "error", "", "take")
	if !strings.Contains(x.Err.Error(), "the value of a secret, in another setting") {
		t.Fatalf("%v", x.Err)
	}
	images, err := l.engine.ImageList(l.ctx, "io.steady.snapshot.name=snap")
	l.must(err)
	for _, i := range images {
		if strings.Contains(l.raw(i.ID), l.owner.Prefix) {
			t.Fatalf("image %s was left behind", i.ID)
		}
	}
	if _, err := l.engine.ImageInspect(l.ctx, s.EngineRef(l.owner.Title)); !dockerapi.NotFound(err) {
		t.Fatalf("it got its name: %v", err)
	}
}

func TestASecretFileInTheContainerIsRefused(t *testing.T) {
	l := beginSnapshots(t)
	l.secrets.Files = []string{"/run/key"}
	l.workspace("app", nil, "sleep", "1000")
	before := l.engine.Calls().Writes
	x := l.row(spec.Snapshot{Name: "snap", Workspace: "app"}).Finish(t, l.ctx).Must(t, "error", "", "take")
	if !strings.Contains(x.Err.Error(), "/run/key") || l.engine.Calls().Writes != before {
		t.Fatalf("%v", x.Err)
	}
}

func TestForeignImageKeepsItsName(t *testing.T) {
	l := beginSnapshots(t)
	l.workspace("app", nil, "sleep", "1000")
	s := spec.Snapshot{Name: "snap", Workspace: "app", Ref: l.owner.Title("theirs") + ":1"}
	l.must(l.engine.ImageTag(l.ctx, l.docker.Busybox(t), s.Ref))
	l.row(s).Finish(t, l.ctx).Must(t, "wait", storage.CodeImageNameInUse)
}

func TestNobodyTakesAContainerRunByHandFromACommit(t *testing.T) {
	l := beginSnapshots(t)
	id := l.workspace("app", nil, "sleep", "1000")
	_, err := l.engine.ContainerCommit(l.ctx, id, dockerapi.Commit{Ref: l.owner.Title("copy") + ":1"}) // with every label
	l.must(err)
	_, err = l.api.ContainerRemove(l.ctx, id, client.ContainerRemoveOptions{Force: true})
	l.must(err)
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("by-hand"), Config: &container.Config{Image: l.owner.Title("copy") + ":1"}})
	l.must(err)
	_, err = l.api.ContainerStart(l.ctx, c.ID, client.ContainerStartOptions{})
	l.must(err)
	l.row(spec.Snapshot{Name: "snap", Workspace: "app"}).Finish(t, l.ctx).Must(t, "wait", storage.CodeNotRunning)
}

func TestWhatACutOffTakeLeftIsRemoved(t *testing.T) {
	l := beginSnapshots(t)
	id := l.workspace("app", []string{"API_TOKEN=t0ken"}, "sleep", "1000")
	r := l.row(spec.Snapshot{Name: "snap", Workspace: "app"})
	commit := func(comment string) string {
		left, err := l.engine.ContainerCommit(l.ctx, id, dockerapi.Commit{Comment: comment, Changes: []string{
			"LABEL io.steady.snapshot.owner=" + l.owner.ID(), "LABEL io.steady.snapshot.name=snap", "LABEL test=" + l.owner.Prefix}})
		l.must(err)
		return left
	}
	theirs := commit("made by hand from a snapshot")
	left := commit("snapshot snap of app")
	r.Finish(t, l.ctx).Must(t, "converged", "", "sweep", "take")
	l.quiet(r)
	if _, err := l.engine.ImageInspect(l.ctx, left); !dockerapi.NotFound(err) {
		t.Fatalf("it is still there: %v", err)
	}
	testkit.Value(l.engine.ImageInspect(l.ctx, theirs))(t)
	commit("snapshot snap of app")
	r.Delete().Finish(t, l.ctx).Must(t, "converged", storage.CodeLeft, "sweep")
}
