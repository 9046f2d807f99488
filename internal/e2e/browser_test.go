package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	corehost "github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

const browserFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, bundle: web, managed: [image, workspace], allow: [logs, exec], bounds: {images: [steady.test/busybox]}}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}}]
bundles: {web: {path: bundles/web}}
`

// TestWorkspaceInTheBrowser: a person makes a workspace by its form, sees it run, reads its log,
// types in its terminal, stops it and removes it, on a real server, agent and engine. The content
// policy of the page holds for all of it: a breach would end the test.
func TestWorkspaceInTheBrowser(t *testing.T) {
	// Not beside tests whose containers come and go: a browser gives up its requests whenever the
	// addresses of the machine change.
	engine := dockertest.Engine(t)
	engine.Busybox(t)
	space := engine.Namespace(t)
	e := newEstate(t)
	ctx, stop := context.WithCancel(context.Background())
	server, err := api.Start(ctx, api.Options{DataDir: filepath.Join(t.TempDir(), "server"), Root: e.roots[0], Listen: "127.0.0.1:0"})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); testkit.Must(t, server.Wait()) })
	secret := testkit.Value(os.ReadFile(server.AdminTokenFile()))(t)
	op := testkit.Value(operator.NewClient(operator.Options{URL: server.OperatorURL(), Token: strings.TrimSpace(string(secret)), ServerCA: server.ServerCA()}))(t)
	t.Cleanup(op.Close)
	packed := e.release("v1", declare{"fleet.yaml": browserFleet, "bundles/web/bundle.yaml": "files:\n  - {path: etc/web, content: \"1\\n\"}\n"}).packed()
	testkit.Value(server.Control().PushRelease(ctx, packed, "test"))(t)
	testkit.Must(t, packed.Close())
	host := &box{t: t, name: "web-1", clock: newWallClock(), state: filepath.Join(t.TempDir(), "state"), root: t.TempDir(), log: loud(),
		hosting: hosting.Config{Engine: engine.Socket(), Prefix: space.Prefix}}
	host.enrol(e.token("web-1", server.URL(), server.ServerCA()))
	host.start()
	testkit.Eventually(t, "the host knows what it leaves to the server", func() bool { return host.agent.Status().Machine.Phase == corehost.Converged })

	p := browse.Open(t)
	p.Go(testkit.Value(op.UILink(ctx))(t).URL)
	p.Click("link", "Workspaces")
	p.Click("link", "images")
	makes(p, "image", "box")
	p.Fill("textbox", "The same as text (JSON)", `{"ref":"steady.test/busybox:1","pull":{"policy":"never"}}`)
	p.Click("button", "Preview")
	p.In("region", "Make").WaitText("Preview: ")
	decide(p, "Set", "web-1 image box")
	p.WaitText("Finished")

	p.Click("link", "Workspaces")
	makes(p, "workspace", "job")
	p.Fill("textbox", "image", "box")
	p.Fill("textbox", "command", "sh\n-c\necho hello from the workspace; exec sleep 100000")
	p.Click("DisclosureTriangle", "update")
	p.Fill("textbox", "monitor", "1000")
	p.Click("DisclosureTriangle", "More fields…")
	p.Fill("textbox", "stopGrace", "0")
	p.Fill("textbox", "networkMode", "none")
	accessible(t, p, "the form")
	decide(p, "Set", "web-1 workspace job")
	p.WaitText("Running")
	p.In("region", "Set").WaitText(`"stopGrace": 0`)

	p.Click("button", "Log")
	p.WaitText("hello from the workspace")
	p.Click("button", "Terminal")
	p.Wait("textbox", "Terminal input")
	p.Type("echo $((6*7))-typed\r")
	p.WaitText("42-typed")
	if style := browse.Eval[string](p, `getComputedStyle(document.querySelector(".xterm-rows")).whiteSpace + " " + getComputedStyle(document.querySelector(".xterm-helper-textarea")).position`); style != "pre absolute" {
		t.Errorf("the terminal is dressed as %s", style)
	}
	accessible(t, p, "the terminal")
	p.Press("Shift+Escape")
	if at := p.Focused(); at != (browse.What{Role: "button", Name: "Close terminal"}) {
		t.Errorf("out of the terminal, the focus is on %s", at)
	}
	p.Press("Enter")
	p.WaitGone("textbox", "Terminal input")

	decide(p, "Stop", "web-1 workspace job stop")
	p.WaitText("Stopped")
	decide(p, "Remove", "web-1 workspace job")
	p.WaitText("has no such workspace")
	p.Click("link", "Workspaces")
	p.WaitText("No workspace is like that")
	accessible(t, p, "the list")
}

// makes begins a resource on the page of its kind.
func makes(p *browse.Page, kind, name string) {
	p.Click("DisclosureTriangle", "New "+kind+"…")
	p.Fill("combobox", "On host", "web-1")
	p.Fill("textbox", "Name", name)
	p.Click("button", "Fill in")
}

// decide presses a verb, and says why.
func decide(p *browse.Page, verb, of string) {
	p.Click("button", verb)
	d := p.In("dialog", verb+" "+of)
	d.Fill("textbox", "Reason, for the log", "a test")
	d.Click("button", verb)
	p.WaitGone("dialog", verb+" "+of)
}

func accessible(t *testing.T, p *browse.Page, where string) {
	t.Helper()
	if found := p.Axe(); len(found) > 0 {
		t.Errorf("axe-core finds in %s:\n%s", where, strings.Join(found, "\n"))
	}
}
