package api_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/toxiproxy"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// tunnelNode is a node of a Toxiproxy that runs. The connection to the server goes through
// a wire whose faults the test chooses.
type tunnelNode struct {
	device *testkit.Toxiproxy
	server *testkit.Wire
	// applied counts the operations that reached the driver.
	applied *counted
}

type counted struct {
	nodesdk.Driver
	mu sync.Mutex
	n  int
}

func (c *counted) Apply(ctx context.Context, op nodesdk.Op) error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Driver.Apply(ctx, op)
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (w *world) newTunnelNode(name, program string, faults *testkit.Toxiproxy) *tunnelNode {
	w.t.Helper()
	address := strings.TrimPrefix(w.url(), "wss://")
	address = strings.TrimPrefix(address, "https://")
	n := &tunnelNode{device: testkit.StartToxiproxy(w.t, program), server: faults.Wire(name, address)}
	driver, collections, err := toxiproxy.Open(map[string]string{"url": "http://" + n.device.Addr})
	testkit.Must(w.t, err)
	n.applied = &counted{Driver: driver}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.ca())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	token, state := testkit.Value(w.keys.NodeToken(name))(w.t), w.t.TempDir()
	running.Go(func() {
		err := nodesdk.Run(ctx, nodesdk.Config{Driver: n.applied, DriverName: "toxiproxy", Program: "test", Name: name, StateDir: state, Token: token,
			Collections: collections, Server: w.url(), RootCAs: pool, Poll: 100 * time.Millisecond,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, n.server.Addr)
			}})
		if err != nil {
			w.t.Errorf("node %s: %v", name, err)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
	w.untilNode(name, "it was compared", func(n *drift.Node) bool { return n.Online && n.ComparedAt != 0 && !n.Compare })
	return n
}

// TestTunnelThroughThreeProcesses: bytes pass an ingress, a relay and an egress, each a
// process of its own, once the server pushed all three legs, and not before.
func TestTunnelThroughThreeProcesses(t *testing.T) {
	t.Parallel()
	program := testkit.ToxiproxyProgram(t)
	w := newWorld(t)
	faults := testkit.StartToxiproxy(t, program)
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "through") }))
	t.Cleanup(site.Close)
	ingress, relay, egress := testkit.FreeAddr(t), testkit.FreeAddr(t), testkit.FreeAddr(t)
	nodes := map[string]*tunnelNode{}
	for _, name := range []string{"in", "mid", "out"} {
		nodes[name] = w.newTunnelNode(name, program, faults)
	}
	nodes["mid"].server.Cut()
	w.untilNode("mid", "it is offline", func(n *drift.Node) bool { return !n.Online })
	leg := func(role, node, listen, upstream string) nodeconfig.Leg {
		return nodeconfig.Leg{Role: role, Node: node, Config: json.RawMessage(fmt.Sprintf(`{"listen":%q,"upstream":%q}`, listen, upstream))}
	}
	e := drift.Set{Kind: nodeconfig.Tunnel, Name: "feed", Definition: nodeconfig.Definition{Mode: "relay", Legs: []nodeconfig.Leg{
		leg(nodeconfig.Relay, "mid", relay, egress), leg(nodeconfig.Ingress, "in", ingress, relay), leg(nodeconfig.Egress, "out", egress, strings.TrimPrefix(site.URL, "http://"))}}}
	testkit.Value(w.server.Control().EditNodes(w.ctx(), e, drift.By{Actor: "op", Reason: "test"}))(t)
	if got := through(ingress); got != "" {
		t.Errorf("without the relay came %q", got)
	}
	nodes["mid"].server.Mend()
	w.untilLegs("feed", nodeconfig.Relay, nodeconfig.Ingress, nodeconfig.Egress)
	if got := through(ingress); got != "through" {
		t.Errorf("with all legs came %q", got)
	}
	// Toxiproxy keeps nothing: a restart is a node that lost its leg, which is shown.
	nodes["out"].device.Restart()
	w.untilNode("out", "its leg is missing", func(n *drift.Node) bool {
		return len(n.Episodes) == 1 && n.Episodes[drift.Key(nodeconfig.Tunnel, "feed.egress")] != nil
	})
	if got := through(ingress); got != "" {
		t.Errorf("without the egress came %q", got)
	}
}

func (w *world) untilLegs(name string, roles ...string) {
	w.t.Helper()
	w.until("legs of "+name+" are pushed", func() (is bool) {
		w.nodes(func(s *drift.State) {
			o := s.Objects[drift.Key(nodeconfig.Tunnel, name)]
			is = o != nil
			for _, r := range roles {
				is = is && o.Legs[r].Status == drift.Pushed
			}
		})
		return is
	})
}

func through(address string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Get("http://" + address)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body) // what came before an error
	return string(raw)
}

// TestAcknowledgementLostOnTheWire: the device has the leg, and all that its node sends is
// swallowed. The connection ends, and the push is found to have been done: it reaches the
// device once.
func TestAcknowledgementLostOnTheWire(t *testing.T) {
	t.Parallel()
	program := testkit.ToxiproxyProgram(t)
	w := newWorld(t)
	n := w.newTunnelNode("edge", program, testkit.StartToxiproxy(t, program))
	n.server.Add("timeout", testkit.ToServer, map[string]any{"timeout": 0})
	e := drift.Set{Kind: nodeconfig.Tunnel, Name: "feed", Definition: nodeconfig.Definition{Mode: "single", Legs: []nodeconfig.Leg{
		{Role: nodeconfig.Ingress, Node: "edge", Config: json.RawMessage(fmt.Sprintf(`{"listen":%q,"upstream":"127.0.0.1:9"}`, testkit.FreeAddr(t)))}}}}
	testkit.Value(w.server.Control().EditNodes(w.ctx(), e, drift.By{Actor: "op", Reason: "test"}))(t)
	w.until("the device has the leg", func() bool { s, err := n.applied.Snapshot(w.ctx()); return err == nil && len(s.Items) == 1 })
	n.server.Cut()
	w.untilNode("edge", "it is offline", func(n *drift.Node) bool { return !n.Online })
	w.nodes(func(s *drift.State) {
		if got := s.Objects[drift.Key(nodeconfig.Tunnel, "feed")].Legs[nodeconfig.Ingress].Status; got == drift.Pushed {
			t.Error("the leg is pushed, and nothing was acknowledged")
		}
	})
	n.server.Remove("timeout", testkit.ToServer)
	n.server.Mend()
	w.untilLegs("feed", nodeconfig.Ingress)
	if got := n.applied.count(); got != 1 {
		t.Errorf("the push reached the device %d times", got)
	}
}
