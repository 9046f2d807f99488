package convert_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// reconnections are what differs of networks: first disconnect off by name and by force,
// then connect on.
func reconnections(ds []diff.Difference, d *spec.Deployment, in convert.Inputs, c *container.InspectResponse) (off []string, on []convert.Endpoint, err error) {
	changed := map[string]bool{}
	for _, x := range ds {
		if rest, found := strings.CutPrefix(x.Field, "network/"); found && x.Class == diff.InPlace {
			title, _, _ := strings.Cut(rest, "/")
			changed[title] = true
		}
	}
	all, err := convert.Endpoints(d, in)
	for _, e := range all {
		if changed[e.Network] {
			on = append(on, e)
		}
	}
	for title := range c.NetworkSettings.Networks {
		if changed[title] {
			off = append(off, title)
		}
	}
	return off, on, err
}

// cure applies what can be changed in place.
func (w *world) cure(ctx context.Context, s spec.Workspace, id string, ds []diff.Difference) error {
	d, in := w.deployment(s), w.inputs(s)
	r, err := w.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	off, on, err := reconnections(ds, d, in, &r.Container)
	if err != nil {
		return err
	}
	for _, n := range off {
		if _, err := w.api.NetworkDisconnect(ctx, n, client.NetworkDisconnectOptions{Container: id, Force: true}); err != nil {
			return err
		}
	}
	for _, e := range on {
		if _, err := w.api.NetworkConnect(ctx, e.ID, client.NetworkConnectOptions{Container: id, EndpointConfig: e.Settings}); err != nil {
			return err
		}
	}
	for _, x := range ds {
		if x.Field == "name" {
			if _, err := w.api.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: x.Desired}); err != nil {
				return err
			}
		}
	}
	c := convert.Update(ds, d, in)
	if c.Resources == nil && c.Restart == nil {
		return nil
	}
	_, err = w.api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: c.Resources, RestartPolicy: c.Restart})
	return err
}

// TestS36InPlaceCures: when all that differs between two specs can be changed in
// place, the engine does it, and nothing differs afterwards.
func TestS36InPlaceCures(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		base := workspace()
		value := func(label string) spec.Workspace {
			s, drawn := base, dockertest.Workspace(base.Name, named).Draw(rt, label)
			s.Networks, s.Restart = drawn.Networks, drawn.Restart
			l := &s.Limits
			l.Memory, l.MemorySwap = rapid.Int64Range(16<<20, 64<<20).Draw(rt, "memory")&^4095, rapid.SampledFrom([]int64{0, -1, 128 << 20}).Draw(rt, "swap")
			l.NanoCPUs = rapid.SampledFrom([]int64{100_000_000, 900_000_000}).Draw(rt, "cpus")
			l.CPUShares = rapid.Int64Range(2, 4000).Draw(rt, "shares")
			l.PIDs = drawn.Limits.PIDs
			if len(s.Networks) == 0 { // the mode cannot change in place
				s.Networks = []spec.Attachment{{Network: "far"}}
			}
			return s
		}
		s, next := value("spec"), value("next spec")
		id, err := w.try(t.Context(), s)
		if id != "" {
			defer func() {
				_, _ = w.api.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true})
			}()
		}
		testkit.Must(rt, err)
		compare := func(s spec.Workspace) []diff.Difference {
			ds := testkit.Value(convert.Compare(w.deployment(s), w.inputs(s), w.inspect(t, id), nil, w.rules()))(rt)
			return ds
		}
		ds := compare(next)
		if slices.ContainsFunc(ds, func(d diff.Difference) bool { return d.Class != diff.InPlace }) {
			rt.Fatalf("not in place: %v", ds)
		}
		testkit.Must(rt, w.cure(t.Context(), next, id, ds))
		for _, d := range compare(next) {
			rt.Errorf("after the cure: %s", d.Show())
		}
	})
}

func TestInPlaceWhileItRuns(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Networks = []spec.Attachment{{Network: "back", Aliases: []string{"db"}, IPv4: "10.77.2.60"}, {Network: "front", Aliases: []string{"web"}}}
	id := w.create(t, s)
	w.start(t, id)
	rec := w.record(t, s, id)
	back, front := "network/"+w.n.Name("back"), "network/"+w.n.Name("front")
	step := func(name string, want classes, cause diff.Cause) {
		t.Helper()
		ds := w.compare(t, s, id, rec)
		wantFields(t, ds, want)
		for _, d := range ds {
			if d.Cause != cause {
				t.Errorf("%s: %s", name, d.Show())
			}
		}
		if err := w.cure(t.Context(), s, id, ds); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rec = w.record(t, s, id)
		same(t, name+", no baseline", w.compare(t, s, id, nil))
	}
	outside := func(f func() error) {
		t.Helper()
		w.ok(f())
	}
	outside(func() error {
		_, err := w.api.NetworkDisconnect(t.Context(), w.n.Name("back"), client.NetworkDisconnectOptions{Container: id})
		return err
	})
	own := "/alias/" + s.Name
	step("disconnected", classes{back: diff.InPlace, back + own: diff.InPlace, back + "/alias/db": diff.InPlace, back + "/ipv4": diff.InPlace}, diff.Outside)
	outside(func() error { // trap 14: connected again, as one does by hand
		if _, err := w.api.NetworkDisconnect(t.Context(), w.n.Name("front"), client.NetworkDisconnectOptions{Container: id}); err != nil {
			return err
		}
		_, err := w.api.NetworkConnect(t.Context(), w.n.Name("front"), client.NetworkConnectOptions{Container: id})
		return err
	})
	step("aliases lost", classes{front + own: diff.InPlace, front + "/alias/web": diff.InPlace}, diff.Outside)
	outside(func() error {
		_, err := w.api.NetworkConnect(t.Context(), w.n.Name("far"), client.NetworkConnectOptions{Container: id})
		return err
	})
	step("one more", classes{"network/" + w.n.Name("far"): diff.InPlace}, diff.Outside)
	outside(func() error {
		_, err := w.api.ContainerRename(t.Context(), id, client.ContainerRenameOptions{NewName: w.n.Name("stolen")})
		return err
	})
	step("renamed", classes{"name": diff.InPlace}, diff.Outside)
	s.Networks = []spec.Attachment{{Network: "front", Aliases: []string{"web", "www"}}}
	step("declared", classes{back: diff.InPlace, back + own: diff.InPlace, back + "/alias/db": diff.InPlace, back + "/ipv4": diff.InPlace, front + "/alias/www": diff.InPlace}, diff.Declared)
}

func TestTheEnginesOwnBridgeIsHeld(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	id := w.create(t, s)
	w.start(t, id)
	rec := w.record(t, s, id)
	for _, n := range []struct {
		name string
		do   func() error
		want classes
	}{
		{"off", func() error {
			_, err := w.api.NetworkDisconnect(t.Context(), "bridge", client.NetworkDisconnectOptions{Container: id})
			return err
		}, classes{"network/bridge": diff.InPlace}},
		{"one more", func() error {
			_, err := w.api.NetworkConnect(t.Context(), w.n.Name("far"), client.NetworkConnectOptions{Container: id})
			return err
		}, classes{"network/" + w.n.Name("far"): diff.InPlace}},
	} {
		w.ok(n.do())
		ds := w.compare(t, s, id, rec)
		wantFields(t, ds, n.want)
		w.ok(w.cure(t.Context(), s, id, ds))
		same(t, n.name, w.compare(t, s, id, rec))
	}
}

func TestTrap13_ANetworkOfTheSameNameIsAnotherOne(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	w.network("renewed", "")
	t.Cleanup(func() {
		_, err := w.api.NetworkRemove(context.Background(), w.n.Name("renewed"), client.NetworkRemoveOptions{})
		w.ok(err)
	})
	s.Networks = []spec.Attachment{{Network: "renewed", Aliases: []string{"x"}}}
	id := w.create(t, s)
	w.start(t, id)
	w.stop(t, id)
	rec := w.record(t, s, id)
	renewed := w.n.Name("renewed")
	_, err := w.api.NetworkRemove(t.Context(), renewed, client.NetworkRemoveOptions{})
	w.ok(err)
	made, err := w.api.NetworkCreate(t.Context(), renewed, client.NetworkCreateOptions{})
	w.ok(err)
	w.networks[renewed] = made.ID
	ds := w.compare(t, s, id, rec)
	wantFields(t, ds, classes{"network/" + renewed: diff.InPlace})
	if _, err := w.api.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err == nil {
		t.Error("it starts on a network that is gone")
	}
	w.ok(w.cure(t.Context(), s, id, ds))
	w.start(t, id)
	same(t, "on the new one", w.compare(t, s, id, nil))
}
