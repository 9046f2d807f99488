package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

// wireFaults are put on the connection between a node and the server, one after the other.
// Those that end it come few: each has the node wait twice as long.
var wireFaults = []struct {
	fault, direction string
	attributes       map[string]any
	ends, cut        bool // the connection, by itself, or by the test
}{
	{fault: "latency", direction: testkit.ToServer, attributes: map[string]any{"latency": 100, "jitter": 100}},
	{fault: "slicer", direction: testkit.ToClient, attributes: map[string]any{"average_size": 40, "size_variation": 20, "delay": 500}},
	{fault: "timeout", direction: testkit.ToServer, attributes: map[string]any{"timeout": 0}, cut: true}, // acknowledgements are lost
	{fault: "limit_data", direction: testkit.ToServer, attributes: map[string]any{"bytes": 2000}, ends: true},
	{fault: "reset_peer", direction: testkit.ToClient, attributes: map[string]any{"timeout": 0}, ends: true},
	{fault: "timeout", direction: testkit.ToClient, attributes: map[string]any{"timeout": 0}, cut: true}, // operations are lost
	{fault: "bandwidth", direction: testkit.ToServer, attributes: map[string]any{"rate": 20}},
}

// edits is how many are made in all.
const edits = 100

// TestFaultsOnTheWire: while faults of the connection delay, cut and lose what a node and the
// server say to each other, operators make a hundred objects and somebody edits by hand. Each
// comes to the device once, the hand edit stays, and all is pushed in the end.
func TestFaultsOnTheWire(t *testing.T) {
	t.Parallel()
	p, wire := newWiredPlant(t)
	g := newGates(t)
	n := p.node("edge", "file", g.options()...)
	n.start("--server", wireURL(wire))
	p.set(nodeconfig.Flow, "by-hand", "edge", `{"input":"declared"}`)
	p.pushed(nodeconfig.Flow, "by-hand")
	p.settled("edge")
	begin, made := g.replaced(), 0
	for i, f := range wireFaults {
		t.Log(f.fault, f.direction)
		var session uint64
		p.untilNode("edge", "has all", func(d drift.NodeDetail) bool { // so that the fault comes into the middle of something
			session = d.Session
			return d.Status == drift.NodeOnline && d.Legs[drift.Pending]+d.Legs[drift.Pushing]+d.Legs[drift.Failed] == 0
		})
		wire.Add(f.fault, f.direction, f.attributes)
		for ; made < edits*(i+1)/len(wireFaults); made++ {
			p.set(nodeconfig.Flow, fmt.Sprintf("f-%03d", made), "edge", fmt.Sprintf(`{"input":"udp://%d"}`, made))
			if made == edits/2 {
				g.edit("by-hand", `{"input":"edited"}`)
			}
		}
		if f.cut {
			testkit.Eventually(t, "an operation is on its way, or a ping was lost first", func() bool {
				d := testkit.Value(p.client.Node(t.Context(), "edge"))(t)
				return d.Status == drift.NodeOffline || d.Legs[drift.Pushing] > 0 && (f.direction == testkit.ToClient || n.operationsDone() > uint64(d.Legs[drift.Pushed]))
			})
			wire.Cut()
		}
		if f.cut || f.ends {
			p.untilNode("edge", "lost its connection", func(d drift.NodeDetail) bool { return d.Session > session || d.Status == drift.NodeOffline })
		}
		wire.Remove(f.fault, f.direction)
		if f.cut {
			wire.Mend()
		}
	}
	for i := range edits {
		p.pushed(nodeconfig.Flow, fmt.Sprintf("f-%03d", i))
	}
	e := p.episode("edge", "by-hand", drift.Mismatched)
	if got := g.objects()["by-hand"]; !strings.Contains(string(got), "edited") || !strings.Contains(string(e.Actual), "edited") {
		t.Errorf("what was edited by hand is %s", got)
	}
	for i := range edits {
		if got := string(g.objects()[fmt.Sprintf("f-%03d", i)]); !strings.Contains(got, fmt.Sprintf(`"udp://%d"`, i)) {
			t.Errorf("object %d is %s", i, got)
		}
	}
	if times := g.replaced() - begin; times != edits {
		t.Errorf("the device was changed %d times by %d edits", times, edits)
	}
	readBack, sessions, drifts := 0, 0, 0
	for _, e := range p.happened() {
		switch ev := testkit.Value(event.DecodeBody(e.Type, e.Body))(t).(type) {
		case event.PushSucceeded:
			if ev.ReadBack {
				readBack++
			}
		case event.NodeConnected:
			sessions++
		case event.DriftExtraneous, event.DriftMissing, event.DriftMismatched:
			drifts++
		}
	}
	t.Logf("%d sessions, %d lost acknowledgements were read back", sessions, readBack)
	if readBack == 0 || sessions < 4 {
		t.Error("the faults did nothing")
	}
	if drifts != 1 {
		t.Errorf("%d episodes were opened, the hand edit is one", drifts)
	}
	p.whole()
}

func (g *gates) objects() (all map[string]json.RawMessage) {
	g.t.Helper()
	testkit.Must(g.t, json.Unmarshal(testkit.Value(os.ReadFile(g.path))(g.t), &all))
	return all
}

// edit is a person with an editor.
func (g *gates) edit(id, config string) {
	g.t.Helper()
	for { // the driver replaces the file as well
		before := testkit.Value(os.ReadFile(g.path))(g.t)
		var all map[string]json.RawMessage
		testkit.Must(g.t, json.Unmarshal(before, &all))
		all[id] = json.RawMessage(config)
		err := disk.ReplaceOnly(g.path, before, testkit.Value(json.Marshal(all))(g.t), 0o600, nil)
		if err == nil {
			return
		}
		if !errors.Is(err, disk.ErrChanged) && !errors.Is(err, fs.ErrNotExist) { // the driver took the other name for a leftover
			g.t.Fatal(err)
		}
	}
}
