package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// gates are a device whose driver stops where a test says so: a file, with commands that run
// before it is replaced and after it was.
type gates struct {
	t         *testing.T
	dir, path string
}

// newGates makes a device. A command says that it was reached, and waits while it is to.
func newGates(t *testing.T) *gates {
	g := &gates{t: t, dir: t.TempDir()}
	g.path = filepath.Join(g.dir, "flows.json")
	testkit.Files(t, g.dir, map[string]string{"flows.json": "{}",
		"gate": "#!/bin/sh\ncd " + g.dir + "\n[ \"$1\" = before ] || stat -c %i-%.Y flows.json >>replaced\necho >>\"$1.reached\"\nwhile [ -e \"$1.shut\" ]; do sleep 0.01; done\n"})
	return g
}

func (g *gates) options() []string {
	gate := filepath.Join(g.dir, "gate")
	return []string{"path=" + g.path, "validate=" + gate + " before", "reload=" + gate + " after", "timeout=5m"}
}

func (g *gates) shut(at string) {
	_ = os.Remove(filepath.Join(g.dir, at+".reached")) // of a time before
	testkit.Must(g.t, os.WriteFile(filepath.Join(g.dir, at+".shut"), nil, 0o600))
}

func (g *gates) open(at string) { testkit.Must(g.t, os.Remove(filepath.Join(g.dir, at+".shut"))) }

func (g *gates) reached(at string) {
	g.t.Helper()
	testkit.Eventually(g.t, "the driver comes to "+at, func() bool { _, err := os.Stat(filepath.Join(g.dir, at+".reached")); return err == nil })
}

// replaced is how often the device had another configuration.
func (g *gates) replaced() int {
	raw, _ := os.ReadFile(filepath.Join(g.dir, "replaced")) // none before the first
	return len(slices.Compact(strings.Fields(string(raw))))
}

// operationsDone is the newest operation that the node remembers as done.
func (n *nodeRun) operationsDone() (op uint64) {
	var ops struct{ Op uint64 }
	raw, err := os.ReadFile(filepath.Join(n.state, "operations.json"))
	if err == nil {
		err = json.Unmarshal(raw, &ops)
	}
	if err != nil {
		return 0
	}
	return ops.Op
}

// killing is one push that is interrupted.
type killing struct {
	*plant
	*gates
	t    *testing.T
	node *nodeRun
	wire *testkit.Wire
	mark string
	op   uint64 // that the node did before
}

// want asks for the change, which may not be answered.
func (k *killing) want() error {
	_, err := k.client.SetObject(context.Background(), nodeconfig.Flow, "a", operator.SetObject{Reason: "trial",
		Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: k.node.name, ID: "a", Config: json.RawMessage(fmt.Sprintf(`{"input":%q}`, k.mark))}}}})
	return err
}

func (k *killing) wanted() { k.t.Helper(); testkit.Must(k.t, k.want()) }

// started waits until the operation is in the log.
func (k *killing) started() {
	k.t.Helper()
	testkit.Eventually(k.t, "the operation is in the log", func() bool {
		o := k.object(nodeconfig.Flow, "a")
		return o != nil && o.Status == drift.Pushing
	})
}

func (k *killing) done() {
	k.t.Helper()
	testkit.Eventually(k.t, "the node remembers the operation as done", func() bool { return k.node.operationsDone() > k.op })
}

func (k *killing) stopServer(s syscall.Signal) {
	testkit.Must(k.t, k.server.cmd.Process.Signal(s))
}

// swallow has nothing that one side sends come to the other.
func (k *killing) swallow(direction string) func() {
	k.wire.Add("timeout", direction, map[string]any{"timeout": 0})
	return func() { k.wire.Remove("timeout", direction) }
}

// steps are where one side is killed while an operation is under way.
var steps = []struct {
	name string
	do   func(k *killing)
}{
	{"server, before the record", func(k *killing) {
		killAtSync(k.t, k.server, filepath.Join(k.yard.log(), "log.db-wal"))
		if k.want() == nil {
			k.t.Error("a change was accepted that the log does not have")
		}
		<-k.server.exited
		k.startServer()
		k.wanted()
	}},
	{"server, after the record and before the send", func(k *killing) {
		mend := k.swallow(testkit.ToClient)
		k.wanted()
		k.started()
		k.server.kill()
		mend()
		k.startServer()
	}},
	{"server, after the send and before the device has it", func(k *killing) {
		k.shut("before")
		k.wanted()
		k.reached("before")
		k.server.kill()
		k.startServer()
		k.open("before")
	}},
	{"server, in the middle of the driver's apply", func(k *killing) {
		k.shut("after")
		k.wanted()
		k.reached("after")
		k.server.kill()
		k.open("after")
		k.startServer()
	}},
	{"server, after the answer and before the record", func(k *killing) {
		k.shut("after")
		k.wanted()
		k.reached("after")
		k.stopServer(syscall.SIGSTOP) // the answer comes to its socket
		k.open("after")
		k.done()
		k.server.kill()
		k.startServer()
	}},
	{"node, before it has the operation", func(k *killing) {
		mend := k.swallow(testkit.ToClient)
		k.wanted()
		k.started()
		k.node.kill()
		mend()
		k.node.launch()
	}},
	{"node, before the device has it", func(k *killing) {
		k.shut("before")
		k.wanted()
		k.reached("before")
		k.node.kill()
		k.open("before")
		k.node.launch()
	}},
	{"node, in the middle of the driver's apply", func(k *killing) {
		k.shut("after")
		k.wanted()
		k.reached("after")
		k.node.kill()
		k.open("after")
		k.node.launch()
	}},
	{"node, after the apply and before the answer", func(k *killing) {
		mend := k.swallow(testkit.ToServer)
		k.wanted()
		k.done()
		k.node.kill()
		mend()
		k.node.launch()
	}},
	{"node, after the answer and before the server's record", func(k *killing) {
		k.shut("after")
		k.wanted()
		k.reached("after")
		k.stopServer(syscall.SIGSTOP)
		k.open("after")
		k.done()
		k.node.kill()
		k.stopServer(syscall.SIGCONT)
		k.node.launch()
	}},
	{"both, in the middle of the driver's apply", func(k *killing) {
		k.shut("after")
		k.wanted()
		k.reached("after")
		k.server.kill()
		k.node.kill()
		k.open("after")
		k.node.launch()
		k.startServer()
	}},
}

// TestKilledInAPush: the server or the node is killed at every step of a push. After they came
// back, the device was changed once, the leg is pushed, nothing is taken for drift, and the
// audit holds.
func TestKilledInAPush(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Strace, testkit.ToxiproxyModule)
	p, wire := newWiredPlant(t)
	g := newGates(t)
	n := p.node("edge", "file", g.options()...)
	n.start("--server", wireURL(wire))
	for i, s := range steps {
		t.Log(s.name)
		k := &killing{plant: p, gates: g, t: t, node: n, wire: wire, mark: fmt.Sprintf("mark-%d", i), op: n.operationsDone()}
		before := g.replaced()
		s.do(k)
		p.pushed(nodeconfig.Flow, "a")
		p.settled("edge")
		if raw := string(testkit.Value(os.ReadFile(g.path))(t)); !strings.Contains(raw, k.mark) {
			t.Errorf("%s: the device has %s", s.name, raw)
		}
		if times := g.replaced() - before; times != 1 {
			t.Errorf("%s: the device was changed %d times", s.name, times)
		}
		if o := p.object(nodeconfig.Flow, "a"); o.Version != uint64(i)+1 {
			t.Errorf("%s: the object is of version %d, after %d changes", s.name, o.Version, i+1)
		}
	}
	p.nothingDrifted()
	p.whole()
}

// nothingDrifted checks that no difference was ever found.
func (p *plant) nothingDrifted() {
	p.t.Helper()
	for _, e := range p.happened() {
		switch ev := testkit.Value(event.DecodeBody(e.Type, e.Body))(p.t).(type) {
		case event.DriftExtraneous, event.DriftMissing, event.DriftMismatched, event.NodePaused, event.AdoptionOpened:
			p.t.Errorf("%d %s: %+v", e.Seq, e.Message, ev)
		}
	}
}

// newWiredPlant is a plant with a wire to its server, whose faults a test chooses.
func newWiredPlant(t *testing.T) (*plant, *testkit.Wire) {
	listen := testkit.FreeAddr(t)
	wire := testkit.StartToxiproxy(t, testkit.ToxiproxyProgram(t)).Wire("server", listen)
	host, _, err := net.SplitHostPort(wire.Addr)
	testkit.Must(t, err)
	return newPlantAt(t, listen, host), wire
}

func wireURL(w *testkit.Wire) string { return "https://" + w.Addr }
