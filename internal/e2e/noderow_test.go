package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/netconf"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// gear is a real device, as a person beside it has it. What is nil does not apply.
type gear struct {
	driver  string
	options []string
	kind    string
	only    string                   // the name of its one object; empty where it has several
	config  func(mark string) string // of the objects a and b, which differ by a mark; see field
	field   string                   // that has the mark
	has     func(id string) string   // what the device has, past the driver, empty for none
	// byAPI and byFile are a person: they have an object be with a mark, or delete it.
	byAPI, byFile func(id, mark string)
	restart       func() // with what it keeps
	restartEmpty  func() // as one that lost everything
}

// gears has a row for each driver.
var gears = map[string]func(t *testing.T) *gear{
	"file":      fileGear,
	"janus":     janusGear,
	"caddy":     caddyGear,
	"toxiproxy": toxiproxyGear,
	"netconf":   netconfGear,
	"kea":       keaGear,
}

func fileGear(t *testing.T) *gear {
	path := filepath.Join(t.TempDir(), "flows.json")
	testkit.Must(t, os.WriteFile(path, []byte("{}"), 0o600))
	all := func() map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile(path))(t), &m))
		return m
	}
	config := func(mark string) string { return fmt.Sprintf(`{"input":%q}`, mark) }
	return &gear{driver: "file", options: []string{"path=" + path}, kind: nodeconfig.Flow, field: "/input", config: config,
		has: func(id string) string { return string(all()[id]) },
		byFile: func(id, mark string) {
			m := all()
			delete(m, id)
			if mark != "" {
				m[id] = json.RawMessage(config(mark))
			}
			next := path + ".new"
			testkit.Must(t, os.WriteFile(next, testkit.Value(json.Marshal(m))(t), 0o600))
			testkit.Must(t, os.Rename(next, path))
		},
		restart: func() {},
	}
}

func janusGear(t *testing.T) *gear {
	j := testkit.StartJanus(t)
	ports := testkit.Ports(t, "udp", 2)
	number := map[string]int{"janus-a": 4711, "janus-b": 4712}
	fields := func(mark string) string {
		port := ports[0]
		if strings.HasPrefix(mark, "b") {
			port = ports[1]
		}
		return fmt.Sprintf(`{"type":"rtp","description":%q,"media":[{"mid":"v","type":"video","port":%d,"pt":100,"codec":"vp8"}]}`, mark, port)
	}
	list := func() map[string]map[string]any {
		data := testkit.Value(j.Request(map[string]any{"request": "list"}))(t)
		out := map[string]map[string]any{}
		streams, _ := data["list"].([]any)
		for _, s := range streams {
			id := s.(map[string]any)["id"]
			data, err := j.Request(map[string]any{"request": "info", "id": id})
			if err != nil { // it went meanwhile
				continue
			}
			info := data["info"].(map[string]any)
			out[fmt.Sprint(info["name"])] = info
		}
		return out
	}
	return &gear{driver: "janus", options: []string{"url=" + j.URL, "config-dir=" + j.Dir}, kind: nodeconfig.Flow, field: "/description", config: fields,
		has: func(id string) string {
			if m := list()[id]; m != nil {
				return string(testkit.Value(json.Marshal(m))(t))
			}
			return ""
		},
		byAPI: func(id, mark string) {
			key := any(number[id])
			if m := list()[id]; m != nil {
				key = m["id"]
				testkit.Value(j.Request(map[string]any{"request": "destroy", "id": key, "permanent": true}))(t)
			}
			if mark == "" {
				return
			}
			req := map[string]any{}
			testkit.Must(t, json.Unmarshal([]byte(fields(mark)), &req))
			req["request"], req["name"], req["id"], req["permanent"], req["admin_key"] = "create", id, key, true, testkit.JanusAdminKey
			testkit.Value(j.Request(req))(t)
		},
		byFile: func(id, mark string) { // with an editor, and a restart
			raw := string(testkit.Value(os.ReadFile(j.File()))(t))
			edited := regexp.MustCompile(`(description = )"[^"]*"`)
			at := strings.Index(raw, "\n"+id+" : ")
			if at < 0 {
				t.Fatalf("%s is not in\n%s", id, raw)
			}
			j.Write(filepath.Base(j.File()), raw[:at]+edited.ReplaceAllString(raw[at:], `$1"`+mark+`"`))
			j.Restart()
		},
		restart:      j.Restart,
		restartEmpty: func() { j.Kill(); j.Write(filepath.Base(j.File()), testkit.JanusStreaming); j.Restart() },
	}
}

func caddyGear(t *testing.T) *gear {
	c := testkit.StartCaddy(t)
	ports := testkit.Ports(t, "tcp", 2)
	config := func(mark string) string {
		port := ports[0]
		if strings.HasPrefix(mark, "b") {
			port = ports[1]
		}
		return fmt.Sprintf(`{"automatic_https":{"disable":true},"listen":["127.0.0.1:%d"],"routes":[{"handle":[{"handler":"static_response","body":%q}]}]}`, port, mark)
	}
	at := func(id string) string { return "/config/apps/http/servers/" + id }
	has := func(id string) string {
		raw, err := c.Do(http.MethodGet, at(id), nil)
		if err != nil || strings.TrimSpace(string(raw)) == "null" {
			return ""
		}
		return string(raw)
	}
	watching := false
	return &gear{driver: "caddy", options: []string{"url=" + c.URL}, kind: nodeconfig.Flow, field: "/routes", config: config, has: has,
		byAPI: func(id, mark string) {
			if mark == "" {
				testkit.Value(c.Do(http.MethodDelete, at(id), nil))(t)
				return
			}
			testkit.Value(c.Do(http.MethodPost, at(id), json.RawMessage(config(mark))))(t)
		},
		byFile: func(id, mark string) { // of one that watches its file
			whole := testkit.Value(c.Do(http.MethodGet, "/config/", nil))(t)
			if !watching {
				watching = true
				c.Write(whole)
				c.Restart("--watch")
			}
			c.Write(regexp.MustCompile(`"body":"[^"]*"`).ReplaceAll(whole, []byte(`"body":"`+mark+`"`)))
			testkit.Eventually(t, "Caddy loads its file", func() bool { return strings.Contains(has(id), mark) })
		},
		restart:      func() { c.Restart("--resume") },
		restartEmpty: func() { c.Write(c.Empty); c.Restart() },
	}
}

func toxiproxyGear(t *testing.T) *gear {
	x := testkit.StartToxiproxy(t, testkit.ToxiproxyProgram(t))
	listen := map[string]string{"a": testkit.FreeAddr(t), "b": testkit.FreeAddr(t)}
	config := func(mark string) string {
		return fmt.Sprintf(`{"listen":%q,"upstream":"%s:9"}`, listen[mark[:1]], mark)
	}
	has := func(id string) string {
		raw, err := x.Do(http.MethodGet, "/proxies/"+id, nil)
		if err != nil {
			return ""
		}
		return string(raw)
	}
	return &gear{driver: "toxiproxy", options: []string{"url=http://" + x.Addr}, kind: nodeconfig.Tunnel, field: "/upstream", config: config, has: has,
		byAPI: func(id, mark string) {
			if has(id) != "" {
				testkit.Value(x.Do(http.MethodDelete, "/proxies/"+id, nil))(t)
			}
			if mark != "" {
				to := map[string]any{}
				testkit.Must(t, json.Unmarshal([]byte(config(mark)), &to))
				to["name"], to["enabled"] = id, true
				testkit.Value(x.Do(http.MethodPost, "/proxies", to))(t)
			}
		},
		restartEmpty: x.Restart,
	}
}

// netconfHand is a person with a session of their own, which writes no file by itself.
type netconfHand struct {
	*netconf.Driver
	t *testing.T
}

func newNetconfHand(t *testing.T, w *testkit.Netconf) *netconfHand {
	d, _, err := netconf.Open(w.Options())
	testkit.Must(t, err)
	h := &netconfHand{d.(*netconf.Driver), t}
	t.Cleanup(h.Close)
	return h
}

func (h *netconfHand) find(id string) *nodesdk.Item {
	s, err := h.Snapshot(h.t.Context())
	for i := range s.Items {
		if err == nil && s.Items[i].ID == id {
			return &s.Items[i]
		}
	}
	return nil
}

// edit has an object be; without a config it goes.
func (h *netconfHand) edit(id string, config json.RawMessage) {
	testkit.Eventually(h.t, "another session edits "+id, func() bool { // the device has one lock
		return h.Apply(h.t.Context(), nodesdk.Op{Number: 1, Kind: nodeconfig.Flow, ID: id, Was: h.find(id), Delete: config == nil, Config: config}) == nil
	})
}

// pairs are options as the command has them.
func pairs(options map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out = append(out, name+"="+options[name])
	}
	return out
}

func netconfGear(t *testing.T) *gear {
	w := testkit.StartNetconf(t)
	hand := newNetconfHand(t, w)
	config := func(mark string) string { // a port is unique
		return fmt.Sprintf(`{"port":%d,"auth":{"user":%q}}`, 5000+int(mark[0]), mark)
	}
	return &gear{driver: "netconf", options: pairs(w.Options()), kind: nodeconfig.Flow, field: "/auth/user", config: config,
		has: func(id string) string {
			if it := hand.find(id); it != nil {
				return string(it.Config)
			}
			return ""
		},
		byAPI: func(id, mark string) {
			if mark == "" {
				hand.edit(id, nil)
				return
			}
			hand.edit(id, json.RawMessage(config(mark)))
		},
		restart:      func() { w.Restart(false) },
		restartEmpty: func() { w.Restart(true) },
	}
}

// keaGear has one document.
func keaGear(t *testing.T) *gear {
	k := testkit.StartKea(t)
	document := func(mark string) map[string]any {
		if mark == "" {
			return nil
		}
		return map[string]any{"valid-lifetime": 3600, "server-tag": mark}
	}
	return &gear{driver: "kea", options: []string{"url=" + k.URL, "file=" + k.File, "local=" + testkit.KeaLocal}, kind: nodeconfig.Document, only: "Dhcp4", field: "/server-tag",
		config: func(mark string) string { return string(testkit.Value(json.Marshal(document(mark)))(t)) },
		has: func(string) string {
			config, err := k.Config()
			if err != nil {
				return ""
			}
			tag, _ := config["server-tag"].(string)
			return tag
		},
		byAPI:        func(_, mark string) { k.Set(document(mark)) },
		byFile:       func(_, mark string) { k.Edit(document(mark)) },
		restart:      func() { k.Restart(false) },
		restartEmpty: func() { k.Restart(true) },
	}
}

// trial is one device with its node, and what the server is to have of it.
type trial struct {
	*plant
	*gear
	t    *testing.T
	node string
	a, b string // its objects
}

// shows waits until the device has an object with a mark, or no such object.
func (r *trial) shows(id, mark string) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("%s has %s with %q", r.driver, id, mark), func() bool {
		now := r.has(id)
		return mark == "" && now == "" || mark != "" && strings.Contains(now, mark)
	})
}

// wants has an operator want an object, which the device then has.
func (r *trial) wants(id, mark string) {
	r.t.Helper()
	r.set(r.kind, id, r.node, r.gear.config(mark))
	r.pushed(r.kind, strings.ToLower(id))
	r.shows(id, mark)
}

// drifts waits for an episode, in which the device has what a person made of it. Nothing is
// changed by it.
func (r *trial) drifts(id, kind, mark string) drift.EpisodeDetail {
	r.t.Helper()
	e := r.episode(r.node, id, kind)
	if kind == drift.Mismatched {
		r.differs(e, mark)
	}
	r.shows(id, mark)
	return e
}

// differs checks that the field with the mark differs, and no other one.
func (r *trial) differs(e drift.EpisodeDetail, mark string) {
	r.t.Helper()
	var found []string
	for _, f := range e.Table {
		if f.Cause == "" {
			continue
		}
		found = append(found, f.Field)
		if f.Actual == nil || !strings.Contains(*f.Actual, mark) || f.Desired == nil || f.Acknowledged == nil || *f.Desired != *f.Acknowledged {
			r.t.Errorf("%s: field %s is acknowledged as %s, desired as %s, and is %s", r.driver, f.Field, text(f.Acknowledged), text(f.Desired), text(f.Actual))
		}
	}
	if len(found) != 1 || "/"+strings.TrimPrefix(found[0], "/") != r.field {
		r.t.Errorf("%s: the fields %q differ, expected %s alone", r.driver, found, r.field)
	}
}

func text(s *string) string {
	if s == nil {
		return "nothing"
	}
	return *s
}

// TestNodesOfRealPrograms: each driver, run by steady node run beside its real program, against
// the real server: what operators want is made, changed and deleted; what people change by the
// program's API and in its files is drift of each of the three kinds, with its fields; each
// decision about it, and its undo, come to the device; restarts lose nothing.
func TestNodesOfRealPrograms(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	var all sync.WaitGroup // they wait for time to pass: all at once, however many tests may be
	for name, start := range gears {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				r := &trial{plant: p.of(t), gear: start(t), t: t, node: "of-" + name, a: name + "-a", b: name + "-b"}
				if r.only != "" {
					r.a, r.b = r.only, r.only
				}
				r.join(r.node, r.driver, r.options...)
				r.edits()
				r.mismatches()
				r.misses()
				r.finds()
				r.restarts()
			})
		})
	}
	all.Wait()
	p.whole()
}

func (r *trial) edits() {
	r.wants(r.a, "a-first")
	r.wants(r.a, "a-second")
	if r.only == "" {
		r.wants(r.b, "b-first")
		r.removes(r.b)
	}
}

// removes has an operator remove an object, which the device then has not.
func (r *trial) removes(id string) {
	r.t.Helper()
	testkit.Must(r.t, r.client.RemoveObject(r.t.Context(), r.kind, strings.ToLower(id), "trial"))
	r.shows(id, "")
	r.settled(r.node)
}

// mismatches is a hand edit, by each way that the device has, with the two decisions.
func (r *trial) mismatches() {
	for i, edit := range []func(id, mark string){r.byAPI, r.byFile} {
		if edit == nil {
			continue
		}
		hand := []string{"a-by-api", "a-by-file"}[i]
		edit(r.a, hand)
		undo := r.resolve(r.drifts(r.a, drift.Mismatched, hand), drift.ActionRepush)
		r.shows(r.a, "a-second")
		r.settled(r.node)
		r.undo(undo) // the hand edit is back, and is what is wanted
		r.shows(r.a, hand)
		r.settled(r.node)
		r.wants(r.a, "a-second")

		edit(r.a, hand)
		undo = r.resolve(r.drifts(r.a, drift.Mismatched, hand), drift.ActionIngest)
		r.settled(r.node)
		r.shows(r.a, hand)
		r.undo(undo) // it is drift again
		r.resolve(r.episode(r.node, r.a, drift.Mismatched), drift.ActionRepush)
		r.shows(r.a, "a-second")
		r.settled(r.node)
	}
}

// hand edits by the API, where there is one.
func (r *trial) hand(id, mark string) {
	if r.byAPI != nil {
		r.byAPI(id, mark)
		return
	}
	r.byFile(id, mark)
}

// misses is a deletion by hand.
func (r *trial) misses() {
	r.hand(r.a, "")
	r.resolve(r.drifts(r.a, drift.Missing, ""), drift.ActionRepush)
	r.shows(r.a, "a-second")
	r.settled(r.node)
	r.hand(r.a, "")
	undo := r.resolve(r.drifts(r.a, drift.Missing, ""), drift.ActionDeleteServer)
	r.settled(r.node)
	if o := r.object(r.kind, strings.ToLower(r.a)); o != nil && !o.Removed {
		r.t.Errorf("%s: a is deleted on the server, and is %+v", r.driver, o.ObjectRow)
	}
	r.undo(undo) // it is missing again, and not made without a word
	r.resolve(r.drifts(r.a, drift.Missing, ""), drift.ActionRepush)
	r.shows(r.a, "a-second")
	r.settled(r.node)
}

// finds is something that a person made.
func (r *trial) finds() {
	if r.only != "" {
		r.removes(r.a)
	}
	r.hand(r.b, "b-by-hand")
	undo := r.resolve(r.drifts(r.b, drift.Extraneous, "b-by-hand"), drift.ActionIngest)
	r.settled(r.node)
	if r.object(r.kind, strings.ToLower(r.b)) == nil {
		r.t.Errorf("%s: b was ingested, and the server has it not", r.driver)
	}
	r.undo(undo)
	undo = r.resolve(r.drifts(r.b, drift.Extraneous, "b-by-hand"), drift.ActionDeleteNode)
	r.shows(r.b, "")
	r.settled(r.node)
	r.undo(undo)
	r.shows(r.b, "b-by-hand")
	r.settled(r.node)
	if r.only != "" {
		r.wants(r.a, "a-second")
	}
}

// restarts has the device come back as it was, and as one that lost everything.
func (r *trial) restarts() {
	before := r.pushesOf(r.node)
	if r.restart != nil {
		r.restart()
		testkit.Must(r.t, r.client.ReconcileNode(r.t.Context(), r.node))
		r.settled(r.node)
		r.back()
	}
	if r.restartEmpty == nil {
		return
	}
	r.restartEmpty()
	lost := func() { testkit.Must(r.t, r.client.ResumeNode(r.t.Context(), r.node, resumePush)) }
	if r.only == "" {
		r.untilNode(r.node, "is paused", func(d drift.NodeDetail) bool { return d.Paused != nil && d.Paused.Code == drift.Emptied })
	} else {
		e := r.episode(r.node, r.only, drift.Missing)
		lost = func() { r.resolve(e, drift.ActionRepush) }
	}
	if now := r.pushesOf(r.node); now != before {
		r.t.Errorf("%s: %d operations were sent without a word of an operator", r.driver, now-before)
	}
	r.shows(r.a, "")
	lost()
	r.back()
	r.settled(r.node)
}

// back waits until the device has what it had before.
func (r *trial) back() {
	r.t.Helper()
	r.shows(r.a, "a-second")
	if r.only == "" {
		r.shows(r.b, "b-by-hand")
	}
}
