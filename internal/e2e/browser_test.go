package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

const browserFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1:
    channel: stable
    bundle: web
    managed: [image, network, route, snapshot, volume, workspace]
    allow: [exec, logs, settings]
    bounds: {images: [steady.test/busybox], routes: {hosts: [web.localhost]}}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}}]
bundles: {web: {path: bundles/web}}
`

// office is a person at the page of a real server, whose one host has a real agent and engine.
type office struct {
	*browse.Page
	t      *testing.T
	engine *dockertest.Daemon
	prefix string // of names on the engine
	router string // address
	step   *step
}

// step is what the builds of this test wait for: a service that they ask, in the network of their engine.
type step struct {
	url string
	// answer is what they are told: a status, or 0 to wait until they are ended.
	answer atomic.Int32
}

func newStep(t *testing.T, engine *dockertest.Daemon) *step {
	s := &step{}
	bridge := testkit.Value(engine.Client().NetworkInspect(t.Context(), "bridge", client.NetworkInspectOptions{}))(t)
	l := testkit.Value(net.Listen("tcp", net.JoinHostPort(bridge.Network.IPAM.Config[0].Gateway.String(), "0")))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := int(s.answer.Load())
		if status == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "built by a step\n")
	})}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	s.url = "http://" + l.Addr().String() + "/"
	return s
}

func newOffice(t *testing.T) *office {
	// Not beside tests whose containers come and go: a browser gives up its requests whenever the
	// addresses of the machine change.
	l := newLease(t, browserFleet)
	o := &office{t: t, engine: l.engine, prefix: l.prefix, router: l.router, step: newStep(t, l.engine)}
	o.Page = browse.Open(t)
	o.Go(testkit.Value(l.operator.UILink(t.Context()))(t).URL)
	o.Wait("heading", "Fleet…")
	for _, refused := range []string{"403", "422", "404", "409"} { // an image out of bounds, a route without a port, the first snapshot, removals
		o.Expect("status of " + refused)
	}
	return o
}

// TestWorkspaceInTheBrowser: a person does with the keyboard alone all that there is to do with an image, a
// workspace and what belongs to one, on a real server, agent and engine, and is shown each time the command
// that does the same. The content policy of the page holds for all of it: a breach would end the test.
func TestWorkspaceInTheBrowser(t *testing.T) {
	testkit.Needs(t, dockertest.Here, testkit.Chromium)
	o := newOffice(t)
	o.tune()
	o.buildImage()
	o.make("network", "back")
	o.set("network", "back")
	o.WaitText("Ready")
	o.Usable("a network")
	o.make("volume", "data")
	o.set("volume", "data")
	o.WaitText("Ready")
	o.Usable("a volume")
	o.makeWorkspace()
	o.lookInside()
	o.route()
	o.restore()
	o.askWorkspace()
	o.removeAll()
}

// tune has the host report often, for what is measured to come.
func (o *office) tune() {
	o.Press("g", "h")
	o.Choose("link", "web-1")
	o.Choose("button", "Tune")
	d := o.In("dialog", "Tune web-1")
	d.Write("textbox", "Reports every, in seconds (5 to 600)", "5")
	o.confirm(d, "Tune", "steady host set web-1 --heartbeat 5s --resync default --builds default --pulls default --starts default --metrics host,gpu,workspaces")
	o.In("region", "Settings").WaitText("Reports every 5 s")
}

// buildImage builds one, cancels that, has it fail, and has it tried again.
func (o *office) buildImage() {
	const verbs, name = "steady image ", " web-1/tool"
	o.kind("images")
	o.begin("image")
	o.TabTo("combobox", "It comes")
	o.Type("from a D")
	o.name("tool")
	o.Write("textbox", "inline", "FROM other.example/base:1\n")
	o.Choose("button", "Preview")
	o.Until("the field to say what is wrong", `document.querySelector("#field-build-inline[aria-invalid]")?.closest(".field").innerText.includes("is not allowed here")`)
	o.Usable("a form that was refused")
	o.Write("textbox", "inline", "FROM "+dockertest.BusyboxRef+"\nRUN echo begun; wget -q -O - "+o.step.url+"\nCMD [\"sh\"]\n")
	o.Choose("button", "Preview")
	o.WaitText("Preview: create")
	o.set("image", "tool")
	o.WaitText("Building")
	o.Choose("button", "Output")
	o.WaitText("begun")
	o.Usable("an image that is built")
	o.ask("Cancel", "web-1 image tool", verbs+"cancel"+name)
	o.WaitText("Cancelled")
	o.step.answer.Store(http.StatusInternalServerError)
	o.ask("Retry", "web-1 image tool", verbs+"retry"+name)
	o.WaitText("Failed")
	o.step.answer.Store(http.StatusOK)
	o.ask("Retry", "web-1 image tool", verbs+"retry"+name)
	o.WaitText("Finished")
	o.WaitText("built by a step")
	o.ask("Build", "web-1 image tool", "steady image build web-1/tool")
	o.WaitText("Finished")
}

// makeWorkspace makes one from the image, by the form; it is healthy once somebody says so in its volume.
func (o *office) makeWorkspace() {
	o.kind("images")
	o.Choose("link", "tool")
	o.Choose("link", "New workspace from it")
	o.name("job")
	o.Until("the image to be filled in", `document.getElementById("field-image")?.value === "tool"`)
	o.Usable("the form")
	o.Write("textbox", "command", "sh\n-c\necho hello from the workspace; echo it works >/www/index.html; exec httpd -f -p 8080 -h /www")
	o.Choose("DisclosureTriangle", "update")
	o.Write("textbox", "monitor", "100")
	o.Choose("DisclosureTriangle", "More fields…")
	o.Write("textbox", "stopGrace", "1500")
	o.Choose("DisclosureTriangle", "health")
	o.Write("textbox", "test", "CMD-SHELL\ntest -e /data/ready")
	o.Write("textbox", "interval", "100")
	o.Write("textbox", "retries", "100000")
	o.Write("textbox", "mounts", `[{"type": "volume", "source": "data", "target": "/data"}]`)
	o.Write("textbox", "networks", `[{"network": "back"}]`)
	o.Choose("button", "Preview")
	o.WaitText("Preview: create")
	o.set("workspace", "job")
	o.WaitText("Starting")
	o.In("region", "Set").WaitText(`"stopGrace": 1500`)
}

// lookInside reads the log, and types in the terminal.
func (o *office) lookInside() {
	o.Choose("button", "Log")
	o.WaitText("hello from the workspace")
	o.Choose("button", "Terminal")
	o.Wait("textbox", "Terminal input")
	o.Type("echo $((6*7))-typed; echo kept >/kept; touch /data/ready\r")
	o.WaitText("42-typed")
	o.WaitText("Running")
	if style := browse.Eval[string](o.Page, `getComputedStyle(document.querySelector(".xterm-rows")).whiteSpace + " " + getComputedStyle(document.querySelector(".xterm-helper-textarea")).position`); style != "pre absolute" {
		o.t.Errorf("the terminal is dressed as %s", style)
	}
	o.Usable("a terminal")
	o.Press("Shift+Escape")
	if at := o.Focused(); at != (browse.What{Role: "button", Name: "Close terminal"}) {
		o.t.Errorf("out of the terminal, the focus is on %s", at)
	}
	o.Press("Enter")
	o.WaitGone("textbox", "Terminal input")
}

// route leads a name to the workspace, through the router of the agent.
func (o *office) route() {
	o.make("route", "web")
	o.Choose("button", "Preview")
	o.Until("the fields to say what is wrong", `["workspace", "port"].every((f) => document.querySelector("#field-" + f + "[aria-required][aria-invalid]"))`)
	o.Write("combobox", "workspace", "job")
	o.Press("Escape")
	o.Write("textbox", "port", "8080")
	o.Write("textbox", "host", "web.localhost")
	o.set("route", "web")
	o.WaitText("Ready")
	o.Usable("a route")
	req := testkit.Value(http.NewRequestWithContext(o.t.Context(), "GET", "http://"+o.router+"/", nil))(o.t)
	req.Host = "web.localhost"
	answer := testkit.Value(http.DefaultClient.Do(req))(o.t)
	defer answer.Body.Close()
	if text := string(testkit.Value(io.ReadAll(answer.Body))(o.t)); text != "it works\n" {
		o.t.Errorf("the route answers %q", text)
	}
}

// restore sees what is measured of the workspace, captures it, and runs another from what was captured.
func (o *office) restore() {
	o.open("workspace", "job")
	o.In("region", "Measured").WaitText("of one CPU")
	o.ask("Snapshot", "web-1 job", "steady workspace snapshot web-1/job")
	o.open("snapshot", "job")
	o.WaitText("Ready")
	o.Usable("a snapshot")
	o.Choose("link", "New workspace from it")
	o.name("again")
	o.Until("the image to be filled in", `document.getElementById("field-image")?.value === "snapshot/job"`)
	o.Write("textbox", "The same as text (YAML)", `{"image": "snapshot/job", "command": ["sh", "-c", "cat /kept; exec sleep 1d"], "stopGrace": 0, "networkMode": "none", "health": {"disable": true}, "update": {"monitor": 100}}`)
	o.set("workspace", "again")
	o.WaitText("Running")
	o.Choose("button", "Log")
	o.WaitText("kept")
}

// askWorkspace restarts, stops, starts and replaces the one that was restored.
func (o *office) askWorkspace() {
	ask := func(verb, word string) {
		o.ask(verb, "web-1 workspace again", "steady workspace "+word+" web-1/again")
	}
	began := o.began("again")
	ask("Restart", "restart")
	testkit.Eventually(o.t, "the container to be started again", func() bool { return o.began("again") != began })
	o.WaitText("Running")
	ask("Stop", "stop")
	o.WaitText("Stopped")
	ask("Start", "start")
	o.WaitText("Running")
	began = o.began("again")
	ask("Redeploy", "redeploy")
	testkit.Eventually(o.t, "the container to be replaced", func() bool { return o.began("again") != began })
	o.WaitText("Running")
}

// began is which container a workspace has, and when that was started.
func (o *office) began(name string) string {
	c, err := o.engine.Client().ContainerInspect(o.t.Context(), o.prefix+name, client.ContainerInspectOptions{})
	if err != nil {
		return ""
	}
	return c.Container.ID + c.Container.State.StartedAt
}

// removeAll removes what was made; the server asks back when many go at once.
func (o *office) removeAll() {
	consented := false
	for _, of := range []string{"route web", "workspace again", "workspace job", "snapshot job", "network back", "volume data", "image tool"} {
		kind, name, _ := strings.Cut(of, " ")
		o.open(kind, name)
		o.Choose("button", "Remove")
		d := o.In("dialog", "Remove web-1 "+of)
		line := "steady remove web-1 " + kind + "/" + name
		if of != "route web" {
			d.Write("textbox", "Reason, for the log", "a test")
			d.Choose("button", "Remove")
			const requested = `document.querySelector("dialog[open] input[type=checkbox]") !== null`
			o.Until("the server to ask back, or to remove it", requested+` || !document.querySelector("dialog[open]")`)
			if !browse.Eval[bool](o.Page, requested) { // a minute has passed since the one before
				o.WaitText("has no such " + kind)
				continue
			}
			d.TabTo("checkbox", "Also although many are removed at once")
			o.Press("Space")
			line, consented = line+" --allow-mass-change", true
		}
		o.confirm(d, "Remove", line)
		o.WaitText("has no such " + kind)
	}
	if !consented {
		o.t.Error("nobody was asked back")
	}
	for _, kind := range []string{"workspaces", "images", "networks", "volumes", "snapshots", "routes"} {
		o.kind(kind)
		o.WaitText("No " + strings.TrimSuffix(kind, "s") + " is like that")
	}
	o.Usable("an empty list")
}

// kind opens the list of a kind.
func (o *office) kind(plural string) {
	o.Press("g", "w")
	o.Wait("heading", "Workspaces")
	o.In("navigation", "Kinds").Choose("link", plural)
	o.Until("the list of "+plural, fmt.Sprintf(`document.querySelector("nav.kinds [aria-current]").innerText === %q && !document.querySelector("[aria-busy]")`, plural))
}

// open goes to the page of a resource.
func (o *office) open(kind, name string) {
	o.kind(kind + "s")
	o.In("group", "Every "+kind).Choose("link", name)
	o.Wait("heading", strings.ToUpper(kind[:1])+kind[1:]+" web-1/"+name)
}

// begin opens what makes a resource on the page of its kind; make fills in its place.
func (o *office) begin(kind string) {
	o.Choose("DisclosureTriangle", "New "+kind+"…")
	o.Write("combobox", "On host", "web-1")
	o.Press("Escape")
}

func (o *office) name(name string) {
	o.Write("textbox", "Name", name)
	o.Choose("button", "Fill in")
	o.Wait("button", "Preview")
}

func (o *office) make(kind, name string) {
	o.kind(kind + "s")
	o.begin(kind)
	o.name(name)
}

func (o *office) set(kind, name string) {
	o.ask("Set", "web-1 "+kind+" "+name, "steady apply -f "+name+".yaml web-1")
}

// ask does a verb of a resource.
func (o *office) ask(verb, of, line string) {
	o.t.Helper()
	o.Choose("button", verb)
	o.confirm(o.In("dialog", verb+" "+of), verb, line)
	o.WaitGone("dialog", verb+" "+of)
}

// confirm says why, sees the command that does the same, and decides.
func (o *office) confirm(dialog browse.Part, verb, line string) {
	o.t.Helper()
	dialog.Write("textbox", "Reason, for the log", "a test")
	o.Until("the command "+line, `document.querySelector("dialog[open] code")?.innerText === `+strconv.Quote(line+" --reason 'a test'"))
	dialog.Choose("button", verb)
	o.WaitGone("dialog", verb+"…")
}
