package toxiproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

func leg(listen, upstream string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"listen":%q,"upstream":%q}`, listen, upstream))
}

func open(t *testing.T, x *testkit.Toxiproxy) (*Driver, []nodesdk.Collection) {
	t.Helper()
	return openAt(t, x.Addr)
}

func openAt(t *testing.T, addr string) (*Driver, []nodesdk.Collection) {
	t.Helper()
	d, collections, err := Open(map[string]string{"url": "http://" + addr})
	testkit.Must(t, err)
	return d.(*Driver), collections
}

func TestConformance(t *testing.T) {
	t.Parallel()
	program := testkit.ToxiproxyProgram(t)
	edited := testkit.FreeAddr(t)
	port := strconv.Itoa(testkit.Ports(t, "tcp", 1)[0]) // of localhost, where others have theirs chosen
	var many []string
	for range testkit.Edits() {
		many = append(many, testkit.FreeAddr(t))
	}
	nodetest.Run(t, nodetest.Harness{
		Edits: testkit.Edits(),
		Start: func(t *testing.T) *nodetest.Device { return device(t, program, edited) },
		Examples: []nodetest.Example{
			{Kind: "tunnel", ID: "feed.ingress", Config: leg("localhost:"+port, "localhost:9"), Edited: leg(edited, "localhost:9")},
			{Kind: "tunnel", ID: "feed 2 é.relay", Config: leg(testkit.FreeAddr(t), "10.0.0.1:9"), Edited: json.RawMessage(fmt.Sprintf(`{"listen":%q,"upstream":"10.0.0.1:9","enabled":false}`, testkit.FreeAddr(t)))},
		},
		Many: func(n int) json.RawMessage { return leg(many[n], "127.0.0.1:9") },
	})
}

// device has its API on a wire that another Toxiproxy cuts.
func device(t *testing.T, program, edited string) *nodetest.Device {
	x := testkit.StartToxiproxy(t, program)
	api := testkit.StartToxiproxy(t, program).Wire("api", x.Addr)
	d, collections := openAt(t, api.Addr)
	return &nodetest.Device{
		Driver:      d,
		Collections: collections,
		EditByAPI: func(_, id string, config json.RawMessage) error {
			path := []string{"proxies", id}
			if config == nil {
				return d.api.Do(t.Context(), "DELETE", path, nil, nil)
			}
			if err := d.api.Do(t.Context(), "POST", path, config, nil); err == nil {
				return nil
			}
			var to map[string]any
			if err := json.Unmarshal(config, &to); err != nil {
				return err
			}
			to["name"] = id
			return d.api.Do(t.Context(), "POST", []string{"proxies"}, to, nil)
		},
		RestartEmpty: func() error { x.Restart(); return nil },
		BusyPort: func(t *testing.T) nodetest.Example {
			return nodetest.Example{Kind: "tunnel", ID: "busy", Config: leg(busy(t, "127.0.0.1:0"), "127.0.0.1:9")}
		},
		// Toxiproxy stops a proxy before it finds that its new port is busy.
		Partial: func() error { busy(t, edited); return nil },
		Break: func() (func() error, error) {
			api.Cut()
			return func() error { api.Mend(); return nil }, nil
		},
	}
}

// busy has a port in use until the test ends.
func busy(t *testing.T, at string) string {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", at))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func apply(t *testing.T, d *Driver, id string, was *nodesdk.Item, config json.RawMessage) error {
	t.Helper()
	return d.Apply(t.Context(), nodesdk.Op{Number: 1, Kind: "tunnel", ID: id, Config: config, Was: was, Delete: config == nil})
}

func only(t *testing.T, d *Driver) *nodesdk.Item {
	t.Helper()
	s := testkit.Value(d.Snapshot(t.Context()))(t)
	if len(s.Items) != 1 {
		t.Fatalf("it has %+v", s.Items)
	}
	return &s.Items[0]
}

func config(t *testing.T, it *nodesdk.Item) (c proxy) {
	t.Helper()
	testkit.Must(t, json.Unmarshal(it.Config, &c))
	return c
}

// TestRefusals: what Toxiproxy would drop, or find with the first connection, is refused,
// and nothing is made.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d, _ := open(t, testkit.StartToxiproxy(t, testkit.ToxiproxyProgram(t)))
	for name, c := range map[string]struct{ id, config, field string }{
		"unknown field":    {"a", `{"listen":"127.0.0.1:1","upstream":"a:1","colour":"red"}`, "colour"},
		"toxics":           {"a", `{"listen":"127.0.0.1:1","upstream":"a:1","toxics":[]}`, "toxics"},
		"no upstream":      {"a", `{"listen":"127.0.0.1:1"}`, "upstream"},
		"no port":          {"a", `{"listen":"127.0.0.1:1","upstream":"a"}`, "upstream"},
		"a name":           {"a", `{"listen":"host.invalid:1","upstream":"a:1"}`, "listen"},
		"enabled a text":   {"a", `{"listen":"127.0.0.1:1","upstream":"a:1","enabled":"no"}`, "enabled"},
		"any port":         {"a", `{"listen":"localhost:0","upstream":"a:1"}`, "listen"},
		"a slash":          {"a/b", `{"listen":"127.0.0.1:1","upstream":"a:1"}`, ""},
		"another name":     {"a", `{"name":"b","listen":"127.0.0.1:1","upstream":"a:1"}`, "name"},
		"no local address": {"a", `{"listen":"192.0.2.1:1","upstream":"a:1"}`, "listen"},
	} {
		var invalid *nodesdk.InvalidError
		if err := apply(t, d, c.id, nil, json.RawMessage(c.config)); !errors.As(err, &invalid) || invalid.Problems[0].Field != c.field {
			t.Errorf("%s is answered with %v", name, err)
		}
	}
	if s := testkit.Value(d.Snapshot(t.Context()))(t); len(s.Items) != 0 {
		t.Errorf("it has %+v", s.Items)
	}
}

// TestPorts: an edit keeps the port, and a busy one leaves the proxy as it was.
func TestPorts(t *testing.T) {
	t.Parallel()
	d, _ := open(t, testkit.StartToxiproxy(t, testkit.ToxiproxyProgram(t)))
	listen := testkit.FreeAddr(t)
	testkit.Must(t, apply(t, d, "a", nil, leg(listen, "127.0.0.1:9")))
	first := only(t, d)
	testkit.Must(t, apply(t, d, "a", first, leg(listen, "127.0.0.1:8")))
	second := only(t, d)
	if a, b := config(t, first), config(t, second); a.Listen != b.Listen || b.Upstream != "127.0.0.1:8" {
		t.Errorf("it was %+v and is %+v", a, b)
	}
	if err := apply(t, d, "a", second, leg(busy(t, "127.0.0.1:0"), "127.0.0.1:8")); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a busy port is answered with %v", err)
	}
	if now := only(t, d); string(now.Config) != string(second.Config) {
		t.Errorf("after a busy port it is %s, before %s", now.Config, second.Config)
	}
	if err := apply(t, d, "a", first, nil); !errors.Is(err, nodesdk.ErrConflict) {
		t.Errorf("deleting what moved is answered with %v", err)
	}
}

// TestProbe: what does not listen is not in effect, and injected faults are named.
func TestProbe(t *testing.T) {
	t.Parallel()
	x := testkit.StartToxiproxy(t, testkit.ToxiproxyProgram(t))
	d, _ := open(t, x)
	w := x.Wire("a", "127.0.0.1:9")
	probe := func(want, detail string) {
		t.Helper()
		effect, text, err := d.Probe(t.Context(), *only(t, d))
		if err != nil || effect != want || text != detail {
			t.Errorf("it is %q (%s), %v", effect, text, err)
		}
	}
	probe(nodesdk.InEffect, "")
	w.Add("latency", testkit.ToClient, map[string]any{"latency": 5})
	probe(nodesdk.InEffect, "it has toxics: latency-downstream (latency)")
	w.Cut()
	probe(nodesdk.NotInEffect, "it does not listen; it has toxics: latency-downstream (latency)")
}

// TestChain: bytes pass three processes only when each has its leg.
func TestChain(t *testing.T) {
	t.Parallel()
	program := testkit.ToxiproxyProgram(t)
	served := serve(t, "bytes")
	legs := []struct{ name, listen, upstream string }{{"egress", testkit.FreeAddr(t), served}, {"relay", testkit.FreeAddr(t), ""}, {"ingress", testkit.FreeAddr(t), ""}}
	legs[1].upstream, legs[2].upstream = legs[0].listen, legs[1].listen
	for missing := range legs {
		var drivers []*Driver
		add := func(i int) {
			d, _ := open(t, testkit.StartToxiproxy(t, program))
			testkit.Must(t, apply(t, d, "t."+legs[i].name, nil, leg(legs[i].listen, legs[i].upstream)))
			drivers = append(drivers, d)
		}
		for i := range legs {
			if i != missing {
				add(i)
			}
		}
		if got := fetched(legs[2].listen); got != "" {
			t.Errorf("without the leg %s came %q", legs[missing].name, got)
		}
		add(missing)
		if got := fetched(legs[2].listen); got != "bytes" {
			t.Errorf("with all legs came %q", got)
		}
		for _, d := range drivers {
			testkit.Must(t, apply(t, d, only(t, d).ID, only(t, d), nil))
		}
	}
}

// serve answers every connection with a text.
func serve(t *testing.T, text string) string {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// fetched is what comes from an address, empty where nothing listens.
func fetched(at string) string {
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", at)
	if err != nil {
		return ""
	}
	defer c.Close()
	raw, _ := io.ReadAll(c) // what came before an error
	return string(raw)
}
