package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// TestSilentConnectionsKeepNoNodeOut: beside more connections of strangers than the server lets wait, a node of another address
// is let in when it comes, and one of the same address after a few tries.
func TestSilentConnectionsKeepNoNodeOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.attackers(attackJob{Attack: "silent sockets"})
	for from, most := range map[string]int{"127.0.0.2": 1, "127.0.0.3": 1, "127.0.0.1": 19} { // order-free: each by itself
		n := w.wireNode("gw-" + from[len(from)-1:])
		n.from = from
		tries, in := 0, false
		for !in && tries < 20 {
			tries++
			m, err := n.open(w.ctx())
			if in = err == nil && m.Welcome != nil; in {
				t.Cleanup(func() { _ = n.conn.CloseNow() })
				break
			}
			<-time.After(300 * time.Millisecond) // of a node that comes again
		}
		t.Logf("the node at %s is in after %d tries", from, tries)
		if !in || tries > most {
			t.Errorf("the node at %s is in: %v, after %d tries; expected at most %d", from, in, tries, most)
		}
	}
}

// TestStrangersLearnNoNames: a stranger is answered the same for a name that there is, one that was retired and one that there is
// not; the server's log has a few of the tries, with how many it left out.
func TestStrangersLearnNoNames(t *testing.T) {
	t.Parallel()
	var log lockedText
	w := newWorld(t, func(o *api.Options) { o.Control.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	good, gone := w.wireNode("gw-1"), w.wireNode("gw-2")
	good.join()
	gone.join()
	testkit.Value(w.server.Control().EditNodes(w.ctx(), drift.Retire{Node: "gw-2"}, drift.By{Actor: "op", Reason: "gone"}))(t)
	said := map[string]bool{}
	for _, name := range []string{"gw-1", "gw-2", "gw-3"} {
		n := w.wireNode(name)
		n.token = nil
		m := n.dial()
		if m.Refused == nil {
			t.Fatalf("%s is let in", name)
		}
		said[m.Refused.Code+": "+strings.ReplaceAll(m.Refused.Message, name, "NAME")] = true
	}
	if len(said) != 1 {
		t.Errorf("strangers are told %v", said)
	}
	for i := range 40 {
		n := w.wireNode(fmt.Sprint("x-", i))
		n.token = nil
		n.dial()
	}
	if lines := strings.Count(log.String(), "a node was refused"); lines < 3 || lines > 20 {
		t.Errorf("%d lines of 43 refused strangers", lines)
	}
	w.untilNode("gw-1", "nothing is held against it", func(n *drift.Node) bool { return n.Online && n.RefusedFor == "" })
}

// lockedText is text that goroutines write.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNodesShareOfTheLogOnTheWire: a node that has used its share is told so with a time, is named to operators and counted; other
// nodes are served, and it is once its time is over.
func TestNodesShareOfTheLogOnTheWire(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, func(o *api.Options) {
		o.Control.HostLog = server.RateLimit{Burst: 64 << 10, Tokens: 1, Per: clock.Minute}
		o.Control.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	good, bad := w.wireNode("good"), w.wireNode("bad")
	good.join()
	good.compared()
	var refused *nodesdk.Refused
	for i := 0; refused == nil && i < 29; i++ {
		bad.edit = func(h *nodesdk.Hello) {
			for j := range 30 {
				h.Collections[0].Ignored = append(h.Collections[0].Ignored, fmt.Sprint(i, "-", j, strings.Repeat("f", 200)))
			}
		}
		refused = bad.dial().Refused
	}
	if refused == nil || refused.Code != nodesdk.CodeTooMuch || refused.Final || refused.RetryAfter < 60_000 || !strings.Contains(refused.Message, "its share of the log") {
		t.Fatalf("it is answered %+v", refused)
	}
	w.untilNode("bad", "operators see why", func(n *drift.Node) bool { return n.RefusedFor == nodesdk.CodeTooMuch })
	if strings.Contains(w.scrape(), "steady_node_reports_limited_total 0\n") {
		t.Error("it is not counted")
	}
	w.set("good", "news", `{"input": "a"}`)
	good.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply == nil {
			return false
		}
		good.reply(m)
		return true
	})
	w.untilStatus("news", drift.Pushed)
	ahead.Store(int64(1000 * time.Hour))
	bad.edit = nil
	bad.join()
}

// TestNodeThatOverstatesItsOperation: it is refused with what to do, is marked, and its name is good when it tells the truth.
func TestNodeThatOverstatesItsOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.op = math.MaxUint64
	if r := n.dial().Refused; r == nil || r.Code != nodesdk.CodeMalformed || !strings.Contains(r.Message, "steady node retire gw-1") {
		t.Fatalf("it is answered %+v", r)
	}
	if c := w.eventsOf("gw-1", event.NodeRefused{}.EventType()); c != 1 {
		t.Errorf("%d events of it", c)
	}
	n.op = 0
	n.join()
	n.compared()
	w.set("gw-1", "news", `{"input": "a"}`)
	n.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply == nil {
			return false
		}
		n.reply(m)
		return true
	})
	w.untilStatus("news", drift.Pushed)
}

// TestPreviewsOfViewersAskNoDevice: what has a device run something is an operator's, and an event of who asked; a viewer gets
// the preview without it, and reads why.
func TestPreviewsOfViewersAskNoDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	asked := make(chan string, 10)
	go n.serve(context.Background(), func(m nodesdk.Message) bool {
		if m.Request.Validate != nil {
			asked <- m.Request.Validate.ID
		}
		return false
	})
	set := operator.SetObject{Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "gw-1", Config: []byte(`{"a":1}`)}}}}
	for i, role := range []operator.Role{operator.Viewer, operator.Releaser, operator.Operator, operator.Admin} {
		name, may := fmt.Sprint("f-", i), role == operator.Operator || role == operator.Admin
		p := testkit.Value(w.client(w.tokenOf(role, 0).Secret).PreviewObject(w.ctx(), nodeconfig.Flow, name, set))(t)
		if l := p.Legs[0]; l.Checked != may || (l.Unasked == "") != may || len(l.Fields) != 1 {
			t.Errorf("a %s reads %+v", role, l)
		}
		if len(asked) != map[bool]int{true: 1}[may] {
			t.Errorf("a %s has the device asked %d times", role, len(asked))
		}
		if may {
			<-asked
		}
	}
	if c := w.eventsOf("gw-1", event.NodeQueried{}.EventType()); c != 2 {
		t.Errorf("%d events of it", c)
	}
}

// TestClaimsAboutPortsOfOthersOnlyWarn: a node that says that it is on the machine of another one, and has all its ports, keeps
// no operator from setting what the other one is to have; where an operator placed both there it does, but for what is there already.
func TestClaimsAboutPortsOfOthersOnlyWarn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, liar := w.wireNode("good"), w.wireNode("liar")
	for _, n := range []*wireNode{good, liar} {
		n.edit = func(h *nodesdk.Hello) { h.Machine, h.Collections[0].Ports = "box", []string{"port", "all/*"} }
	}
	ports := make([]string, 300)
	for i := range ports {
		ports[i] = fmt.Sprintf(`"p%d":%[1]d`, 5000+i)
	}
	good.join()
	good.compared()
	w.set("good", "had", `{"port":5004,"x":1}`)
	go good.serve(context.Background(), func(nodesdk.Message) bool { return false })
	liar.join()
	liar.compared()
	liar.objects = []nodesdk.Object{{Kind: nodeconfig.Flow, ID: "all", ETag: "1", Config: []byte(`{"all":{` + strings.Join(ports, ",") + `}}`)}}
	go liar.serve(context.Background(), func(nodesdk.Message) bool { return false })
	testkit.Must(t, w.op.ReconcileNode(w.ctx(), "liar"))
	w.untilNode("liar", "it has its drift", func(n *drift.Node) bool { return len(n.Episodes) == 1 })
	put := func(name, config string, version uint64) (operator.ObjectPreview, error) {
		set := operator.SetObject{Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "good", Config: []byte(config)}}}, Version: version, Reason: "test"}
		p := testkit.Value(w.op.PreviewObject(w.ctx(), nodeconfig.Flow, name, set))(t)
		o, err := w.op.SetObject(w.ctx(), nodeconfig.Flow, name, set)
		if err == nil && name == "new" && (len(o.Ports) != 1 || !strings.Contains(o.Ports[0], "liar")) {
			t.Errorf("%s warns of %q", name, o.Ports)
		}
		return p, err
	}
	if p, err := put("had", `{"port":5004,"x":2}`, 0); err != nil || len(p.Ports) != 0 {
		t.Errorf("an edit that touches no port: %v, warned of %q", err, p.Ports)
	}
	if p, err := put("new", `{"port":5005}`, 0); err != nil || len(p.Ports) != 1 || !strings.Contains(p.Ports[0], "as node liar claims") {
		t.Errorf("a new port: %v, warned of %q", err, p.Ports)
	}
	for _, name := range []string{"good", "liar"} {
		testkit.Must(t, w.op.PlaceNode(w.ctx(), name, operator.PlaceNode{Machine: "rack-7", Reason: "test"}))
	}
	if _, err := put("newer", `{"port":5006}`, 0); err == nil || !strings.Contains(err.Error(), "node liar is on the same machine") {
		t.Errorf("a port of a node that an operator placed there: %v", err)
	}
	if _, err := put("had", `{"port":5004,"x":3}`, 0); err != nil {
		t.Errorf("an edit that touches no port: %v", err)
	}
}
