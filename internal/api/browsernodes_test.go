package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/file"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/nodesdk"
)

// site is some devices with something to look at. A camera of gw-1 was changed by hand, another
// on both sides. gw-2 came with a configuration. gw-3 lost its own. gw-4 refuses what is pushed.
// A tunnel goes from gw-1 over hub, which does not fit its port.
type site struct {
	*world
	gw1, gw3 *device
}

const (
	cam1 = `{"input": "udp://239.0.0.1:5001", "bitrate": 4000, "audio": {"codec": "aac"}, "password": "kept-on-the-node"}`
	cam2 = `{"input": "udp://239.0.0.1:5002", "bitrate": 4000}`
)

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{world: newWorld(t)}
	s.gw1 = s.newDevice("gw-1", `{"cam-1": `+cam1+`, "cam-2": `+cam2+`}`)
	s.gw1.collection.Secrets, s.gw1.collection.Ports = []string{"password"}, []string{"input udp"}
	s.gw1.register()
	testkit.Value(s.op.AdoptObjects(s.ctx(), "gw-1", operator.Adopt{Reason: "test"}))(t)
	s.registered("gw-2", `{"a": {"input": "udp://1"}, "b": {"input": "udp://2"}, "c": {"input": "udp://3"}}`)
	s.gw3 = s.registered("gw-3", `{}`)
	s.set("gw-3", "one", `{"input": "udp://239.0.0.3:1"}`)
	s.set("gw-3", "two", `{"input": "udp://239.0.0.3:2"}`)
	s.untilStatus("one", drift.Pushed)
	s.untilStatus("two", drift.Pushed)
	s.gw3.write(`{}`)
	s.untilNode("gw-3", "it is paused", func(n *drift.Node) bool { return n.Paused != nil })
	gw4 := s.newDevice("gw-4", `{}`)
	gw4.driver = file.Config{Validate: []string{"/bin/sh", "-c", "echo 'bitrate: 9000 is too much' >&2; exit 1"}}
	gw4.register()
	s.set("gw-4", "loud", `{"bitrate": 9000}`)
	s.untilStatus("loud", drift.Failed)
	for _, name := range []string{"relay-1", "edge-1"} {
		d := s.newDevice(name, `{}`)
		d.collection.Kind = nodeconfig.Tunnel
		d.register()
	}
	s.gw1.write(strings.Replace(strings.Replace(strings.Replace(s.gw1.read(), "5001", "6001", 1), `"aac"`, `"opus"`, 1), "kept-on-the-node", "another-one", 1))
	s.untilDrift("cam-1", false)
	s.gw1.write(strings.Replace(s.gw1.read(), "5002", "6002", 1))
	s.untilDrift("cam-2", false)
	s.set("gw-1", "cam-2", `{"input": "udp://239.0.0.1:7002", "bitrate": 8000}`)
	s.untilDrift("cam-2", true)
	return s
}

// untilDrift waits until a flow of gw-1 has other values there, and maybe here as well.
func (s *site) untilDrift(name string, conflict bool) (id string) {
	s.t.Helper()
	s.untilNode("gw-1", "drift of "+name, func(n *drift.Node) bool {
		e := n.Episodes[drift.Key(nodeconfig.Flow, name)]
		if e != nil {
			id = e.Episode
		}
		return e != nil && e.Drift == drift.Mismatched && e.Conflict == conflict
	})
	return id
}

// episode is the name of the open one about a flow of gw-1.
func (s *site) episode(name string) (id string) {
	s.nodes(func(d *drift.State) {
		if e := d.Nodes["gw-1"].Episodes[drift.Key(nodeconfig.Flow, name)]; e != nil {
			id = e.Episode
		}
	})
	return id
}

// What people do on each page of nodes, in the order of the rows: what they see, and decide with
// the keyboard alone.
func TestBrowserNodes(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	s := newSite(t)
	token := s.adminSecret()
	for _, page := range []struct {
		name string
		path string
		flow func(t *testing.T, s *site, p *browse.Page)
	}{
		{"nodes", "/nodes", nodesFlow},
		{"node", "/nodes/gw-2", adoptionFlow},
		{"", "/nodes/gw-3", pausedFlow},
		{"drift", "/drift", driftFlow},
		{"episode", "/drift/" + s.episode("cam-1"), episodeFlow},
		{"flows", "/config/flow", flowsFlow},
		{"flow", "/config/flow/cam-2?edit=1", flowFlow},
		{"tunnel", "/config/tunnel/studio?edit=1", tunnelFlow},
		{"", "/nodes/gw-1", deletionsFlow},
	} {
		t.Run(cmp.Or(page.name, page.path), func(t *testing.T) {
			p := s.browser(t, token, page.path)
			p.WaitSeq(1)
			usable(t, p, page.name)
			page.flow(t, s, p)
			usable(t, p, "")
		})
	}
	viewer := s.browser(t, s.tokenOf(operator.Viewer, 0).Secret, "/")
	for _, path := range []string{"/nodes/gw-2", "/drift", "/drift/" + s.extraneous("a"), "/config/flow/loud", "/config/flow/loud?edit=1"} {
		viewer.Go(s.server.OperatorURL() + path)
		viewer.WaitSeq(1)
		viewer.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
		if n := browse.Eval[int](viewer, `document.querySelectorAll("main [data-verb], main input[type=checkbox], .edit").length`); n > 0 {
			t.Errorf("a viewer is offered %d things to decide on %s", n, path)
		}
	}
}

func nodesFlow(t *testing.T, s *site, p *browse.Page) {
	nodes := p.In("group", "Nodes")
	for _, text := range []string{"paused", "failed", "unadopted", "conflict", "▲mismatched"} {
		nodes.WaitText(text)
	}
	p.Choose("link", "Only those that need a person")
	p.Until("the others to be gone", `!document.querySelector("table").innerText.includes("relay-1")`)
	p.Write("searchbox", "Name", "gw-3")
	p.WaitText("1 in all")
	p.Choose("link", "gw-3")
	p.Wait("heading", "Node gw-3")
	p.Press("g", "f")
	needs := p.In("region", "Needs you")
	needs.Wait("link", "flow loud")
	needs.Wait("link", "node gw-2")
	needs.Choose("link", "node gw-3")
	p.Wait("heading", "Node gw-3")
	p.Press("/")
	p.In("dialog", "Go to").Wait("combobox", "Page, rollout, host, node, flow or session")
	p.Type("cam-2")
	p.Wait("option", "Flow cam-2")
	p.Press("Enter")
	p.Wait("heading", "Flow cam-2")
	p.Press("g", "o")
	p.Wait("heading", "Flows")
	p.Press("g", "n")
	p.Wait("heading", "Nodes")
}

func adoptionFlow(t *testing.T, s *site, p *browse.Page) {
	adopt := p.In("region", "3 objects to adopt")
	adopt.Choose("DisclosureTriangle", "Choose")
	adopt.TabTo("checkbox", "flow b")
	p.Press(" ")
	s.byKeyboard(t, p, keyed{verb: "Ingest chosen", role: "region", part: "3 objects to adopt", line: "steady node adopt gw-2 flow/b"})
	p.In("region", "Adopted").WaitText("flow b is flow b now")
	p.In("region", "What it has").WaitText("flow b")
	s.byKeyboard(t, p, keyed{verb: "Undo", role: "region", part: "Adopted", line: "steady drift undo " + s.newest()})
	s.byKeyboard(t, p, keyed{verb: "Reconcile", role: "group", part: "Verbs", line: "steady node reconcile gw-2", silent: true})
	s.byKeyboard(t, p, keyed{verb: "Dismiss", role: "region", part: "3 objects to adopt", line: "steady node dismiss gw-2"})
	p.In("region", "Drift").WaitText("extraneous")
	p.In("region", "Timeline").WaitText("config_sync.adoption_closed")
}

// newest is the name of the newest decision about drift.
func (s *site) newest() string {
	return testkit.Value(s.op.Resolutions(s.ctx()))(s.t)[0].Resolution
}

func pausedFlow(t *testing.T, s *site, p *browse.Page) {
	p.In("region", "Nothing is pushed").WaitText("the node reports no object at all")
	p.In("region", "What it has").WaitText("flow one")
	p.In("region", "Nothing is pushed").Wait("button", "Resume")
	s.byKeyboard(t, p, keyed{verb: "Resume and push", role: "region", part: "Nothing is pushed", line: "steady node resume gw-3 --push"})
	p.WaitText("●online")
	s.untilStatus("one", drift.Pushed)
	s.until("the device to have them again", func() bool { return strings.Contains(s.gw3.read(), "239.0.0.3:1") })
	s.byKeyboard(t, p, keyed{verb: "Retire", role: "group", part: "Verbs", line: "steady node retire gw-3"})
	p.WaitText("○retired")
}

func driftFlow(t *testing.T, s *site, p *browse.Page) {
	episodes := p.In("group", "Episodes")
	episodes.WaitText("flow cam-1")
	episodes.WaitText("▲conflict")
	p.TabTo("combobox", "Drift")
	p.Type("extraneous")
	episodes.WaitText("gw-2")
	p.Until("the others to be gone", `!document.querySelector("table").innerText.includes("cam-1")`)
	several := p.In("group", "Decide about several")
	several.WaitText("with all 3 that the filters leave")
	p.TabTo("checkbox", "Choose "+s.extraneous("c"))
	p.Press(" ")
	several.Choose("button", "Preview")
	p.In("group", "What would be decided").WaitText("would be decided")
	s.byKeyboard(t, p, keyed{verb: "Resolve", role: "group", part: "Decide about several", line: "steady drift resolve " + s.extraneous("c") + " --ingest"})
	p.In("group", "What was decided").WaitText(`node gw-2 has the flow "c"`)
	decided := p.In("region", "What was decided")
	decided.WaitText("Ingest: flow c on gw-2")
	s.byKeyboard(t, p, keyed{verb: "Ignore", role: "region", part: "What is ignored", fields: [][2]string{{"On this node alone", "gw-2"}, {"Field, * is any one step", "audio/*"}, {"For so many hours (empty: until it is ended)", "2"}},
		line: "steady drift ignore --node gw-2 --field 'audio/*' --for 2h"})
	p.In("group", "Ignored").WaitText("field audio/*, node gw-2")
	rule := testkit.Value(s.op.IgnoredDrift(s.ctx()))(t)[0].Rule
	s.byKeyboard(t, p, keyed{verb: "Unignore", role: "group", part: "Ignored", line: "steady drift unignore " + rule, silent: true})
}

// extraneous is the episode of a flow of gw-2 that the server does not know.
func (s *site) extraneous(id string) (name string) {
	s.nodes(func(d *drift.State) { name = d.Nodes["gw-2"].Episodes[drift.Key(nodeconfig.Flow, id)].Episode })
	return name
}

func episodeFlow(t *testing.T, s *site, p *browse.Page) {
	id := s.episode("cam-1")
	fields := p.In("group", "Fields that differ")
	for _, text := range []string{"input udp://239.0.0.1:5001 udp://239.0.0.1:5001 udp://239.0.0.1:6001", "audio/codec aac aac opus", "password a secret a secret a secret", "they changed it"} {
		fields.WaitText(text)
	}
	for _, secret := range []string{"kept-on-the-node", "another-one", "hmac:"} {
		if strings.Contains(browse.Eval[string](p, "document.documentElement.outerHTML"), secret) {
			t.Errorf("the page has %q of a secret", secret)
		}
	}
	fields.TabTo("combobox", "Take of audio/codec")
	p.Type("theirs")
	p.In("region", "Decide").WaitText("audio/codec stay as they are there")
	p.In("group", "What would be pushed").WaitText("input udp://239.0.0.1:6001 udp://239.0.0.1:5001")
	s.byKeyboard(t, p, keyed{verb: "Repush", role: "region", part: "Decide", line: "steady drift resolve " + id + " --repush --keep audio/codec"})
	p.WaitText("It is not open any more")
	s.until("the device to have what was decided", func() bool { return strings.Contains(s.gw1.read(), "5001") && strings.Contains(s.gw1.read(), "opus") })
	decided := p.In("region", "What was decided")
	decided.WaitText("Repush: flow cam-1 on gw-1, but for audio/codec")
	s.byKeyboard(t, p, keyed{verb: "Undo", role: "region", part: "What was decided", line: "steady drift undo " + s.newest()})
	decided.WaitText("undone")
	s.until("the device to have what it had", func() bool { return strings.Contains(s.gw1.read(), "6001") })
	p.Go(s.server.OperatorURL() + "/drift/" + s.episode("cam-2"))
	fields.WaitText("both: conflict")
	p.In("region", "Fields").Choose("button", "All theirs")
	p.In("region", "Decide").WaitText("nothing is pushed to gw-1")
	s.byKeyboard(t, p, keyed{verb: "Ingest", role: "region", part: "Decide", line: "steady drift resolve " + s.episode("cam-2") + " --ingest"})
	p.WaitText("It is not open any more")
	s.untilStatus("cam-2", drift.Pushed)
}

func flowsFlow(t *testing.T, s *site, p *browse.Page) {
	flows := p.In("group", "Flows")
	flows.WaitText("✖failed gw-4")
	flows.WaitText("bitrate: 9000 is too much")
	p.Write("searchbox", "Part of its name or a node's", "gw-1")
	p.WaitText("2 in all")
	p.Choose("DisclosureTriangle", "New flow…")
	p.Write("textbox", "Name", "cam-3")
	p.Press("Enter")
	p.Wait("heading", "Flow cam-3")
	p.Write("combobox", "Node", "gw-1")
	config := p.In("group", "Config of flow")
	for _, f := range [][2]string{{"input", "udp://239.0.0.1:5002"}, {"audio.codec", "aac"}, {"password", "not-for-the-server"}, {"live", "true"},
		{"serial", "9007199254740993"}, {"gain", "1.0"}, {"fallback", "null"}} {
		config.Write("textbox", "Add a field", f[0])
		config.Write("textbox", "Its value, as JSON or a text", f[1])
		p.Press("Enter")
		config.WaitText(f[0][strings.LastIndexByte(f[0], '.')+1:])
	}
	p.Expect("status of 422")
	p.Choose("button", "Preview")
	config.In("alert", "").WaitText("field password is a secret")
	usable(t, p, "")
	config.Write("textbox", "password", "")
	p.Until("the text to say so", `!document.getElementById("source").value.includes("password")`)
	p.Choose("button", "Preview")
	p.In("group", "Fields that change on gw-1, flow").WaitText("audio/codec not set aac")
	s.byKeyboard(t, p, keyed{verb: "Set", role: "region", part: "Make", line: "steady flow create cam-3 -f cam-3.yaml"})
	p.In("region", "Pushes").WaitText("●pushed")
	if got := s.gw1.read(); !strings.Contains(got, `"live": true`) && !strings.Contains(got, `"live":true`) {
		t.Errorf("the device has %s", got)
	}
	// What nobody touched stays as it is, in a browser too: null, every digit, and a float.
	p.Go(s.server.OperatorURL() + "/config/flow/cam-3?edit=1")
	p.In("region", "Change").Write("textbox", "input", "udp://239.0.0.1:5003")
	p.Until("the text to say so", `document.getElementById("source").value.includes("5003")`)
	s.byKeyboard(t, p, keyed{verb: "Set", role: "region", part: "Change", line: "steady flow edit cam-3 -f cam-3.yaml"})
	s.untilStatus("cam-3", drift.Pushed)
	o := testkit.Value(s.op.Object(s.ctx(), "flow", "cam-3"))(t)
	if want := `{"audio":{"codec":"aac"},"fallback":null,"gain":1.0,"input":"udp://239.0.0.1:5003","live":true,"serial":9007199254740993}`; string(o.Definition.Legs[0].Config) != want {
		t.Errorf("it is %s, want %s", o.Definition.Legs[0].Config, want)
	}
}

func flowFlow(t *testing.T, s *site, p *browse.Page) {
	change := p.In("region", "Change")
	change.Write("textbox", "bitrate", "fast")
	change.WaitText("expected a number")
	change.Write("textbox", "bitrate", "2500")
	s.byKeyboard(t, p, keyed{verb: "Set", role: "region", part: "Change", line: "steady flow edit cam-2 -f cam-2.yaml"})
	p.In("region", "Definition").WaitText(`"bitrate": 2500`)
	s.untilStatus("cam-2", drift.Pushed)
	o := testkit.Value(s.op.Object(s.ctx(), "flow", "cam-2"))(t)
	p.In("region", "History").Choose("link", fmt.Sprintf("Load as a draft version %d", o.Version-1))
	p.Until("the draft to be there", `document.getElementById("source").value.includes('bitrate: 4000')`)
	p.In("region", "Change").Choose("link", "Leave it")
	p.In("region", "Timeline").WaitText("config.set")
	p.In("region", "Timeline").Choose("link", "All of it")
	p.Wait("heading", "Log")
	p.WaitText("config_sync.push_succeeded")
	p.Go(s.server.OperatorURL() + "/config/flow/cam-2?at=" + fmt.Sprint(s.server.Control().Head().Seq))
	p.WaitText("As it was at")
	p.In("region", "Definition").WaitText(`"bitrate": 2500`)
	if n := browse.Eval[int](p, `document.querySelectorAll("[data-verb]").length`); n > 0 {
		t.Errorf("%d verbs are offered in the past", n)
	}
	p.Go(s.server.OperatorURL() + "/config/flow/cam-2")
	s.byKeyboard(t, p, keyed{verb: "Remove", role: "group", part: "Verbs", line: "steady flow rm cam-2"})
	s.until("the device to have it no more", func() bool { return !strings.Contains(s.gw1.read(), "cam-2") })
}

func tunnelFlow(t *testing.T, s *site, p *browse.Page) {
	p.TabTo("combobox", "Mode")
	p.Type("relay")
	p.In("group", "Relay").Write("combobox", "Node", "relay-1")
	p.In("group", "Ingress").Write("combobox", "Node", "edge-1")
	p.In("group", "Egress").Write("combobox", "Node", "gw-4")
	shared := p.In("group", "Shared")
	shared.Write("textbox", "Add a field", "enabled")
	shared.Write("textbox", "Its value, as JSON or a text", "true")
	p.Press("Enter")
	p.Expect("status of 422")
	p.Choose("button", "Preview")
	p.In("group", "Egress").In("alert", "").WaitText("node gw-4 has no objects of kind tunnel")
	p.In("group", "Egress").Write("combobox", "Node", "edge-2")
	p.Choose("button", "Preview")
	p.WaitText("Then it waits: node edge-2 has never registered. Next: steady node token edge-2")
	s.byKeyboard(t, p, keyed{verb: "Set", role: "region", part: "Make", line: "steady tunnel create studio -f studio.yaml"})
	p.In("region", "Pushes").WaitText("egress edge-2")
	p.Go(s.server.OperatorURL() + "/config/tunnel")
	p.WaitText("studio ▲pending") // its worst leg
}

// deletionsFlow decides about a flow that somebody deleted on the node, and about one that they made:
// it goes on the server, it goes on the node, and each is undone.
func deletionsFlow(t *testing.T, s *site, p *browse.Page) {
	byHand := func(name, config string) {
		all := map[string]json.RawMessage{}
		testkit.Must(t, json.Unmarshal([]byte(s.gw1.read()), &all))
		delete(all, name)
		if config != "" {
			all[name] = json.RawMessage(config)
		}
		s.gw1.write(string(testkit.Value(json.Marshal(all))(t)))
	}
	open := func(name, kind string) (id string) {
		s.untilNode("gw-1", name+" to be "+kind, func(n *drift.Node) bool {
			e := n.Episodes[drift.Key(nodeconfig.Flow, name)]
			if e != nil {
				id = e.Episode
			}
			return e != nil && e.Drift == kind
		})
		p.Go(s.server.OperatorURL() + "/drift/" + id)
		p.WaitText("flow " + name)
		return id
	}
	decide := func(id, verb, flag string) {
		s.byKeyboard(t, p, keyed{verb: verb, role: "region", part: "Decide", line: "steady drift resolve " + id + " " + flag})
		p.WaitText("It is not open any more")
	}
	undo := func() {
		s.byKeyboard(t, p, keyed{verb: "Undo", role: "region", part: "What was decided", line: "steady drift undo " + s.newest()})
	}
	p.In("region", "What it has").WaitText("flow cam-3")
	byHand("cam-3", "")
	p.In("region", "Drift").WaitText("missing")
	decide(open("cam-3", drift.Missing), "Delete on the server", "--delete=server")
	undo()
	decide(open("cam-3", drift.Missing), "Repush", "--repush")
	s.until("the device to have it again", func() bool { return strings.Contains(s.gw1.read(), "cam-3") })
	byHand("cam-9", cam2)
	decide(open("cam-9", drift.Extraneous), "Delete on the node", "--delete=node")
	s.until("the device to have it no more", func() bool { return !strings.Contains(s.gw1.read(), "cam-9") })
	undo()
	s.until("the device to have it again", func() bool { return strings.Contains(s.gw1.read(), "cam-9") })
}

// What a node names, has or says is shown as text, and nothing of it runs.
func TestBrowserRunsNoScriptOfNodes(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	n := w.wireNode("evil")
	id := evil("id")
	n.edit = func(h *nodesdk.Hello) { h.Driver, h.Program = evil("driver"), evil("program") }
	config := testkit.Value(json.Marshal(map[string]any{evil("field"): evil("value")}))(t)
	n.objects = []nodesdk.Object{{Kind: nodeconfig.Flow, ID: id, ETag: "e1", Config: config}}
	n.join()
	n.compared()
	testkit.Must(t, w.op.DismissAdoption(w.ctx(), "evil", evil("reason")))
	n.compared()
	w.untilNode("evil", "drift", func(n *drift.Node) bool { return len(n.Episodes) == 1 })
	p := w.browser(t, w.adminSecret(), "/")
	for path, text := range map[string]string{"/nodes": "evil", "/nodes/evil": id, "/drift": id, "/drift/d1": evil("value"), "/log?about=node/evil": "evil", "/config/flow": "Flows"} {
		p.Go(w.server.OperatorURL() + path)
		p.WaitText(text)
		p.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
		if ran := browse.Eval[bool](p, `window.ran !== undefined || document.querySelector("img, main style, main script") !== null`); ran {
			t.Errorf("on %s a text became a part of the page, or ran", path)
		}
	}
}

// TestBrowserDriftOverPages: what is chosen on one page of episodes stays chosen on the next, and a page that became
// empty leads back.
func TestBrowserDriftOverPages(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	d := w.registered("gw-1", `{}`)
	flows := map[string]any{}
	for i := range 51 { // a page has 50
		flows[fmt.Sprintf("f-%02d", i)] = map[string]any{"n": i}
		if i == 25 || i == 50 { // more at once would be one question
			d.write(string(testkit.Value(json.Marshal(flows))(t)))
			w.untilNode("gw-1", "all drifts", func(n *drift.Node) bool { return len(n.Episodes) == i+1 })
		}
	}
	p := w.browser(t, w.adminSecret(), "/drift")
	boxes := `document.querySelectorAll("tbody input[type=checkbox]")`
	p.Until("the first page to be there", boxes+`.length === 50`)
	browse.Eval[bool](p, boxes+`[0].click() ?? true`)
	p.Click("link", "Next")
	p.Until("the second page to be there", boxes+`.length === 1`)
	browse.Eval[bool](p, boxes+`[0].click() ?? true`)
	several := p.In("group", "Decide about several")
	several.WaitText("with 2")
	several.Click("button", "Preview")
	p.In("group", "What would be decided").WaitText(`flow "f-00"`)
	p.In("group", "What would be decided").WaitText(`flow "f-50"`)

	delete(flows, "f-50")
	d.write(string(testkit.Value(json.Marshal(flows))(t)))
	p.WaitText("none of 50")
	p.Click("link", "Previous")
	p.Until("the first page to be there again", boxes+`.length === 50`)
}
