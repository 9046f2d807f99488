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

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/managertest"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

type lab struct {
	*testing.T
	ctx     context.Context
	docker  *dockertest.Daemon
	api     *client.Client
	engine  *daemon.Engine
	owner   ownership.Owner
	manager *network.Manager
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
	l := &lab{T: t, ctx: t.Context(), docker: d, api: d.Client(), engine: e,
		owner: ownership.Owner{Fleet: "acme", Host: "edge", Prefix: d.Namespace(t).Prefix}}
	l.manager = network.New(network.Options{Engine: e, Owner: l.owner})
	return l
}

func (l *lab) row(n spec.Network) *managertest.Row[network.Desired, network.Observed] {
	return managertest.New(l.manager, spec.KindNetwork, n.Name, network.Desired{Spec: n, Run: "r"})
}

// quiet fails if a look and a decision write anything.
func (l *lab) quiet(r *managertest.Row[network.Desired, network.Observed]) {
	l.Helper()
	before := l.engine.Calls().Writes
	r.Settle(l, l.ctx).Must(l, "converged", "")
	if n := l.engine.Calls().Writes - before; n != 0 {
		l.Fatalf("a second cycle made %d writes", n)
	}
}

func (l *lab) inspect(ref string) api.Inspect {
	l.Helper()
	r, err := l.api.NetworkInspect(l.ctx, ref, client.NetworkInspectOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return r.Network
}

func (l *lab) count(name string) int {
	l.Helper()
	list, err := l.engine.NetworkList(l.ctx, name)
	if err != nil {
		l.Fatal(err)
	}
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
	if err != nil {
		l.Fatal(err)
	}
	if start {
		if _, err := l.api.ContainerStart(l.ctx, c.ID, client.ContainerStartOptions{}); err != nil {
			l.Fatal(err)
		}
	}
	return c.ID
}

func (l *lab) text(id string) string {
	l.Helper()
	r, err := l.api.ContainerInspect(l.ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		l.Fatal(err)
	}
	out, err := json.Marshal(r.Container)
	if err != nil {
		l.Fatal(err)
	}
	return string(out)
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func full() spec.Network {
	return spec.Network{Name: "front", Internal: true, Labels: map[string]string{"team": "web"},
		Options: map[string]string{"com.docker.network.bridge.enable_icc": "true"},
		Pools:   []spec.Pool{{Subnet: "10.211.7.0/24", Gateway: "10.211.7.1", Range: "10.211.7.128/25", Aux: map[string]string{"router": "10.211.7.9"}}}}
}

// TestSeenTogether: one listing tells of networks that are as declared, at the
// generation that was looked at last, and of no other.
func TestSeenTogether(t *testing.T) {
	l := begin(t)
	front, back := l.row(full()), l.row(spec.Network{Name: "back"})
	for _, r := range []*managertest.Row[network.Desired, network.Observed]{front, back} {
		r.Settle(t, l.ctx).Must(t, "converged", "", "create")
	}
	before := l.engine.Calls()
	all, err := l.manager.ObserveAll(l.ctx)
	l.must(err)
	if n := l.engine.Calls().Reads - before.Reads; n != 1 || len(all) != 2 {
		t.Fatalf("%d calls told of %d networks", n, len(all))
	}
	decide := func() engine.Decision {
		return l.manager.Decide(engine.View[network.Desired, network.Observed]{Resource: front.Resource, Observed: all[front.Resource.Ref], Now: 5})
	}
	if d := decide(); d.Name() != "converged" {
		t.Errorf("%s: %s", d.Name(), d.Reason())
	}
	other := full()
	other.Internal = false
	front.Want(network.Desired{Spec: other, Run: "r"})
	if d := decide(); d.Reason().Code != network.CodeStale {
		t.Errorf("what was compared with an older declaration decides: %s (%s)", d.Name(), d.Reason())
	}
	_, err = network.Reader{Manager: l.manager}.Observe(l.ctx, front.Resource) // a plan, which changes nothing
	l.must(err)
	_, err = l.api.NetworkRemove(l.ctx, l.owner.Title("back"), client.NetworkRemoveOptions{})
	l.must(err)
	all, err = l.manager.ObserveAll(l.ctx)
	l.must(err)
	if _, ok := all[back.Resource.Ref]; ok || all[front.Resource.Ref].Generation != 1 {
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
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	n := l.inspect(l.owner.Title("front"))
	if !n.Internal || n.Labels["team"] != "web" || n.Labels[ownership.LabelOwner] != "acme/edge" || n.IPAM.Config[0].Subnet.String() != "10.211.7.0/24" || n.IPAM.Config[0].AuxAddress["router"].String() != "10.211.7.9" {
		t.Fatalf("not as declared: %+v", n)
	}
	l.quiet(row)
	changed := full()
	changed.Labels = map[string]string{"team": "edge"}
	row.Want(network.Desired{Spec: changed, Run: "r"})
	x := row.Settle(t, l.ctx).Must(t, "converged", "", "replace")
	_ = x
	if n := l.inspect(l.owner.Title("front")); n.Labels["team"] != "edge" {
		t.Fatalf("label is %q", n.Labels["team"])
	}
	l.quiet(row)
	row.Retire().Settle(t, l.ctx).Must(t, "converged", "", "remove")
	if l.count(l.owner.Title("front")) != 0 {
		t.Fatal("it is still there")
	}
}

func TestRemovedByHandIsMadeAgain(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	_, err := l.api.NetworkRemove(l.ctx, l.owner.Title("front"), client.NetworkRemoveOptions{})
	l.must(err)
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	l.quiet(row)
}

func TestReplaceTakesOwnContainersOff(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Internal: true}, Run: "r"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "replace")
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
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	before := l.inspect(l.owner.Title("front")).ID
	id := l.run("theirs", l.owner.Title("front"), false, true)
	was := l.text(id)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Internal: true}, Run: "r"})
	x := row.Settle(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if !strings.Contains(x.Reason.Words, l.owner.Title("theirs")) {
		t.Fatalf("does not name the container: %s", x.Reason.Words)
	}
	row.Retire().Settle(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if l.inspect(before).ID != before || l.text(id) != was {
		t.Fatal("the foreign container or its network changed")
	}
}

func TestForeignNetworkIsLeftAlone(t *testing.T) {
	l := begin(t)
	theirs, err := l.api.NetworkCreate(l.ctx, l.owner.Title("front"), client.NetworkCreateOptions{})
	l.must(err)
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "wait", network.CodeNameTaken)
	row.Retire().Settle(t, l.ctx).Must(t, "converged", "")
	l.inspect(theirs.ID)
	if l.count(l.owner.Title("front")) != 1 {
		t.Fatal("a second one was made")
	}
}

func TestExternal(t *testing.T) {
	l := begin(t)
	name := l.owner.Title("shared")
	row := l.row(spec.Network{Name: "shared", External: name})
	x := row.Settle(t, l.ctx).Must(t, "wait", network.CodeExternalMissing)
	if !strings.Contains(x.Reason.Words, "docker network create "+name) {
		t.Fatalf("names no next step: %s", x.Reason.Words)
	}
	_, err := l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{})
	l.must(err)
	l.quiet(row)
	_, err = l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{})
	l.must(err)
	row.Settle(t, l.ctx).Must(t, "wait", network.CodeAmbiguous)
	row.Retire().Settle(t, l.ctx).Must(t, "converged", "")
	if l.count(name) != 2 {
		t.Fatal("an external network was removed")
	}
}

// Trap 13: an engine removes a network that only containers at rest are on, and
// they cannot start afterwards.
func TestTrap13_StoppedContainersAreTakenOff(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	zero := 0
	_, err := l.api.ContainerStop(l.ctx, id, client.ContainerStopOptions{Timeout: &zero})
	l.must(err)
	row.Retire().Settle(t, l.ctx).Must(t, "converged", "", "remove")
	_, err = l.api.ContainerStart(l.ctx, id, client.ContainerStartOptions{})
	l.must(err) // it knows no network that is gone
}

func TestTrap13_ForeignStoppedContainerKeepsTheNetwork(t *testing.T) {
	l := begin(t)
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
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
	x := row.Retire().Settle(t, l.ctx).Must(t, "wait", network.CodeForeignMembers)
	if !strings.Contains(x.Reason.Words, "never") || !strings.Contains(x.Reason.Words, "ran") {
		t.Fatalf("does not name both: %s", x.Reason.Words)
	}
}

// Trap 17: an engine gives one name to two networks.
func TestTrap17_DuplicatesAreRemovedByID(t *testing.T) {
	l := begin(t)
	name := l.owner.Title("front")
	row := l.row(spec.Network{Name: "front"})
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	first := l.inspect(name)
	second, err := l.api.NetworkCreate(l.ctx, name, client.NetworkCreateOptions{Labels: first.Labels})
	l.must(err)
	if l.count(name) != 2 {
		t.Fatal("this engine allows no duplicate names")
	}
	used := l.run("app", "bridge", true, true)
	_, err = l.api.NetworkConnect(l.ctx, second.ID, client.NetworkConnectOptions{Container: used})
	l.must(err)
	row.Settle(t, l.ctx).Must(t, "converged", "", "remove")
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
	row.Settle(t, l.ctx).Must(t, "converged", "", "create")
	id := l.run("app", l.owner.Title("front"), true, true)
	row.Want(network.Desired{Spec: spec.Network{Name: "front", Title: "web"}, Run: "r"})
	row.Settle(t, l.ctx).Must(t, "converged", network.CodeLeft, "create")
	_, err := l.api.NetworkDisconnect(l.ctx, l.owner.Title("front"), client.NetworkDisconnectOptions{Container: id})
	l.must(err)
	row.Settle(t, l.ctx).Must(t, "converged", "", "remove")
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
	l.row(spec.Network{Name: "kept"}).Settle(t, l.ctx).Must(t, "converged", "", "create")
	l.row(spec.Network{Name: "stray"}).Settle(t, l.ctx).Must(t, "converged", "", "create")
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
	e, err := daemon.Open(daemon.Options{Socket: d.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := network.New(network.Options{Engine: e, Owner: ownership.Owner{Fleet: "acme", Host: "edge", Prefix: "away-"}})
	row := managertest.New(m, spec.KindNetwork, "front", network.Desired{Spec: spec.Network{Name: "front"}, Run: "r"})
	d.Kill()
	x := row.Settle(t, t.Context()).Must(t, "error", "")
	if !strings.HasPrefix(x.Err.Error(), "blocked: engine_unavailable") {
		t.Fatalf("not waited for: %v", x.Err)
	}
}
