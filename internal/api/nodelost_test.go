package api_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/nodes"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// pushesOf lists what was logged of pushes of a flow.
func (w *world) pushesOf(name string) (done []event.PushSucceeded, started int) {
	w.t.Helper()
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(w.t)
	for _, e := range page.Events {
		switch ev := testkit.Value(event.DecodeBody(e.Type, e.Body))(w.t).(type) {
		case event.PushSucceeded:
			if ev.Flow == name {
				done = append(done, ev)
			}
		case event.PushStarted:
			if ev.Flow == name {
				started++
			}
		}
	}
	return done, started
}

// TestServerKilledInAPush: the server process is killed between an operation and its answer.
// The next one reads back that it was applied, and sends it no second time.
func TestServerKilledInAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	_ = n.conn.CloseNow()
	w.untilNode("gw-1", "it is offline", func(x *drift.Node) bool { return !x.Online })
	w.set("gw-1", "news", `{"input": "a"}`)
	w.halt()

	w.spawn()
	killed := w.child
	defer func() { killed.kill() }()
	n.join()
	var lost nodesdk.Message
	n.answer(func(m nodesdk.Message) bool { lost = m; return m.Request.Apply != nil })
	w.child.kill()
	n.does(lost.Request) // and nobody hears of it

	w.child = nil
	w.start()
	n.join()
	go n.serve(w.ctx(), func(m nodesdk.Message) bool {
		if m.Request.Apply != nil {
			t.Errorf("operation %d is sent again", m.Request.Apply.Op)
		}
		return false
	})
	w.untilStatus("news", drift.Pushed)
	done, started := w.pushesOf("news")
	if len(done) != 1 || !done[0].ReadBack || started != 1 {
		t.Errorf("%d started, ended %+v", started, done)
	}
	if n := w.eventsOf("gw-1", event.NodeDisconnected{}.EventType()); n != 1 {
		t.Errorf("%d disconnections: a restart is none", n)
	}
}

// TestNodeLostInAPush: a node that is cut off before it applies an operation gets it again,
// under a new number, and one that applied it is not asked twice.
func TestNodeLostInAPush(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := w.wireNode("gw-1")
			n.join()
			n.compared()
			w.set("gw-1", "news", `{"input": "a"}`)
			n.answer(func(m nodesdk.Message) bool {
				if m.Request.Apply != nil && applied {
					n.does(m.Request)
				}
				return m.Request.Apply != nil
			})
			_ = n.conn.CloseNow()
			n.join()
			go n.serve(w.ctx(), func(nodesdk.Message) bool { return false })
			w.untilStatus("news", drift.Pushed)
			done, started := w.pushesOf("news")
			if want := map[bool]int{true: 1, false: 2}[applied]; len(done) != 1 || done[0].ReadBack != applied || started != want {
				t.Errorf("%d started, ended %+v", started, done)
			}
		})
	}
}

// TestNodeAnswersTwice: an answer that comes again, and one of an earlier operation, are
// refused and counted, and nothing is taken for another one.
func TestNodeAnswersTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	var old nodesdk.Message
	w.set("gw-1", "news", `{"input": "a"}`)
	n.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply == nil {
			return false
		}
		old = nodesdk.Message{Type: nodesdk.TypeAnswer, ID: m.ID, Answer: n.does(m.Request)}
		n.send(old)
		n.send(old)
		return true
	})
	w.untilStatus("news", drift.Pushed)
	w.set("gw-1", "news", `{"input": "b"}`)
	n.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply == nil {
			return false
		}
		n.send(old) // while another one is awaited
		w.until("it is refused", func() bool {
			return strings.Contains(w.scrape(), `steady_node_frames_refused_total{reason="unsolicited"} 2`)
		})
		if done, _ := w.pushesOf("news"); len(done) != 1 {
			t.Errorf("an answer of an earlier operation ended this one: %+v", done)
		}
		n.reply(m)
		return true
	})
	w.untilStatus("news", drift.Pushed)
	done, started := w.pushesOf("news")
	if started != 2 || len(done) != 2 || done[0].Version != 1 || done[1].Version != 2 || string(done[1].Observed) != `{"input":"b"}` {
		t.Errorf("%d operations, ended %+v", started, done)
	}
	w.untilNode("gw-1", "its connection goes on", func(x *drift.Node) bool { return x.Online && x.Session == 1 })
}

// TestNodeChangesItsKey: either key is good until the next one was used, so that no lost
// answer shuts a node out; then the earlier one is not.
func TestNodeChangesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.token = nil
	n.compared()
	old := n.key
	public, next, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	n.key = next
	if m := n.dial(); m.Refused == nil || m.Refused.Code != nodesdk.CodeForbidden {
		t.Errorf("a key that was not announced: %+v", m)
	}
	n.key = old
	n.join()
	n.send(nodesdk.Message{Type: nodesdk.TypeNextKey, NextKey: &nodesdk.NextKey{Key: public, Proof: ed25519.Sign(next, nodesdk.SignedNextKey("gw-1", old.Public().(ed25519.PublicKey), public))}})
	w.untilNode("gw-1", "its next key is known", func(x *drift.Node) bool { return len(x.NextKey) > 0 })
	n.join() // the announcement may have been lost, as far as the node knows
	n.key = next
	n.join() // and the answer to this as well
	_ = n.conn.CloseNow()
	n.join()
	n.key = old
	if m := n.dial(); m.Refused == nil || m.Refused.Code != nodesdk.CodeForbidden {
		t.Errorf("the earlier key after the next one was used: %+v", m)
	}
	if n := w.eventsOf("gw-1", event.NodeKeyChanged{}.EventType()); n != 1 {
		t.Errorf("the key changed %d times", n)
	}
}

// TestRealNodeChangesItsKey is the same with the client of nodesdk.
func TestRealNodeChangesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.registered("gw-1", `{}`)
	var before []byte
	w.nodes(func(s *drift.State) { before = s.Nodes["gw-1"].Key })
	testkit.Must(t, nodesdk.RotateKey(d.state))
	w.untilNode("gw-1", "it uses its next key", func(n *drift.Node) bool { return string(n.Key) != string(before) && n.Online })
	w.set("gw-1", "news", `{"input": "a"}`)
	w.untilStatus("news", drift.Pushed)
}

// TestNodeReadsNothing: a node that does not read what it is sent, or does not answer, is
// disconnected, and nobody waits for it.
func TestNodeReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) {
		o.Nodes = nodes.Limits{Write: 300 * time.Millisecond, Ping: 300 * time.Millisecond, Push: time.Second}
	})
	n := w.wireNode("slow")
	n.join()
	n.compared()
	big := json.RawMessage(`{"input": "` + strings.Repeat("x", 200<<10) + `"}`)
	for _, name := range []string{"a", "b", "c"} {
		w.set("slow", name, string(big))
	}
	w.registered("gw-1", `{}`)
	w.set("gw-1", "news", `{"input": "a"}`)
	w.untilStatus("news", drift.Pushed)
	w.untilNode("slow", "it is disconnected", func(x *drift.Node) bool { return !x.Online && strings.Contains(x.Why, "ping") })
	_ = n.conn.CloseNow()
}

// TestNodeIsAskedBefore: an operator's question goes to the device, and what it says is clean.
func TestNodeIsAskedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.server.Nodes().Validate(w.ctx(), "gw-1", nodesdk.Validate{}); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("a node that is not there: %v", err)
	}
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	go n.serve(w.ctx(), func(nodesdk.Message) bool { return false })
	v := testkit.Value(w.server.Nodes().Validate(w.ctx(), "gw-1", nodesdk.Validate{Kind: nodeconfig.Flow, ID: "a", Config: json.RawMessage(`{}`)}))(t)
	if !v.Supported || len(v.Problems) != 1 || v.Problems[0].Message != "is  [31mred" {
		t.Errorf("%+v", v)
	}
	legs := []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "gw-1", Config: json.RawMessage(`{}`)}}
	p := testkit.Value(w.op.PreviewObject(w.ctx(), nodeconfig.Flow, "a", operator.SetObject{Definition: nodeconfig.Definition{Legs: legs}}))(t)
	if len(p.Legs) != 1 || !p.Legs[0].Checked || len(p.Legs[0].Problems) != 1 || p.Legs[0].Problems[0].Message != v.Problems[0].Message {
		t.Errorf("the preview says %+v", p)
	}
	_ = n.conn.Close(websocket.StatusNormalClosure, "")
}

// TestNodesWaitForASetBackLog: a server whose log lost what it had acknowledged lets no node in,
// and asks each to come later; the one that decides is the owner of the data folder.
func TestNodesWaitForASetBackLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.wireNode("gw-1")
	n.join()
	n.compared()
	n.token = nil
	before := w.wal(w.opts.DataDir)
	w.set("gw-1", "news", `{"input": "a"}`)
	dir := w.killed()
	cutWAL(t, dir, before)
	w.halt()
	w.opts.DataDir = dir
	w.start()
	if m := n.dial(); m.Refused == nil || m.Refused.Code != nodesdk.CodeUnavailable || m.Refused.Final || m.Refused.RetryAfter == 0 {
		t.Errorf("it is answered %+v", m.Refused)
	}
	testkit.Must(t, control.SafeModeEnd{ID: "1", Actor: "owner", Reason: "drill"}.Request(w.ctx(), dir))
	n.join()
}
