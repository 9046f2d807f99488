package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// refusing has a device refuse whatever it is sent while a file is there.
func refusing(t *testing.T, d *device) (busy string) {
	busy = filepath.Join(t.TempDir(), "busy")
	d.driver.Validate = []string{"test", "!", "-e", busy}
	testkit.Must(t, os.WriteFile(busy, nil, 0o600))
	return busy
}

func flow(node, config string) nodeconfig.Definition {
	return nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: node, Config: json.RawMessage(config)}}}
}

// TestFailedPushOnReconnect: with a back-off of a day, what failed is pushed when its node connects again, when
// somebody asks for it, and when its definition is set again; each time it is in the log who asked.
func TestFailedPushOnReconnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) {
		o.Control.Config.PushBackoff = drift.Backoff{First: clock.Day, Most: clock.Day}
	})
	d := w.newDevice("gw-1", `{}`)
	busy := refusing(t, d)
	d.register()

	mend := map[string]func(){
		"connects": func() { d.stop(); d.run() },
		"flow": func() {
			out := testkit.Value(w.op.PushObject(w.ctx(), nodeconfig.Flow, "flow", operator.PushNow{DryRun: true}))(t)
			if len(out) != 1 || !out[0].Now {
				t.Errorf("a dry run comes to %+v", out)
			}
			w.untilStatus("flow", drift.Failed)
			testkit.Value(w.op.PushObject(w.ctx(), nodeconfig.Flow, "flow", operator.PushNow{Reason: "it is free"}))(t)
		},
		"node": func() { testkit.Value(w.op.PushNode(w.ctx(), "gw-1", operator.PushNow{Reason: "it is free"}))(t) },
		"again": func() {
			o := testkit.Value(w.op.SetObject(w.ctx(), nodeconfig.Flow, "again", operator.SetObject{Definition: flow("gw-1", `{"x":1}`)}))(t)
			if !o.Unchanged || o.Requested != 1 || o.Version != 1 {
				t.Errorf("the same definition again is answered with version %d, unchanged %v, %d pushes", o.Version, o.Unchanged, o.Requested)
			}
		},
	}
	for _, name := range []string{"connects", "flow", "node", "again"} {
		testkit.Must(t, os.WriteFile(busy, nil, 0o600))
		o := testkit.Value(w.op.SetObject(w.ctx(), nodeconfig.Flow, name, operator.SetObject{Definition: flow("gw-1", `{"x":1}`), Create: true}))(t)
		if o.Unchanged {
			t.Error("a new flow is said to be unchanged")
		}
		w.untilStatus(name, drift.Failed)
		testkit.Must(t, os.Remove(busy))
		mend[name]()
		w.untilStatus(name, drift.Pushed)
		var asked []string
		for _, e := range testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: []event.Subject{{Kind: nodeconfig.Flow, Name: name}}, Limit: 100}))(t).Events {
			if e.Type == "config_sync.push_requested" {
				asked = append(asked, string(e.Body))
			}
		}
		if want := name != "connects"; (len(asked) == 1 && strings.Contains(asked[0], `"actor":"admin (`)) != want {
			t.Errorf("%s: the log says that it was asked for: %q", name, asked)
		}
	}
	for name, want := range map[string]string{"flow": "", "unknown": "there is no flow"} {
		out, err := w.op.PushObject(w.ctx(), nodeconfig.Flow, name, operator.PushNow{Reason: "again"})
		if len(out) > 0 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a push of %s is answered with %v, %v", name, out, err)
		}
	}
	d.stop()
	w.untilNode("gw-1", "it is offline", func(n *drift.Node) bool { return !n.Online })
	w.set("gw-1", "later", `{"x":1}`)
	if _, err := w.op.PushNode(w.ctx(), "gw-1", operator.PushNow{Reason: "now"}); err == nil || !strings.Contains(err.Error(), "is offline") || !strings.Contains(err.Error(), "steady node run") {
		t.Errorf("a push to a node that is away is answered with %v", err)
	}
}

// TestListHasWhatTheServerDoesNotKnow: a flow that was made on the device stands in the list of flows.
func TestListHasWhatTheServerDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.registered("gw-1", `{}`)
	d.write(`{"by-hand":{"x":1}}`)
	w.until("the flow is in the list", func() bool {
		return slices.ContainsFunc(testkit.Value(w.op.Objects(w.ctx(), nodeconfig.Flow))(t), func(o drift.ObjectRow) bool {
			return o.Name == "by-hand" && o.Local && o.Status == drift.NotKnown && o.Summary.Word == drift.Extraneous && o.Legs[0].Node == "gw-1" && o.Legs[0].Episode != ""
		})
	})
	if _, err := w.op.Object(w.ctx(), nodeconfig.Flow, "by-hand"); err == nil || !strings.Contains(err.Error(), "steady drift show d1") {
		t.Errorf("it is shown with %v", err)
	}
	needs := testkit.Value(w.op.Node(w.ctx(), "gw-1"))(t).Needs
	if len(needs) != 1 || !strings.Contains(needs[0], "1 difference") {
		t.Errorf("the node needs a person for %q", needs)
	}
}
