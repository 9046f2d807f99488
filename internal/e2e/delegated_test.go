package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// errand is one request of an agent to its engine that is not only a look.
type errand struct {
	call string // method and path, without the API's version
	name string // that the thing is to have
	body []byte
}

// doorman stands between an agent and its engine and writes down what the agent
// asks the engine to do.
type doorman struct {
	socket string

	mu   sync.Mutex
	list []errand
}

func newDoorman(t testing.TB, engine string) *doorman {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("", "door"))(t) // a socket's path is short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &doorman{socket: filepath.Join(dir, "s")}
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "engine"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", engine)
		}},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			path := r.URL.Path
			if rest, is := strings.CutPrefix(path, "/v1."); is {
				_, path, _ = strings.Cut(rest, "/")
				path = "/" + path
			}
			d.mu.Lock()
			d.list = append(d.list, errand{r.Method + " " + path, r.URL.Query().Get("name") + r.URL.Query().Get("fromImage"), body})
			d.mu.Unlock()
		}
		to.ServeHTTP(w, r)
	})}
	l := testkit.Value(net.Listen("unix", d.socket))(t)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return d
}

func (d *doorman) errands() []errand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

// outside says what of an errand is out of the bounds of delegatedFleet.
func (e errand) outside(prefix string) string {
	switch {
	case e.call == "POST /containers/create":
		var c struct {
			container.Config
			HostConfig container.HostConfig
		}
		if err := json.Unmarshal(e.body, &c); err != nil {
			return err.Error()
		}
		h := &c.HostConfig
		switch {
		case !strings.HasPrefix(e.name, prefix):
			return "a container named " + e.name
		case h.Privileged || len(h.CapAdd)+len(h.SecurityOpt)+len(h.Binds)+len(h.Devices)+len(h.DeviceRequests)+len(h.Sysctls) > 0:
			return "a container with privileges"
		case h.NetworkMode.IsHost() || h.PidMode.IsHost() || h.IpcMode.IsHost() || h.UTSMode.IsHost() || h.UsernsMode.IsHost() || h.CgroupnsMode.IsHost() || h.NetworkMode.IsContainer() || h.PidMode.IsContainer():
			return "a container in namespaces of others"
		case len(h.PortBindings) > 0:
			return "a container with ports of the host"
		}
		for _, m := range h.Mounts {
			if m.Type != "volume" || !strings.HasPrefix(m.Source, prefix) || m.VolumeOptions != nil && m.VolumeOptions.DriverConfig != nil {
				return fmt.Sprintf("a container with the mount %+v", m)
			}
		}
	case e.call == "POST /volumes/create":
		var v struct {
			Name, Driver string
			DriverOpts   map[string]string
		}
		if err := json.Unmarshal(e.body, &v); err != nil {
			return err.Error()
		}
		if !strings.HasPrefix(v.Name, prefix) || v.Driver != "" && v.Driver != "local" || len(v.DriverOpts) > 0 {
			return fmt.Sprintf("the volume %+v", v)
		}
	case e.call == "POST /networks/create":
		var n struct{ Name, Driver string }
		if err := json.Unmarshal(e.body, &n); err != nil {
			return err.Error()
		}
		if n.Name != prefix+"default" { // the bundle's; the kind is not delegated
			return fmt.Sprintf("the network %+v", n)
		}
	case strings.HasSuffix(e.call, "/exec"), strings.HasPrefix(e.call, "POST /exec/"):
		return "a command in a container"
	case strings.HasPrefix(e.call, "POST /build"), strings.HasPrefix(e.call, "POST /commit"), strings.HasPrefix(e.call, "POST /images/load"):
		return "an image made"
	case e.call == "POST /images/create" && e.name != "steady.test/busybox":
		return "a pull of " + e.name
	}
	return ""
}

// delegatedFleet leaves some kinds to the server and lets it read logs. Its image is
// imported on the engine, so no registry gave it a digest.
var delegatedFleet = "allowMovingTags: true\n" + strings.Replace(lieFleet, "web-1: {channel: stable, tags: [web], bundle: web}",
	"web-1: {channel: stable, tags: [web], bundle: web, managed: [image, volume, workspace], allow: [logs], bounds: {images: [steady.test/busybox], maxWorkspaces: 2}}", 1)

const delegatedCompose = `services:
  app:
    image: steady.test/busybox:1
    pull_policy: never
    stop_grace_period: 0s
    command: [sh, -c, "echo signed and running; exec sleep 100000"]
    x-steady: {update: {monitor: 1s}}
`

// guest is a stage whose host has an engine, on which strangers run as well.
type guest struct {
	*stage
	door   *doorman
	api    *client.Client
	prefix string
}

func newGuest(t testing.TB) *guest {
	d := dockertest.Engine(t)
	image, space := d.Busybox(t), d.Namespace(t)
	g := &guest{door: newDoorman(t, d.Socket()), api: d.Client(), prefix: space.Prefix}
	ctx := context.Background()
	name := "stranger-" + space.Prefix
	made := testkit.Value(g.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: name, Config: &container.Config{
		Image: image, Cmd: []string{"sh", "-c", "echo the stranger speaks; exec sleep 100000"}}}))(t)
	testkit.Value(g.api.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}))(t)
	g.stage = raise(t, delegatedFleet, nil, func(s *stage) {
		s.compose, s.hosting = delegatedCompose, hosting.Config{Engine: g.door.socket, Prefix: space.Prefix}
	})
	g.house()
	g.next()
	g.truth()
	return g
}

// running is the container of a name and since when it runs.
func (g *guest) running(name string) string {
	r, err := g.api.ContainerInspect(context.Background(), name, client.ContainerInspectOptions{})
	if err != nil || r.Container.State == nil || !r.Container.State.Running {
		return ""
	}
	return r.Container.ID + " " + r.Container.State.StartedAt
}

const job = `{"image":"box","command":["sleep","100000"],"stopGrace":0,"mounts":[{"type":"volume","source":"data","target":"/data"}]}`

func entries() []wire.ManagedEntry {
	return []wire.ManagedEntry{
		{Kind: "image", Name: "box", Spec: json.RawMessage(`{"ref":"steady.test/busybox:1","pull":{"policy":"never"}}`), Actor: "ada"},
		{Kind: "volume", Name: "data", Spec: json.RawMessage(`{"labels":{"a":"b"}}`), Actor: "ada"},
		{Kind: "workspace", Name: "job", Spec: json.RawMessage(job), Actor: "ada", Nonce: "n1"},
	}
}

// greedy are entries that ask for what the host does not delegate, by the words
// that refuse them.
var greedy = []struct{ kind, value, verb, words string }{
	{"workspace", `{"image":"box","security":{"privileged":true}}`, "", "privileged"},
	{"workspace", `{"image":"box","security":{"capAdd":["SYS_ADMIN"]}}`, "", "capAdd"},
	{"workspace", `{"image":"box","security":{"options":["seccomp=unconfined"]}}`, "", "ptions"},
	{"workspace", `{"image":"box","networkMode":"host"}`, "", "networkMode"},
	{"workspace", `{"image":"box","namespaces":{"pid":"host"}}`, "", "pid"},
	{"workspace", `{"image":"box","namespaces":{"ipc":"host"}}`, "", "ipc"},
	{"workspace", `{"image":"box","mounts":[{"type":"bind","source":"/","target":"/host"}]}`, "", "host"},
	{"workspace", `{"image":"box","devices":[{"host":"/dev/kmsg","container":"/dev/kmsg","permissions":"r"}]}`, "", "evices"},
	{"workspace", `{"image":"box","ports":[{"hostPort":22,"port":22,"protocol":"tcp"}]}`, "", "orts"},
	{"workspace", `{"image":"box","env":[{"name":"P","secret":"root-password"}]}`, "", "ecret"},
	{"workspace", `{"image":"box","networks":[{"network":"default"}]}`, "", "bundle"},
	{"workspace", `{"image":"steady.test/busybox:1"}`, "", "not declared"},
	{"image", `{"ref":"evil.test/x:1","pull":{}}`, "", "evil.test"},
	{"image", `{"ref":"steady.test/busybox-evil:1","pull":{}}`, "", "busybox-evil"},
	{"volume", `{"options":{"type":"none","o":"bind","device":"/"}}`, "", "mount of the host"},
	{"volume", `{"driver":"evil"}`, "", "evil"},
	{"volume", `{"external":"stranger"}`, "", "stranger"},
	{"network", `{}`, "", "does not leave"},
	{"snapshot", `{"workspace":"app","take":1}`, "", "does not leave"},
	{"route", `{"host":"x.test","workspace":"job","port":80}`, "", "does not leave"},
	{"generation", `{}`, "", "knows no kind"},
	{"workspace", ``, "restart", "does not declare"},
}

// TestP1ServerStaysInsideTheDelegation lies about the managed layer to a host
// with an engine that leaves some kinds to the server, within bounds: whatever is
// said, no request to the engine goes beyond them, and what the bundle and
// strangers run goes on untouched.
func TestP1ServerStaysInsideTheDelegation(t *testing.T) {
	t.Parallel()
	g := newGuest(t)
	stranger := "stranger-" + g.prefix
	testkit.Eventually(t, "the bundle's workspace runs", func() bool { return g.running(g.prefix+"app") != "" })
	was := []string{g.running(g.prefix + "app"), g.running(stranger)}

	model := wire.Managed{Version: 2, Entries: append(entries(), wire.ManagedEntry{Kind: "workspace", Name: "app", Verb: "stop", Nonce: "n2", Actor: "eve"})}
	list := mutants(t, testkit.Value(json.Marshal(model))(t), true, map[string][]string{
		"entries[].kind": {`"network"`, `"snapshot"`, `"route"`, `"generation"`}, "entries[].name": {`"app"`, `"stranger"`, `"../x"`},
		"entries[].verb": {`"start"`, `"remove"`}, "entries[].notAfter": {"1", "-1"},
	})
	for _, m := range list {
		g.tellLayer(layer(m.String(), m.doc, ""))
	}

	doc := wire.Managed{Version: 3, Entries: entries()}
	doc.Entries[2].Version = 3
	for i, e := range greedy {
		x := wire.ManagedEntry{Kind: e.kind, Name: fmt.Sprintf("greedy-%d", i), Verb: e.verb, Actor: "eve", Nonce: "n"}
		if e.value != "" {
			x.Spec = json.RawMessage(e.value)
		}
		doc.Entries = append(doc.Entries, x)
	}
	for i := range 3 { // one more than may be
		doc.Entries = append(doc.Entries, wire.ManagedEntry{Kind: "workspace", Name: fmt.Sprintf("many-%d", i), Spec: json.RawMessage(job), Actor: "eve"})
	}
	g.tellLayer(layer("greedy", testkit.Value(json.Marshal(doc))(t), ""))
	testkit.Eventually(t, "what is delegated runs", func() bool { return g.running(g.prefix+"job") != "" })
	testkit.Eventually(t, "what runs is of version 3", func() bool { r := g.last("workspace/job"); return r.State == "Running" && r.Version == 3 })
	g.inStep("the managed layer")
	for i, e := range greedy {
		if !g.refused(fmt.Sprintf("%s/greedy-%d", e.kind, i), e.words) {
			t.Errorf("%s %s%s was not refused with %q", e.kind, e.value, e.verb, e.words)
		}
	}
	if !g.refused("workspace/many-2", "") {
		t.Error("a third workspace was taken where two may be")
	}

	if now := []string{g.running(g.prefix + "app"), g.running(stranger)}; !slices.Equal(now, was) {
		t.Errorf("what was signed, or a stranger's, did not go on:\nwas %v\nnow %v", was, now)
	}
	streams := g.lyingStreams()
	creates := 0
	for _, e := range g.door.errands() {
		if why := e.outside(g.prefix); why != "" {
			t.Errorf("the host asked its engine for %s: %s %s", why, e.call, e.body)
		}
		if strings.HasSuffix(e.call, "/create") {
			creates++
		}
	}
	t.Logf("%d lies, %d entries out of bounds, %d streams; %d errands at the engine, %d of them making something",
		len(list), len(greedy), streams, len(g.door.errands()), creates)

	// One that runs and is refused from now on goes, and the refusal stays.
	doc.Entries = entries()
	doc.Entries[2].Spec, doc.Entries[2].Version = json.RawMessage(greedy[0].value), 4
	g.tellLayer(layer("greedy about what runs", testkit.Value(json.Marshal(doc))(t), ""))
	testkit.Eventually(t, "what is refused is gone", func() bool { return g.running(g.prefix+"job") == "" })
	testkit.Eventually(t, "the refusal stays", func() bool { return g.stays("workspace/job", 4, "privileged") })
	g.tellLayer(layer("empty", []byte(`{"version":4,"entries":[]}`), ""))
	testkit.Eventually(t, "what is no more managed is gone", func() bool { return g.running(g.prefix+"job") == "" })
	testkit.Eventually(t, "what was refused is gone", func() bool { return g.last("workspace/job").State == "Removed" })
	g.unchanged("all lies")
}

// last is what the host reported last of a resource.
func (g *guest) last(resource string) (r event.ResourceReported) {
	g.liar.mu.Lock()
	defer g.liar.mu.Unlock()
	for _, x := range g.liar.reported {
		if x.Resource == resource {
			r = x
		}
	}
	return r
}

// stays reports whether the last word on a resource is that a version of it is
// refused, after the host had told of its removal.
func (g *guest) stays(resource string, version uint64, words string) bool {
	g.liar.mu.Lock()
	defer g.liar.mu.Unlock()
	refused, going := false, false
	for _, x := range g.liar.reported {
		if x.Resource != resource {
			continue
		}
		is := x.Version == version && strings.HasPrefix(x.Message, "refused: ") && strings.Contains(x.Message, words)
		going = going || refused && !is
		refused = is || refused && x.State != string(spec.Removed)
		if going && is {
			return true
		}
	}
	return false
}

// refused reports whether the host reported a resource as refused.
func (g *guest) refused(resource, words string) bool {
	g.liar.mu.Lock()
	defer g.liar.mu.Unlock()
	for _, r := range g.liar.reported {
		if r.Resource == resource && strings.HasPrefix(r.Message, "refused: ") && strings.Contains(r.Message, words) {
			return true
		}
	}
	return false
}

func frames(list ...wire.Frame) []byte {
	var b bytes.Buffer
	w := wire.NewFrameWriter(&b)
	for _, f := range list {
		_ = w.Write(f) // a buffer takes it
	}
	return b.Bytes()
}

// lyingStreams asks a host that allows logs for them with lies, and for what it
// does not allow. It returns how many streams were asked for.
func (g *guest) lyingStreams() int {
	g.t.Helper()
	const said = "signed and running\n"
	n := 0
	ask := func(r wire.StreamRequest, script []byte) *opened {
		n++
		r.ID = fmt.Sprintf("asked-%d", n)
		g.liar.mu.Lock()
		g.liar.script[r.ID] = script
		g.liar.mu.Unlock()
		g.tellStreams(testkit.Value(json.Marshal(wire.Dispatch{Streams: []wire.StreamRequest{r}}))(g.t))
		return g.liar.ended(r.ID)
	}
	logs := wire.StreamRequest{Kind: wire.StreamLogs, Resource: "workspace/app", Actor: "eve"}
	if o := ask(logs, nil); o.stdout.String() != said || o.exit == nil || o.exit.Code != 0 {
		g.t.Errorf("the log that the host allows: %q, %+v", o.stdout.String(), o.exit)
	}
	// Frames for commands do nothing to a log.
	if o := ask(logs, frames(wire.Frame{Type: wire.FrameStdin, Data: []byte("rm -rf /\n")}, wire.Frame{Type: wire.FrameClose}, wire.Frame{Type: wire.FrameResize, Data: []byte(`{"rows":4,"cols":4}`)})); o.stdout.String() != said {
		g.t.Errorf("a log with input: %q, %+v", o.stdout.String(), o.exit)
	}
	followed := logs
	followed.Args.Follow = true
	for name, script := range map[string][]byte{
		"stdout": frames(wire.Frame{Type: wire.FrameStdout, Data: []byte("x")}), "stderr": frames(wire.Frame{Type: wire.FrameStderr}),
		"exit": frames(wire.ExitFrame(wire.Exit{})), "start": frames(wire.Frame{Type: wire.FrameStart, Data: []byte(`{"argv":["sh"]}`)}),
		"unknown": {99, 0, 0, 0, 0}, "zero": {0, 0, 0, 0, 0}, "too large": {3, 255, 255, 255, 255},
		"a resize of nothing": frames(wire.Frame{Type: wire.FrameResize}), "a huge resize": frames(wire.Frame{Type: wire.FrameResize, Data: []byte(`{"rows":99999,"cols":1}`)}),
	} {
		if o := ask(followed, script); o.exit != nil && o.exit.Code == 0 { // that it is over at all is the point
			g.t.Errorf("a log that followed went on after the frame %s: %+v", name, o.exit)
		}
	}
	if !g.diary.wrote("a stream ended", "only a host sends") {
		g.t.Error("nothing says that the server sent a frame that only a host sends")
	}
	for _, r := range []wire.StreamRequest{everyRequest(wire.StreamExec, "workspace/app"), everyRequest(wire.StreamExec, "workspace/job"), everyRequest(wire.StreamOutput, "workspace/app"),
		everyRequest(wire.StreamLogs, "image/box"), everyRequest(wire.StreamLogs, "workspace/../app"), everyRequest("shell", "workspace/app"),
		everyRequest(wire.StreamOrphans, "host/web-1"), everyRequest(wire.StreamPrune, "host/web-1"), everyRequest(wire.StreamPlan, "generation/current")} {
		o := ask(r, frames(wire.Frame{Type: wire.FrameStdin, Data: []byte("id\n")}))
		words := o.exit != nil && o.exit.Code == -1 && o.exit.Error != ""
		if r.Kind != wire.StreamPlan && (!words || !strings.HasPrefix(o.exit.Error, "refused: ")) || r.Kind == wire.StreamPlan && !words {
			g.t.Errorf("%s of %s ended with %+v", r.Kind, r.Resource, o.exit)
		}
	}
	for _, name := range []string{"stranger", "stranger-" + strings.TrimSuffix(g.prefix, "-")} {
		logs.Resource = "workspace/" + name
		if o := ask(logs, nil); strings.Contains(o.stdout.String()+o.stderr.String(), "stranger speaks") || o.exit == nil || o.exit.Code == 0 {
			g.t.Errorf("the log of a stranger: %q, %+v", o.stdout.String(), o.exit)
		}
	}
	return n
}
