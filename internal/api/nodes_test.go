package api_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/file"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// device is a node that runs: a file with flows, its driver, and the client.
type device struct {
	w           *world
	name        string
	path, state string
	token       []byte
	driver      file.Config // but for its path
	collection  nodesdk.Collection
	stop        func()
}

// newDevice makes one whose file has objects; it does not run.
func (w *world) newDevice(name, objects string) *device {
	w.t.Helper()
	dir := w.t.TempDir()
	d := &device{w: w, name: name, path: filepath.Join(dir, "flows.json"), state: filepath.Join(dir, "state"), collection: nodesdk.Collection{Kind: nodeconfig.Flow}}
	d.write(objects)
	return d
}

func (d *device) write(objects string) {
	d.w.t.Helper()
	tmp := d.path + ".new"
	testkit.Must(d.w.t, os.WriteFile(tmp, []byte(objects), 0o644))
	testkit.Must(d.w.t, os.Rename(tmp, d.path))
}

func (d *device) read() string { return read(d.w.t.(*testing.T), d.path) }

// run connects it until stop is called, or the test ends.
func (d *device) run() *device {
	d.w.t.Helper()
	options := d.driver
	options.Path, options.Kind = d.path, d.collection.Kind
	driver := testkit.Value(file.New(options))(d.w.t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(d.w.ca())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := nodesdk.Run(ctx, nodesdk.Config{Driver: driver, DriverName: "file", Program: "test", Name: d.name, StateDir: d.state, Token: d.token,
			Collections: []nodesdk.Collection{d.collection}, Server: d.w.url(), RootCAs: pool, Poll: 100 * time.Millisecond})
		if err != nil {
			d.w.t.Errorf("node %s: %v", d.name, err)
		}
	})
	d.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	d.w.t.Cleanup(d.stop)
	return d
}

// registered runs a new device with a token.
func (w *world) registered(name, objects string) *device {
	w.t.Helper()
	return w.newDevice(name, objects).register()
}

// register runs it with a token until it was compared.
func (d *device) register() *device {
	d.w.t.Helper()
	d.token = testkit.Value(d.w.keys.NodeToken(d.name))(d.w.t)
	d.run()
	d.w.untilNode(d.name, "it was compared", func(n *drift.Node) bool { return n.Online && n.ComparedAt != 0 && !n.Compare })
	return d
}

// nodes reads what the log says of nodes.
func (w *world) nodes(f func(*drift.State)) {
	w.t.Helper()
	testkit.Must(w.t, w.server.Control().ViewNodes(w.ctx(), f))
}

func (w *world) untilNode(name, what string, done func(*drift.Node) bool) {
	w.t.Helper()
	w.until("node "+name+": "+what, func() (is bool) {
		w.nodes(func(s *drift.State) { n := s.Nodes[name]; is = n != nil && done(n) })
		return is
	})
}

// set has a flow be on a node.
func (w *world) set(node, name, config string) {
	w.t.Helper()
	e := drift.Set{Kind: nodeconfig.Flow, Name: name, Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: node, Config: json.RawMessage(config)}}}}
	testkit.Value(w.server.Control().EditNodes(w.ctx(), e, drift.By{Actor: "op", Reason: "test"}))(w.t)
}

func (w *world) untilStatus(name string, want drift.Status) {
	w.t.Helper()
	w.until("flow "+name+" is "+string(want), func() (is bool) {
		w.nodes(func(s *drift.State) {
			o := s.Objects[drift.Key(nodeconfig.Flow, name)]
			is = o != nil && o.Legs[nodeconfig.Flow].Status == want
		})
		return is
	})
}

// TestNodeOwnsItsConfiguration: a node registers with a token, is pushed to, reports a hand
// edit as drift at once, and comes back by its key after the node and the server restarted.
func TestNodeOwnsItsConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.registered("gw-1", `{}`)
	w.set("gw-1", "news", `{"input": "udp://1.2.3.4:5000"}`)
	w.untilStatus("news", drift.Pushed)
	if got := d.read(); !strings.Contains(got, `"udp://1.2.3.4:5000"`) {
		t.Errorf("the device has %s", got)
	}
	edited := time.Now()
	d.write(strings.Replace(d.read(), "5000", "6000", 1))
	w.untilNode("gw-1", "drift of a hand edit", func(n *drift.Node) bool {
		e := n.Episodes[drift.Key(nodeconfig.Flow, "news")]
		return e != nil && e.Drift == drift.Mismatched && strings.Contains(string(e.Actual), "6000")
	})
	t.Logf("the drift is in the log %v after the edit", time.Since(edited).Round(time.Millisecond))
	d.write(strings.Replace(d.read(), "6000", "5000", 1))
	w.untilNode("gw-1", "the drift is over", func(n *drift.Node) bool { return len(n.Episodes) == 0 })

	d.stop()
	w.untilNode("gw-1", "it is offline", func(n *drift.Node) bool { return !n.Online })
	w.set("gw-1", "sport", `{"input": "udp://1.2.3.4:7000"}`)
	d.token = nil
	d.run()
	w.untilStatus("sport", drift.Pushed)

	w.halt()
	w.start()
	d.stop()
	d.run()
	w.set("gw-1", "news", `{"input": "udp://1.2.3.4:5001"}`)
	w.untilStatus("news", drift.Pushed)
	if got := d.read(); !strings.Contains(got, `"udp://1.2.3.4:5001"`) {
		t.Errorf("the device has %s", got)
	}
}
