package volume_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/managertest"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/internal/docker/volume"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

type lab struct {
	*testing.T
	ctx    context.Context
	docker *dockertest.Daemon
	api    *client.Client
	engine *daemon.Engine
	owner  ownership.Owner
	allow  bool
}

func begin(t *testing.T) *lab {
	t.Helper()
	d := dockertest.Engine(t)
	e, err := daemon.Open(daemon.Options{Socket: d.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e,
		owner: ownership.Owner{Fleet: "acme", Host: "edge", Prefix: d.Namespace(t).Prefix}}
}

type row = managertest.Row[volume.Desired, volume.Observed]

func (l *lab) row(v spec.Volume) *row {
	m := volume.New(volume.Options{Engine: l.engine, Owner: l.owner, AllowDelete: func() bool { return l.allow }})
	return managertest.New(m, spec.KindVolume, v.Name, volume.Desired{Spec: v, Run: "r"})
}

func (l *lab) quiet(r *row) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Settle(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) gone(name string) bool {
	l.Helper()
	_, err := l.engine.VolumeInspect(l.ctx, l.owner.Title(name))
	if err != nil && !daemon.NotFound(err) {
		l.Fatal(err)
	}
	return err != nil
}

func want(v spec.Volume) volume.Desired { return volume.Desired{Spec: v, Run: "r"} }

func tmpfs(size string) spec.Volume {
	return spec.Volume{Name: "data", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=" + size}, Labels: map[string]string{"a": "b"}}
}

func TestCreateAndKeepOnRetire(t *testing.T) {
	l := begin(t)
	r := l.row(tmpfs("1m"))
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	v, err := l.engine.VolumeInspect(l.ctx, l.owner.Title("data"))
	l.must(err)
	if v.Options["o"] != "size=1m" || v.Labels["a"] != "b" || v.Labels[ownership.LabelTitle] != v.Name {
		t.Fatalf("not as declared: %+v", v)
	}
	l.quiet(r)
	r.Retire().Settle(t, l.ctx).Must(t, "converged", volume.CodeKept)
	if l.gone("data") {
		t.Fatal("the data is gone")
	}
}

func TestRemovedByHandReportsTheLoss(t *testing.T) {
	l := begin(t)
	r := l.row(spec.Volume{Name: "data"})
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	l.must(l.engine.VolumeRemove(l.ctx, l.owner.Title("data")))
	o, err := r.Manager.Observe(l.ctx, r.Resource)
	l.must(err)
	d := r.Manager.Decide(engine.View[volume.Desired, volume.Observed]{Resource: r.Resource, Observed: o})
	if d.Reason().Code != volume.CodeRecreated || !strings.Contains(d.Reason().Words, "lost") {
		t.Fatalf("the loss is not reported: %s", d.Reason())
	}
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(r)
}

// Trap 18: creating a volume that exists changes nothing of it.
func TestTrap18_CreateDoesNotUpdate(t *testing.T) {
	l := begin(t)
	r := l.row(tmpfs("1m"))
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	x := r.Want(want(tmpfs("2m"))).Settle(t, l.ctx).Must(t, "wait", volume.CodeDiffers)
	if !strings.Contains(x.Reason.Words, "size=1m") || !strings.Contains(x.Reason.Words, "size=2m") {
		t.Fatalf("does not show both sides: %s", x.Reason.Words)
	}
	l.must(r.Manager.Act(l.ctx, r.Resource, volume.Create{})) // what an engine does of it
	r.Settle(t, l.ctx).Must(t, "wait", volume.CodeDiffers)
	relabelled := tmpfs("1m")
	relabelled.Labels = map[string]string{"a": "c"}
	r.Want(want(relabelled)).Settle(t, l.ctx).Must(t, "converged", volume.CodeLabels)
	r.Want(want(tmpfs("1m")))
	l.quiet(r)
}

func TestForeignVolumeIsLeftAlone(t *testing.T) {
	l := begin(t)
	theirs, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: l.owner.Title("data"), Labels: map[string]string{"x": "y"}})
	l.must(err)
	l.allow = true
	r := l.row(spec.Volume{Name: "data"})
	r.Settle(t, l.ctx).Must(t, "wait", volume.CodeNameTaken)
	r.Retire().Settle(t, l.ctx).Must(t, "converged", "")
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
	r.Settle(t, l.ctx).Must(t, "wait", volume.CodeExternalMissing)
	_, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: name})
	l.must(err)
	l.quiet(r)
	l.allow = true
	r.Retire().Settle(t, l.ctx).Must(t, "converged", "")
	if l.gone("shared") {
		t.Fatal("an external volume was removed")
	}
}

func TestS37AllowedRemovalWaitsForUsers(t *testing.T) {
	l := begin(t)
	l.allow = true
	r := l.row(spec.Volume{Name: "data"})
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title("app"),
		Config:     &container.Config{Image: l.docker.Busybox(t), Cmd: []string{"true"}},
		HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: l.owner.Title("data"), Target: "/data"}}}})
	l.must(err)
	x := r.Retire().Settle(t, l.ctx).Must(t, "wait", volume.CodeUsed)
	if !strings.Contains(x.Reason.Words, l.owner.Title("app")) {
		t.Fatalf("does not name the user: %s", x.Reason.Words)
	}
	_, err = l.api.ContainerRemove(l.ctx, c.ID, client.ContainerRemoveOptions{})
	l.must(err)
	r.Settle(t, l.ctx).Must(t, "converged", "", "remove")
	if !l.gone("data") {
		t.Fatal("it is still there")
	}
}

func TestS37OrphansAreOnlyThisHosts(t *testing.T) {
	l := begin(t)
	for _, name := range []string{"kept", "stray"} {
		l.row(spec.Volume{Name: name}).Settle(t, l.ctx).Must(t, "converged", "", "create")
	}
	copied := l.owner.Labels(spec.KindVolume, "copied", "another title")
	_, err := l.api.VolumeCreate(l.ctx, client.VolumeCreateOptions{Name: l.owner.Title("theirs"), Labels: copied})
	l.must(err)
	m := volume.New(volume.Options{Engine: l.engine, Owner: l.owner,
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
	r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(r)
	v.Labels = map[string]string{"password": "hunter3"}
	x := r.Want(want(v)).Settle(t, l.ctx).Must(t, "converged", volume.CodeLabels)
	if strings.Contains(x.Reason.Words, "hunter") {
		t.Fatalf("shown: %s", x.Reason.Words)
	}
}
