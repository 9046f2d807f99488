package network_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	api "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

type lab struct {
	*testing.T
	ctx     context.Context
	docker  *dockertest.Daemon
	api     *client.Client
	engine  *dockerapi.Engine
	owner   convert.Owner
	manager *network.Reconciler
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
	l := &lab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e,
		owner: convert.Owner{Fleet: "acme", Host: "edge", Prefix: d.Namespace(t).Prefix}}
	l.manager = network.New(network.Options{Engine: e, Owner: l.owner})
	return l
}

func (l *lab) row(n spec.Network) *dockertest.Row[network.Desired, network.Observed] {
	return dockertest.New(l.manager, spec.KindNetwork, n.Name, network.Desired{Spec: n, Run: "r"})
}

// quiet fails if a look and a decision write anything.
func (l *lab) quiet(r *dockertest.Row[network.Desired, network.Observed]) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Finish(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

func (l *lab) inspect(ref string) api.Inspect {
	l.Helper()
	r := testkit.Value(l.api.NetworkInspect(l.ctx, ref, client.NetworkInspectOptions{}))(l)
	return r.Network
}

func (l *lab) count(name string) int {
	l.Helper()
	list := testkit.Value(l.engine.NetworkList(l.ctx, name))(l)
	return len(list)
}

// run starts a container on a network: a workspace of this host, or a foreign one.
func (l *lab) run(name, net string, ours, start bool) string {
	l.Helper()
	labels := map[string]string{}
	if ours {
		labels = l.owner.Labels(spec.KindWorkspace, name, l.owner.Title(name))
	}
	c, err := l.api.ContainerCreate(l.ctx, client.ContainerCreateOptions{Name: l.owner.Title(name),
		Config:     &container.Config{Image: l.docker.Busybox(l), Cmd: []string{"sleep", "1000"}, Labels: labels},
		HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(net)}})
	testkit.Must(l, err)
	if start {
		testkit.Value(l.api.ContainerStart(l.ctx, c.ID, client.ContainerStartOptions{}))(l)
	}
	return c.ID
}

func (l *lab) text(id string) string {
	l.Helper()
	r := testkit.Value(l.api.ContainerInspect(l.ctx, id, client.ContainerInspectOptions{}))(l)
	out := testkit.Value(json.Marshal(r.Container))(l)
	return string(out)
}

func (l *lab) must(err error) {
	l.Helper()
	testkit.Must(l, err)
}

func full() spec.Network {
	return spec.Network{Name: "front", Internal: true, Labels: map[string]string{"team": "web"},
		Options: map[string]string{"com.docker.network.bridge.enable_icc": "true"},
		Pools:   []spec.Pool{{Subnet: "10.211.7.0/24", Gateway: "10.211.7.1", Range: "10.211.7.128/25", Aux: map[string]string{"router": "10.211.7.9"}}}}
}

// TestSeenTogether: one listing tells of networks that are as was declared when they
// were last observed alone, and of no other.
func TestSeenTogether(t *testing.T) {
	l := begin(t)
	front, back := l.row(full()), l.row(spec.Network{Name: "back"})
	for _, r := range []*dockertest.Row[network.Desired, network.Observed]{front, back} {
		r.Finish(t, l.ctx).Must(t, "converged", "", "create")
	}
	before := l.engine.Calls()
	all, err := l.manager.ObserveAll(l.ctx)
	l.must(err)
	if n := l.engine.Calls().Reads - before.Reads; n != 1 || len(all) != 2 {
		t.Fatalf("%d calls told of %d networks", n, len(all))
	}
	if d := l.manager.Decide(engine.View[network.Desired, network.Observed]{Resource: front.Resource, Observed: all[front.Resource.Ref]}); d.Name() != "converged" {
		t.Errorf("%s: %s", d.Name(), d.Reason())
	}
	other := full()
	other.Internal = false
	front.Want(network.Desired{Spec: other, Run: "r"})
	_, err = network.Reader{Reconciler: l.manager}.Observe(l.ctx, front.Resource) // a plan, which changes nothing
	l.must(err)
	_, err = l.api.NetworkRemove(l.ctx, l.owner.Title("back"), client.NetworkRemoveOptions{})
	l.must(err)
	all, err = l.manager.ObserveAll(l.ctx)
	l.must(err)
	if _, ok := all[back.Resource.Ref]; ok || len(all) != 1 {
		t.Errorf("seen after one was removed: %+v", all)
	}
	_, err = l.manager.Observe(l.ctx, front.Resource)
	l.must(err)
	if all, err = l.manager.ObserveAll(l.ctx); err != nil || len(all) != 0 {
		t.Errorf("one that differs is not looked at alone: %+v %v", all, err)
	}
}

func TestCreateCompareAndRetire(t *testing.T) {
	l := begin(t)
	row := l.row(full())
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	n := l.inspect(l.owner.Title("front"))
	if !n.Internal || n.Labels["team"] != "web" || n.Labels[convert.LabelOwner] != "acme/edge" || n.IPAM.Config[0].Subnet.String() != "10.211.7.0/24" || n.IPAM.Config[0].AuxAddress["router"].String() != "10.211.7.9" {
		t.Fatalf("not as declared: %+v", n)
	}
	l.quiet(row)
	changed := full()
	changed.Labels = map[string]string{"team": "edge"}
	row.Want(network.Desired{Spec: changed, Run: "r"})
	x := row.Finish(t, l.ctx).Must(t, "converged", "", "replace")
	_ = x
	if n := l.inspect(l.owner.Title("front")); n.Labels["team"] != "edge" {
		t.Fatalf("label is %q", n.Labels["team"])
	}
	l.quiet(row)
	row.Delete().Finish(t, l.ctx).Must(t, "converged", "", "remove")
	if l.count(l.owner.Title("front")) != 0 {
		t.Fatal("it is still there")
	}
}

func TestRemovedByHandIsMadeAgain(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	_, err := l.api.NetworkRemove(l.ctx, l.owner.Title("front"), client.NetworkRemoveOptions{})
	l.must(err)
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(row)
}

func TestReplaceTakesOwnContainersOff(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Internal: true}, Run: "r"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "replace")
	if !l.inspect(l.owner.Title("front")).Internal {
		t.Fatal("it was not replaced")
	}
	r, err := l.api.ContainerInspect(l.ctx, id, client.ContainerInspectOptions{})
	l.must(err)
	if !r.Container.State.Running || len(r.Container.NetworkSettings.Networks) != 0 {
		t.Fatalf("the workspace has to run, off the network: %+v", r.Container.NetworkSettings.Networks)
	}
}

func TestForeignContainerBlocksReplaceAndRetire(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	before := l.inspect(l.owner.Title("front")).ID
	id := l.run("theirs", l.owner.Title("front"), false, true)
	was := l.text(id)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Internal: true}, Run: "r"})
	x := row.Finish(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if !strings.Contains(x.Reason.Message, l.owner.Title("theirs")) {
		t.Fatalf("does not name the container: %s", x.Reason.Message)
	}
	row.Delete().Finish(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if l.inspect(before).ID != before || l.text(id) != was {
		t.Fatal("the foreign container or its network changed")
	}
}

func TestForeignNetworkIsLeftAlone(t *testing.T) {
	l := begin(t)
	theirs, err := l.api.NetworkCreate(l.ctx, l.owner.Title("front"), client.NetworkCreateOptions{})
	l.must(err)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "wait", network.CodeNameInUse)
	row.Delete().Finish(t, l.ctx).Must(t, "converged", "")
	l.inspect(theirs.ID)
	if l.count(l.owner.Title("front")) != 1 {
		t.Fatal("a second one was made")
	}
}

func TestExternal(t *testing.T) {
	l := begin(t)
	name := l.owner.Title("shared")
	row := l.row(spec.Network{Name: "shared", External: name})
	x := row.Finish(t, l.ctx).Must(t, "wait", network.CodeExternalMissing)
	if !strings.Contains(x.Reason.Message, "docker network create "+name) {
		t.Fatalf("names no next step: %s", x.Reason.Message)
	}
	_, err := l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{})
	l.must(err)
	l.quiet(row)
	_, err = l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{})
	l.must(err)
	row.Finish(t, l.ctx).Must(t, "wait", network.CodeAmbiguous)
	row.Delete().Finish(t, l.ctx).Must(t, "converged", "")
	if l.count(name) != 2 {
		t.Fatal("an external network was removed")
	}
}

// Trap 13: an engine removes a network that only containers at rest are on, and
// they cannot start afterwards.
func TestTrap13_StoppedContainersAreTakenOff(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	zero := 0
	_, err := l.api.ContainerStop(l.ctx, id, client.ContainerStopOptions{Timeout: &zero})
	l.must(err)
	row.Delete().Finish(t, l.ctx).Must(t, "converged", "", "remove")
	_, err = l.api.ContainerStart(l.ctx, id, client.ContainerStartOptions{})
	l.must(err) // it knows no network that is gone
}

func TestTrap13_ForeignStoppedContainerKeepsTheNetwork(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	for _, start := range []bool{true, false} { // one that ran, and one that never did
		name := "ran"
		if !start {
			name = "never"
		}
		id := l.run(name, l.owner.Title("front"), false, start)
		zero := 0
		_, err := l.api.ContainerStop(l.ctx, id, client.ContainerStopOptions{Timeout: &zero})
		l.must(err)
	}
	x := row.Delete().Finish(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if !strings.Contains(x.Reason.Message, "never") || !strings.Contains(x.Reason.Message, "ran") {
		t.Fatalf("does not name both: %s", x.Reason.Message)
	}
}

// Trap 17: an engine gives one name to two networks.
func TestTrap17_DuplicatesAreRemovedByID(t *testing.T) {
	l := begin(t)
	name := l.owner.Title("front")
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	first := l.inspect(name)
	second, err := l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{Labels: first.Labels})
	l.must(err)
	if l.count(name) != 2 {
		t.Fatal("this engine allows no duplicate names")
	}
	used := l.run("app", "bridge", true, true)
	_, err = l.api.NetworkConnect(l.ctx, second.ID, client.NetworkConnectOptions{Container: used})
	l.must(err)
	row.Finish(t, l.ctx).Must(t, "converged", "", "remove")
	if got := l.inspect(name).ID; got != second.ID {
		t.Fatalf("%s was kept, and %s is in use", got, second.ID)
	}
	if !strings.Contains(l.text(used), second.ID) {
		t.Fatal("the container in use was taken off")
	}
	l.quiet(row)
}

func TestTrap17_LostAnswerMakesNoSecond(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	for range 2 { // the same intent twice, as after a crash
		l.must(l.manager.Act(l.ctx, row.Resource, network.Create{}))
	}
	if n := l.count(l.owner.Title("front")); n != 1 {
		t.Fatalf("%d networks", n)
	}
}

func TestRenameRemovesTheOldOneWhenItIsFree(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Finish(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Title: "web"}, Run: "r"})
	row.Finish(t, l.ctx).Must(t, "converged", network.CodeLeft, "create")
	_, err := l.api.NetworkDisconnect(l.ctx, l.owner.Title("front"), client.NetworkDisconnectOptions{Container: id})
	l.must(err)
	row.Finish(t, l.ctx).Must(t, "converged", "", "remove")
	if l.count(l.owner.Title("front")) != 0 || l.count(l.owner.Title("web")) != 1 {
		t.Fatal("the wrong one was removed")
	}
}

// TestS35NothingWithoutANameIsLeftBehind: labels that name nothing were written by
// hand.
func TestS35NothingWithoutANameIsLeftBehind(t *testing.T) {
	l := begin(t)
	title := l.owner.Title("copied")
	_, err := l.api.NetworkCreate(l.ctx, title, client.NetworkCreateOptions{Labels: l.owner.Labels(spec.KindNetwork, "", title)})
	l.must(err)
	got, err := network.New(network.Options{Engine: l.engine, Owner: l.owner,
		Declared: func(context.Context) (map[string]bool, error) { return nil, nil }}).Orphans(l.ctx)
	l.must(err)
	if len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestOrphans(t *testing.T) {
	l := begin(t)
	l.row(spec.Network{Name: "kept"}).Finish(t, l.ctx).Must(t, "converged", "", "create")
	l.row(spec.Network{Name: "stray"}).Finish(t, l.ctx).Must(t, "converged", "", "create")
	m := network.New(network.Options{Engine: l.engine, Owner: l.owner,
		Declared: func(context.Context) (map[string]bool, error) { return map[string]bool{"kept": true}, nil }})
	refs, err := m.Orphans(l.ctx)
	l.must(err)
	if !slices.Equal(refs, []engine.Ref{{Kind: spec.KindNetwork, ID: "stray"}}) {
		t.Fatalf("orphans are %v", refs)
	}
}

func TestEngineAwayIsWaitedFor(t *testing.T) {
	d := dockertest.Private(t)
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(t)
	defer e.Close()
	m := network.New(network.Options{Engine: e, Owner: convert.Owner{Fleet: "acme", Host: "edge", Prefix: "away-"}})
	row := dockertest.New(m, spec.KindNetwork, "front", network.Desired{Spec: spec.Network{Name: "front"}, Run: "r"})
	d.Kill()
	x := row.Finish(t, t.Context()).Must(t, "error", "")
	if !strings.HasPrefix(x.Err.Error(), "blocked: engine-unavailable") {
		t.Fatalf("not waited for: %v", x.Err)
	}
}
