package storage_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

type lab struct {
	*testing.T
	ctx    context.Context
	docker *dockertest.Daemon
	api    *client.Client
	engine *dockerapi.Engine
	owner  convert.Owner
	allow  bool
}

func begin(t *testing.T) *lab {
	t.Helper()
	d := dockertest.Engine(t)
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e,
		owner: convert.Owner{Fleet: "acme", Host: "edge", Prefix: d.Namespace(t).Prefix}}
}

type row = dockertest.Row[storage.DesiredVolume, storage.VolumeObserved]

func (l *lab) row(v spec.Volume) *row {
	m := storage.NewVolumes(storage.VolumeOptions{Engine: l.engine, Owner: l.owner, AllowDelete: func() bool { return l.allow }})
	return dockertest.New(m, spec.KindVolume, v.Name, storage.DesiredVolume{Spec: v, Run: "r"})
}

func (l *lab) quiet(r *row) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Finish(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

func (l *lab) must(err error) {
	l.Helper()
	testkit.Must(l, err)
}

func (l *lab) gone(name string) bool {
	l.Helper()
	_, err := l.engine.VolumeInspect(l.ctx, l.owner.Title(name))
	if err != nil && !dockerapi.NotFound(err) {
		l.Fatal(err)
	}
	return err != nil
}

func want(v spec.Volume) storage.DesiredVolume { return storage.DesiredVolume{Spec: v, Run: "r"} }

func tmpfs(size string) spec.Volume {
	return spec.Volume{Name: "data", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=" + size}, Labels: map[string]string{"a": "b"}}
}

func TestCreateAndKeepOnRetire(t *testing.T) {
	l := begin(t)
	r := l.row(tmpfs("1m"))
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	v, err := l.engine.VolumeInspect(l.ctx, l.owner.Title("data"))
	l.must(err)
	if v.Options["o"] != "size=1m" || v.Labels["a"] != "b" || v.Labels[convert.LabelTitle] != v.Name {
		t.Fatalf("not as declared: %+v", v)
	}
	l.quiet(r)
	r.Delete().Finish(t, l.ctx).Must(t, "converged", storage.CodeKept)
	if l.gone("data") {
		t.Fatal("the data is gone")
	}
}

func TestRemovedByHandReportsTheLoss(t *testing.T) {
	l := begin(t)
	r := l.row(spec.Volume{Name: "data"})
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	l.must(l.engine.VolumeRemove(l.ctx, l.owner.Title("data")))
	o, err := r.Manager.Observe(l.ctx, r.Resource)
	l.must(err)
	d := r.Manager.Decide(engine.View[storage.DesiredVolume, storage.VolumeObserved]{Resource: r.Resource, Observed: o})
	if d.Reason().Code != storage.CodeRecreated || !strings.Contains(d.Reason().Message, "lost") {
		t.Fatalf("the loss is not reported: %s", d.Reason())
	}
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(r)
}

// Trap 18: creating a volume that exists changes nothing of it.
func TestTrap18_CreateDoesNotUpdate(t *testing.T) {
	l := begin(t)
	r := l.row(tmpfs("1m"))
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	x := r.Want(want(tmpfs("2m"))).Finish(t, l.ctx).Must(t, "wait", storage.CodeDiffers)
	if !strings.Contains(x.Reason.Message, "size=1m") || !strings.Contains(x.Reason.Message, "size=2m") {
		t.Fatalf("does not show both sides: %s", x.Reason.Message)
	}
	l.must(r.Manager.Act(l.ctx, r.Resource, storage.Create{})) // what an engine does of it
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeDiffers)
	relabelled := tmpfs("1m")
	relabelled.Labels = map[string]string{"a": "c"}
	r.Want(want(relabelled)).Finish(t, l.ctx).Must(t, "converged", storage.CodeLabels)
	r.Want(want(tmpfs("1m")))
	l.quiet(r)
}

func TestForeignVolumeIsLeftAlone(t *testing.T) {
	l := begin(t)
	theirs, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: l.owner.Title("data"), Labels: map[string]string{"x": "y"}})
	l.must(err)
	l.allow = true
	r := l.row(spec.Volume{Name: "data"})
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeNameInUse)
	r.Delete().Finish(t, l.ctx).Must(t, "converged", "")
	now, err := l.engine.VolumeInspect(l.ctx, l.owner.Title("data"))
	l.must(err)
	if now.CreatedAt != theirs.Volume.CreatedAt || len(now.Labels) != 1 {
		t.Fatalf("it changed: %+v", now)
	}
}

func TestExternal(t *testing.T) {
	l := begin(t)
	name := l.owner.Title("shared")
	r := l.row(spec.Volume{Name: "shared", External: name})
	r.Finish(t, l.ctx).Must(t, "wait", storage.CodeExternalMissing)
	_, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: name})
	l.must(err)
	l.quiet(r)
	l.allow = true
	r.Delete().Finish(t, l.ctx).Must(t, "converged", "")
	if l.gone("shared") {
		t.Fatal("an external volume was removed")
	}
}

func TestS37AllowedRemovalWaitsForUsers(t *testing.T) {
	l := begin(t)
	l.allow = true
	r := l.row(spec.Volume{Name: "data"})
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("app"),
		Config:     &container.Config{Image: l.docker.Busybox(t), Cmd: []string{"true"}},
		HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: l.owner.Title("data"), Target: "/data"}}}})
	l.must(err)
	x := r.Delete().Finish(t, l.ctx).Must(t, "wait", storage.CodeUsed)
	if !strings.Contains(x.Reason.Message, l.owner.Title("app")) {
		t.Fatalf("does not name the user: %s", x.Reason.Message)
	}
	_, err = l.api.ContainerRemove(l.ctx, c.ID, client.ContainerRemoveOptions{})
	l.must(err)
	r.Finish(t, l.ctx).Must(t, "converged", "", "remove")
	if !l.gone("data") {
		t.Fatal("it is still there")
	}
}

func TestS37OrphansAreOnlyThisHosts(t *testing.T) {
	l := begin(t)
	for _, name := range []string{"kept", "stray"} {
		l.row(spec.Volume{Name: name}).Finish(t, l.ctx).Must(t, "converged", "", "create")
	}
	copied := l.owner.Labels(spec.KindVolume, "copied", "another title")
	_, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: l.owner.Title("theirs"), Labels: copied})
	l.must(err)
	m := storage.NewVolumes(storage.VolumeOptions{Engine: l.engine, Owner: l.owner,
		Declared: func(context.Context) (map[string]bool, error) { return map[string]bool{"kept": true}, nil }})
	refs, err := m.Orphans(l.ctx)
	l.must(err)
	refs = slices.DeleteFunc(refs, func(r engine.Ref) bool { return r.ID != "kept" && r.ID != "stray" && r.ID != "copied" })
	if !slices.Equal(refs, []engine.Ref{{Kind: spec.KindVolume, ID: "stray"}}) {
		t.Fatalf("orphans are %v", refs)
	}
}

func TestAChangedPasswordIsSeenAndNotShown(t *testing.T) {
	l := begin(t)
	v := spec.Volume{Name: "data", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}, Labels: map[string]string{"password": "hunter2"}}
	r := l.row(v)
	r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(r)
	v.Labels = map[string]string{"password": "hunter3"}
	x := r.Want(want(v)).Finish(t, l.ctx).Must(t, "converged", storage.CodeLabels)
	if strings.Contains(x.Reason.Message, "hunter") {
		t.Fatalf("shown: %s", x.Reason.Message)
	}
}
