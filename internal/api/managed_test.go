package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

const delegating = ", managed: [volume, workspace], allow: [disable, exec, logs, settings]"

func resource(s string) operator.SetResource {
	return operator.SetResource{Spec: json.RawMessage(s), Reason: "a test"}
}

// status is that of a refusal; 0 is none.
func status(err error) int {
	var e *operator.Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// news polls once with a count of news, without waiting.
func (a *agent) news(n uint64, wait int) *wire.Dispatch {
	a.w.t.Helper()
	return a.newsUntil(a.w.ctx(), n, wait)
}

// newsUntil is news, and nil when ctx ends first.
func (a *agent) newsUntil(ctx context.Context, n uint64, wait int) *wire.Dispatch {
	a.w.t.Helper()
	status, raw, err := a.call(ctx, "GET", fmt.Sprintf("%s?wait=%d&news=%d", wire.RouteDispatch, wait, n), nil)
	if ctx.Err() != nil || err == nil && status == http.StatusNoContent {
		return nil
	}
	testkit.Must(a.w.t, err)
	if status != 200 {
		a.w.t.Fatalf("dispatch: %d", status)
	}
	d := new(wire.Dispatch)
	testkit.Must(a.w.t, wire.Decode(raw, d))
	return d
}

func (a *agent) beat() wire.HeartbeatReply {
	a.w.t.Helper()
	var r wire.HeartbeatReply
	if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation, LastSeq: a.chain.Seq}, &r); status != 200 {
		a.w.t.Fatalf("heartbeat: %d", status)
	}
	return r
}

func (a *agent) layer() (m wire.Managed) {
	a.w.t.Helper()
	if status := a.do("GET", wire.RouteManaged, nil, &m); status != 200 {
		a.w.t.Fatalf("managed: %d", status)
	}
	return m
}

// settled is a host that has taken its release, so that no grant is open.
func settled(w *world, p plan) *agent {
	w.t.Helper()
	w.release("r1", p)
	a := enrolled(w, hostName(0))
	stop := runAgents(w.t, a)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	return a
}

// What an operator sets wakes the host's long-poll and reaches it whole.
func TestManagedLayerReachesItsHost(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	if d := a.news(0, 0); d != nil {
		t.Fatalf("news of nothing: %+v", d)
	}
	if r := a.beat(); r.Managed != 0 || r.Settings != nil {
		t.Fatalf("a host that nothing was set of is told %+v", r)
	}
	woken := make(chan *wire.Dispatch, 1)
	go func() { woken <- a.news(0, 30) }()
	w.until("the long-poll", func() bool { return true })
	ch := testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "workspace", "web", resource(`{"image":"app","env":[{"name":"B"},{"name":"A","value":"1"}]}`)))(t)
	if !ch.Changed || ch.Version != 1 {
		t.Errorf("set: %+v", ch)
	}
	d := <-woken
	if d == nil || d.Grant != "" || d.News != 1 || len(d.Streams) != 0 {
		t.Fatalf("the long-poll was answered %+v", d)
	}
	if d := a.news(1, 0); d != nil {
		t.Errorf("old news: %+v", d)
	}
	if r := a.beat(); r.Managed != 1 {
		t.Errorf("the heartbeat says version %d", r.Managed)
	}
	m := a.layer()
	if m.Version != 1 || len(m.Entries) != 1 || m.Entries[0].Name != "web" || m.Entries[0].Kind != "workspace" || !strings.HasPrefix(m.Entries[0].Actor, "admin") ||
		!strings.Contains(string(m.Entries[0].Spec), `"env":[{"name":"A","value":"1"},{"name":"B"}]`) {
		t.Errorf("the layer is %+v", m)
	}
	ch, err := w.op.SetResource(w.ctx(), "h-0000", "workspace", "web", resource(`{"image":"app","env":[{"name":"A","value":"1"},{"name":"B"}]}`))
	if err != nil || ch.Changed || ch.Version != 1 {
		t.Errorf("the same again: %+v, %v", ch, err)
	}
	ch, err = w.op.Request(w.ctx(), "h-0000", "workspace", "web", "redeploy", "stuck")
	testkit.Must(t, err)
	if m := a.layer(); ch.Nonce == "" || m.Entries[0].Verb != "redeploy" || m.Entries[0].Nonce != ch.Nonce || m.Version != 2 {
		t.Errorf("asked: %+v, layer %+v", ch, m)
	}
	got, err := w.op.ManagedResource(w.ctx(), "h-0000", "workspace", "web")
	if err != nil || got.Verb != "redeploy" || got.Reason != "a test" || got.SetAt == 0 || got.Signed {
		t.Errorf("shown as %+v, %v", got, err)
	}
	testkit.Must(t, w.op.RemoveResource(w.ctx(), "h-0000", "workspace", "web", "gone", false))
	if m := a.layer(); m.Version != 3 || len(m.Entries) != 0 {
		t.Errorf("after removal: %+v", m)
	}
	if _, err := w.op.ManagedResource(w.ctx(), "h-0000", "workspace", "web"); status(err) != 404 {
		t.Errorf("it is still shown: %v", err)
	}
	types := w.types("h-0000")
	if count(types, "managed.set") != 1 || count(types, "managed.requested") != 1 || count(types, "managed.removed") != 1 {
		t.Errorf("events %v", types)
	}
}

func TestManagedLayerIsServedOnceByETag(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	get := func(tag string) (int, string) {
		req := testkit.Value(http.NewRequestWithContext(w.ctx(), "GET", w.url()+wire.RouteManaged, nil))(t)
		req.Header.Set(wire.Protocol, wire.Version)
		req.Header.Set("If-None-Match", tag)
		res := testkit.Value(a.http.Do(req))(t)
		testkit.Must(t, res.Body.Close())
		return res.StatusCode, res.Header.Get("ETag")
	}
	first, tag := get("")
	if again, _ := get(tag); first != 200 || again != 304 || tag == "" {
		t.Errorf("answers %d and %d, tag %q", first, again, tag)
	}
	testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "volume", "v", resource(`{}`)))(t)
	if after, next := get(tag); after != 200 || next == tag {
		t.Errorf("after a change: %d", after)
	}
}

func TestManagedRefusals(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one", host: delegating})
	set := func(host, kind, name, s string) error {
		_, err := w.op.SetResource(w.ctx(), host, kind, name, resource(s))
		return err
	}
	for _, c := range []struct {
		what   string
		err    error
		status int
		words  string
	}{
		{"a kind that is not delegated", set("h-0000", "network", "n", `{}`), 403, "managed: [network, volume, workspace]"},
		{"an unknown host", set("nobody", "volume", "v", `{}`), 404, "not declared"},
		{"an unknown kind", set("h-0000", "pod", "v", `{}`), 422, "expected value to be one of"},
		{"an unknown field", set("h-0000", "volume", "v", `{"x":1}`), 422, `"x"`},
		{"a name with a path", set("h-0000", "volume", "a/../b", `{}`), 422, "name"},
		{"a verb on nothing", func() error { _, err := w.op.Request(w.ctx(), "h-0000", "workspace", "web", "stop", "x"); return err }(), 404, "has no workspace/web"},
		{"an unknown verb", func() error { _, err := w.op.Request(w.ctx(), "h-0000", "workspace", "web", "dance", "x"); return err }(), 422, "expected value to be one of"},
		{"nothing to remove", w.op.RemoveResource(w.ctx(), "h-0000", "volume", "v", "x", false), 404, "has no volume/v"},
	} {
		if status(c.err) != c.status || !strings.Contains(c.err.Error(), c.words) {
			t.Errorf("%s: %v, expected %d with %q", c.what, c.err, c.status, c.words)
		}
	}
	for i := range 3 {
		testkit.Must(t, set("h-0000", "volume", fmt.Sprint("v", i), `{}`))
	}
	testkit.Must(t, w.op.RemoveResource(w.ctx(), "h-0000", "volume", "v0", "x", false))
	if err := w.op.RemoveResource(w.ctx(), "h-0000", "volume", "v1", "x", false); status(err) != 409 || !strings.Contains(err.Error(), "2 of 3") {
		t.Errorf("a second of three at once: %v", err)
	}
	testkit.Must(t, w.op.RemoveResource(w.ctx(), "h-0000", "volume", "v1", "x", true))
	w.release("r2", plan{hosts: 1, content: "one"})
	if err := set("h-0000", "volume", "v", `{}`); status(err) != 403 || !strings.Contains(err.Error(), "managed: [volume]") {
		t.Errorf("what a newer release took back: %v", err)
	}
	testkit.Must(t, w.op.RemoveResource(w.ctx(), "h-0000", "volume", "v2", "x", true))
}

func TestSettingsReachTheirHost(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: ", allow: [settings]"})
	no, pulls, fast := false, 4, 10*clock.Second
	if _, err := w.op.Tune(w.ctx(), "h-0000", operator.SettingsPatch{Enabled: &no, Reason: "x"}); status(err) != 403 || !strings.Contains(err.Error(), "allow: [disable, settings]") {
		t.Errorf("disabled without leave: %v", err)
	}
	bad := clock.Second
	if _, err := w.op.Tune(w.ctx(), "h-0000", operator.SettingsPatch{HeartbeatInterval: &bad, Reason: "x"}); status(err) != 422 {
		t.Errorf("out of bounds: %v", err)
	}
	testkit.Value(w.op.Tune(w.ctx(), "h-0000", operator.SettingsPatch{HeartbeatInterval: &fast, Reason: "x"}))(t)
	s := testkit.Value(w.op.Tune(w.ctx(), "h-0000", operator.SettingsPatch{Pulls: &pulls, GPUMetrics: &no, Reason: "x"}))(t)
	want := operator.HostSettings{HeartbeatInterval: fast, Pools: fleet.Pools{Pulls: 4}, Metrics: fleet.MetricsChoice{GPU: &no}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if d := a.news(0, 0); d == nil || d.News != 2 {
		t.Errorf("news %+v", d)
	}
	r := a.beat()
	if r.Interval != fast || r.Settings == nil || r.Settings.Version != 2 || r.Settings.Pools.Pulls != 4 || *r.Settings.Metrics.GPU {
		t.Errorf("the heartbeat says %+v", r)
	}
}

func TestResourcesShowBothLayers(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "volume", "data", resource(`{}`)))(t)
	a.append(event.ResourceReported{Resource: "volume/data", State: "Ready", Layer: event.LayerManaged})
	a.append(event.ResourceReported{Resource: "workspace/old", State: "Stopping", Message: "on its way out", Layer: event.LayerBundle})
	testkit.Must(t, a.send())
	got := testkit.Value(w.op.Resources(w.ctx(), "h-0000"))(t)
	if len(got.Resources) != 3 || got.Version != 1 || !got.Delegation.Allows(fleet.AllowExec) {
		t.Fatalf("resources %+v", got)
	}
	content, data, old := got.Resources[0], got.Resources[1], got.Resources[2]
	if content.Kind != "file" || !content.Declared || content.Layer != event.LayerBundle {
		t.Errorf("of the bundle that runs: %+v", content)
	}
	if data.State != "Ready" || !data.Declared || data.Layer != event.LayerManaged || data.Since == 0 || old.Declared || old.Message != "on its way out" {
		t.Errorf("resources %+v", got.Resources)
	}
	if _, err := w.op.Resources(w.ctx(), "nobody"); status(err) != 404 {
		t.Errorf("of an unknown host: %v", err)
	}
}

// What a host has made of a bundle that it does not run yet is the next bundle's, files too.
func TestResourcesOfTheNextBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	a := enrolled(w, hostName(0))
	list := func() operator.Resource {
		t.Helper()
		got := testkit.Value(w.op.Resources(w.ctx(), hostName(0)))(t)
		if len(got.Resources) != 1 || got.Resources[0].Kind != "file" {
			t.Fatalf("resources %+v", got.Resources)
		}
		return got.Resources[0]
	}
	file := list()
	if !file.Next || file.Declared {
		t.Errorf("before anything runs: %+v", file)
	}
	a.append(event.ResourceReported{Resource: "file/" + file.Name, State: "Ready", Layer: event.LayerBundle})
	testkit.Must(t, a.send())
	if file := list(); !file.Next || file.Declared || file.State != "Ready" {
		t.Errorf("while it is activated: %+v", file)
	}
	stop := runAgents(t, a)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	if file := list(); file.Next || !file.Declared || file.State != "Ready" {
		t.Errorf("once it runs: %+v", file)
	}
}

// The layer is the same after a clean stop, from the snapshot, and after the
// process was killed, from the log.
func TestManagedLayerOutlivesTheServer(t *testing.T) {
	t.Parallel()
	w := newKeys(t)
	testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
	use := func(url string, ca []byte) {
		secret := testkit.Value(os.ReadFile(filepath.Join(w.dir, "server", "admin.token")))(t)
		w.op = testkit.Value(operator.NewClient(operator.Options{URL: url, Token: strings.TrimSpace(string(secret)), ServerCA: ca}))(t)
		t.Cleanup(w.op.Close)
	}
	w.spawn()
	use(w.child.url, w.child.ca)
	w.release("r1", plan{hosts: 1, content: "one", host: delegating})
	testkit.Value(w.op.SetResource(w.ctx(), "h-0000", "volume", "v", resource(`{}`)))(t)
	pulls := 2
	testkit.Value(w.op.Tune(w.ctx(), "h-0000", operator.SettingsPatch{Pulls: &pulls, Reason: "x"}))(t)
	before := testkit.Value(w.op.Resources(w.ctx(), "h-0000"))(t)
	w.child.kill()
	w.child = nil
	w.opts = api.Options{DataDir: filepath.Join(w.dir, "server"), Listen: "127.0.0.1:0"}
	for _, how := range []string{"the log", "the snapshot"} {
		w.start()
		after := testkit.Value(w.op.Resources(w.ctx(), "h-0000"))(t)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("from %s: %s", how, diff)
		}
		a := enrolled(w, "h-0000")
		if m := a.layer(); len(m.Entries) != 1 || m.Entries[0].Name != "v" {
			t.Errorf("from %s the host gets %+v", how, m)
		}
		if d := a.news(0, 0); d == nil || d.News != 2 {
			t.Errorf("from %s the news are %+v", how, d)
		}
		w.halt()
	}
}

func TestHeartbeatMetrics(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one"})
	sample := json.RawMessage(`{"host":{"cpuCount":4,"cpuPermille":250,"memTotalBytes":1000,"memAvailableBytes":400},"gpus":[{"uuid":"x"}],"workspaces":[{"name":"web","cpuPermille":500,"memBytes":70}]}`)
	m := wire.Heartbeat{Incarnation: 1, AgentVersion: "v9", Runtimes: []string{"runc"}, Engine: &wire.Engine{Version: "20.10", API: "1.41"}, Metrics: sample}
	if status := a.do("POST", wire.RouteHeartbeat, m, nil); status != 200 {
		t.Fatalf("heartbeat: %d", status)
	}
	got := testkit.Value(w.op.HostMetrics(w.ctx(), "h-0000"))(t)
	if got.AgentVersion != "v9" || got.At == 0 || got.Engine.API != "1.41" || string(got.Metrics) != string(sample) {
		t.Errorf("metrics %+v %s", got, got.Metrics)
	}
	if l := got.History; len(l) != 1 || l[0].At == 0 || l[0].CPU == nil || *l[0].CPU != 250 || l[0].Memory == nil || *l[0].Memory != 600 {
		t.Errorf("the last hour is %+v", l)
	}
	secret := testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)
	_, text := w.request(strings.TrimSpace(string(secret)), "GET", operator.RouteMetrics, "")
	for _, line := range []string{"steady_fleet_cpus 4", "steady_fleet_cpus_used 1", "steady_fleet_memory_used_bytes 600", "steady_fleet_gpus 1",
		"steady_fleet_workspaces 1", "steady_fleet_workspaces_cpus_used 0.5", "steady_fleet_workspaces_memory_bytes 70", "steady_hosts_measured 1"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the server's metrics lack %q", line)
		}
	}
	if strings.Contains(text, "h-0000") {
		t.Error("the server's metrics name a host")
	}
	m.Metrics = json.RawMessage(`"` + strings.Repeat("x", wire.MaxMetrics) + `"`)
	if status := a.do("POST", wire.RouteHeartbeat, m, nil); status != 413 {
		t.Errorf("metrics of %d bytes: %d", len(m.Metrics), status)
	}
	m.Metrics = json.RawMessage(`"` + strings.Repeat("x", wire.MaxMetrics-2) + `"`)
	if status := a.do("POST", wire.RouteHeartbeat, m, nil); status != 200 {
		t.Errorf("metrics of %d bytes: %d", len(m.Metrics), status)
	}
	if _, err := w.op.HostMetrics(context.Background(), "nobody"); status(err) != 404 {
		t.Errorf("of an unknown host: %v", err)
	}
}
