package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/nodes"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// wireNode speaks the protocol by hand, so that it can break its rules.
type wireNode struct {
	w       *world
	name    string
	key     ed25519.PrivateKey
	token   []byte
	edit    func(*nodesdk.Hello) // of the hello, after it was signed
	conn    *websocket.Conn
	term    uint64
	objects []nodesdk.Object
	op      uint64 // the newest that was applied
	at      string // where it connects, if that is not the world's server
	ca      []byte
	from    string // the address that it connects from, if that is not the machine's choice
}

func (w *world) wireNode(name string) *wireNode {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(w.t, err)
	return &wireNode{w: w, name: name, key: key, token: testkit.Value(w.keys.NodeToken(name))(w.t)}
}

// dial connects as far as the hello, and returns what the server says to it.
func (n *wireNode) dial() nodesdk.Message {
	n.w.t.Helper()
	m, err := n.open(n.w.ctx())
	testkit.Must(n.w.t, err)
	conn := n.conn
	n.w.t.Cleanup(func() { _ = conn.CloseNow() })
	return m
}

// open is dial for any goroutine.
func (n *wireNode) open(ctx context.Context) (m nodesdk.Message, err error) {
	at, ca := n.w.url(), n.w.ca()
	if n.at != "" {
		at, ca = n.at, n.ca
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, NextProtos: []string{"http/1.1"}}}
	if n.from != "" {
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(n.from)}}).DialContext
	}
	defer transport.CloseIdleConnections()
	conn, resp, err := websocket.Dial(ctx, at+nodesdk.Path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{nodesdk.Subprotocol}})
	if err != nil {
		return m, err
	}
	conn.SetReadLimit(nodesdk.MaxFromServer)
	n.conn = conn
	defer func() {
		if err != nil {
			_ = conn.CloseNow()
		}
	}()
	if m, err = n.receive(ctx); err != nil {
		return m, err
	}
	c := m.Challenge
	if c == nil || len(c.Nonce) != 32 || c.Fleet != testFleet || c.Term == 0 {
		return m, fmt.Errorf("the challenge is %+v", c)
	}
	n.term = c.Term
	exporter, err := resp.TLS.ExportKeyingMaterial(nodesdk.ExporterLabel, nil, 32)
	if err != nil {
		return m, err
	}
	public := n.key.Public().(ed25519.PublicKey)
	h := nodesdk.Hello{Version: nodesdk.Version, Node: n.name, Key: public, Signature: ed25519.Sign(n.key, nodesdk.SignedHello(*c, n.name, public, exporter)),
		Token: n.token, Instance: "i1", Driver: "test", Program: "test 1", Op: n.op, Collections: []nodesdk.Collection{{Kind: nodeconfig.Flow}}}
	if n.edit != nil {
		n.edit(&h)
	}
	if err := n.write(ctx, nodesdk.Message{Type: nodesdk.TypeHello, Hello: &h}); err != nil {
		return m, err
	}
	return n.receive(ctx)
}

func (n *wireNode) write(ctx context.Context, m nodesdk.Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return n.conn.Write(ctx, websocket.MessageText, raw)
}

func (n *wireNode) receive(ctx context.Context) (nodesdk.Message, error) {
	_, raw, err := n.conn.Read(ctx)
	if err != nil {
		return nodesdk.Message{}, err
	}
	return nodesdk.DecodeMessage(raw)
}

// join is dial that must succeed.
func (n *wireNode) join() nodesdk.Welcome {
	n.w.t.Helper()
	m := n.dial()
	if m.Welcome == nil {
		n.w.t.Fatalf("node %s was answered %+v, refused %+v", n.name, m, m.Refused)
	}
	return *m.Welcome
}

func (n *wireNode) send(m nodesdk.Message) {
	n.w.t.Helper()
	testkit.Must(n.w.t, n.write(n.w.ctx(), m))
}

// answer answers requests until stop says so of one, or the connection ends with the refusal
// that is returned.
func (n *wireNode) answer(stop func(nodesdk.Message) bool) *nodesdk.Refused {
	n.w.t.Helper()
	return n.serve(n.w.ctx(), stop)
}

// serve is answer for any goroutine.
func (n *wireNode) serve(ctx context.Context, stop func(nodesdk.Message) bool) *nodesdk.Refused {
	for {
		m, err := n.receive(ctx)
		if err != nil {
			return nil
		}
		if m.Refused != nil {
			return m.Refused
		}
		if stop(m) {
			return nil
		}
		if n.write(ctx, nodesdk.Message{Type: nodesdk.TypeAnswer, ID: m.ID, Answer: n.does(m.Request)}) != nil {
			return nil
		}
	}
}

func (n *wireNode) reply(m nodesdk.Message) {
	n.w.t.Helper()
	n.send(nodesdk.Message{Type: nodesdk.TypeAnswer, ID: m.ID, Answer: n.does(m.Request)})
}

// does what is requested.
func (n *wireNode) does(r *nodesdk.Request) *nodesdk.Answer {
	switch {
	case r.Snapshot != nil:
		return &nodesdk.Answer{Snapshot: &nodesdk.Snapshot{Complete: true, Instance: "i1", Op: n.op, Objects: n.objects}}
	case r.Apply != nil:
		etag := fmt.Sprintf("e%d", r.Apply.Op)
		o := nodesdk.Object{Kind: r.Apply.Kind, ID: r.Apply.ID, ETag: etag, Op: r.Apply.Op, OpETag: etag, Config: r.Apply.Config}
		n.objects, n.op = []nodesdk.Object{o}, r.Apply.Op
		return &nodesdk.Answer{Applied: &nodesdk.Applied{Op: r.Apply.Op, Outcome: nodesdk.OutcomeApplied, Object: &o}}
	}
	return &nodesdk.Answer{Validated: &nodesdk.Validated{Supported: true, Problems: []nodesdk.Problem{{Field: "a", Message: "is \x1b[31mred"}}}}
}

// compared answers until the server has compared the node.
func (n *wireNode) compared() {
	n.w.t.Helper()
	n.answer(func(m nodesdk.Message) bool {
		return m.Request.Snapshot != nil && func() bool { n.reply(m); return true }()
	})
	n.w.untilNode(n.name, "it was compared", func(x *drift.Node) bool { return !x.Compare && x.ComparedAt != 0 })
}

// eventsOf counts the events of a node of one type.
func (w *world) eventsOf(node, eventType string) (n int) {
	w.t.Helper()
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(w.t)
	for _, e := range page.Events {
		if e.Type == eventType && e.Subject == (event.Subject{Kind: event.KindNode, Name: node}) {
			n++
		}
	}
	return n
}

// TestNodesAreRefused: who does not prove that it is the node does not get in, and nothing of what was
// tried in the name of a node is held against it.
func TestNodesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := w.wireNode("gw-1")
	known.join()
	spent := known.token
	other := testkit.Value(w.keys.NodeToken("gw-2"))(t)
	late := testkit.Value(w.keys.NodeToken("gw-1", func(k *identity.NodeToken) {
		k.IssuedAt, k.Expires = k.IssuedAt.Add(-clock.Hour), k.IssuedAt.Add(-clock.Minute)
	}))(t)
	bound := testkit.Value(w.keys.NodeToken("gw-1", func(k *identity.NodeToken) {
		k.KeyDigest = testkit.Value(identity.PublicDigest(known.key.Public()))(t)
	}))(t)
	for what, c := range map[string]struct {
		token []byte
		name  string
		edit  func(*nodesdk.Hello)
		code  string
		words string
	}{
		"a strange key":        {nil, "gw-1", nil, nodesdk.CodeForbidden, "no node gw-1 has this key"},
		"never registered":     {nil, "gw-9", nil, nodesdk.CodeForbidden, "no node gw-9 has this key"},
		"a spent token":        {spent, "gw-1", nil, nodesdk.CodeForbidden, "the token was used already"},
		"a token of another":   {other, "gw-1", nil, nodesdk.CodeForbidden, "the token is for node gw-2"},
		"an old token":         {late, "gw-1", nil, nodesdk.CodeForbidden, "expired"},
		"a token of a key":     {bound, "gw-1", nil, nodesdk.CodeForbidden, "the token is for key"},
		"a host's token":       {w.token("gw-1"), "gw-1", nil, nodesdk.CodeForbidden, "token-untrusted"},
		"for another node":     {nil, "gw-1", func(h *nodesdk.Hello) { h.Node = "gw-2" }, nodesdk.CodeForbidden, "the signature"},
		"another's key":        {nil, "gw-1", func(h *nodesdk.Hello) { h.Key = known.key.Public().(ed25519.PublicKey) }, nodesdk.CodeForbidden, "the signature"},
		"a name that is none":  {nil, "gw-1", func(h *nodesdk.Hello) { h.Node = "../x" }, nodesdk.CodeMalformed, "no proper name"},
		"a future version":     {nil, "gw-1", func(h *nodesdk.Hello) { h.Version = 9 }, nodesdk.CodeVersion, "version 9"},
		"an endless field":     {nil, "gw-1", func(h *nodesdk.Hello) { h.Driver = strings.Repeat("x", 201) }, nodesdk.CodeMalformed, "201 bytes"},
		"a reserved kind":      {nil, "gw-1", func(h *nodesdk.Hello) { h.Collections[0].Kind = "host" }, nodesdk.CodeCollection, `kind "host" is reserved`},
		"a kind that is twice": {nil, "gw-1", func(h *nodesdk.Hello) { h.Collections = append(h.Collections, h.Collections[0]) }, nodesdk.CodeCollection, "twice"},
	} {
		n := w.wireNode(c.name)
		n.token, n.edit = c.token, c.edit
		m := n.dial()
		if r := m.Refused; r == nil || r.Code != c.code || !r.Final || !strings.Contains(r.Message, c.words) {
			t.Errorf("%s: %+v, expected %s with %q", what, m.Refused, c.code, c.words)
		}
	}
	for _, name := range []string{"gw-1", "gw-9"} {
		if n := w.eventsOf(name, event.NodeRefused{}.EventType()); n != 0 {
			t.Errorf("%d events of connections that strangers tried in the name of %s", n, name)
		}
	}
	w.untilNode("gw-1", "it is still there", func(n *drift.Node) bool { return n.Online && n.RefusedFor == "" })

	// The answer may have been lost: the same token with the same key is as good as none.
	known.join()
	if n := w.eventsOf("gw-1", event.NodeRegistered{}.EventType()); n != 1 {
		t.Errorf("registered %d times", n)
	}
	testkit.Value(w.server.Control().EditNodes(w.ctx(), drift.Retire{Node: "gw-1"}, drift.By{Actor: "op", Reason: "gone"}))(t)
	if r := known.answer(func(nodesdk.Message) bool { return false }); r != nil {
		t.Logf("the retired node was told %+v", r)
	}
	if m := known.dial(); m.Refused == nil || !strings.Contains(m.Refused.Message, "used already") {
		t.Errorf("a retired node with its old token: %+v", m)
	}
	known.token = nil
	if m := known.dial(); m.Refused == nil || !strings.Contains(m.Refused.Message, "was retired, or lost its state folder") {
		t.Errorf("a retired node: %+v", m)
	}
}

// TestNodeConnectsTwice: the younger connection of a node counts, and the older one ends
// without the node being offline.
func TestNodeConnectsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.wireNode("gw-1")
	first := one.join()
	one.compared()
	two := *one
	second := two.join()
	if second.Session <= first.Session {
		t.Errorf("sessions %d and %d", first.Session, second.Session)
	}
	if r := one.answer(func(nodesdk.Message) bool { return false }); r == nil || r.Code != nodesdk.CodeReplaced {
		t.Errorf("the older connection was told %+v", r)
	}
	two.compared()
	w.set("gw-1", "news", `{"input": "a"}`)
	two.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply == nil {
			return false
		}
		if m.Request.Apply.Term != two.term {
			t.Errorf("an operation of term %d, the server leads under %d", m.Request.Apply.Term, two.term)
		}
		two.reply(m)
		return true
	})
	w.untilStatus("news", drift.Pushed)
	if n := w.eventsOf("gw-1", event.NodeDisconnected{}.EventType()); n != 0 {
		t.Errorf("%d disconnections", n)
	}
}

// TestNodeSendsGarbage: what cannot be read, or was not asked for, is refused and counted, the
// connection ends after a few, and the node is offline then with the reason.
func TestNodeSendsGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Nodes = nodes.Limits{SmallFrame: 4 << 10} })
	bystander := w.wireNode("gw-0")
	bystander.join()
	bystander.compared()
	thrice := func(text string) func(*wireNode) {
		return func(n *wireNode) {
			for range 3 {
				_ = n.conn.Write(w.ctx(), websocket.MessageText, []byte(text)) // it may be refused already
			}
		}
	}
	for i, c := range []struct {
		what string
		send func(*wireNode)
		code string
		why  string
	}{
		{"no JSON", thrice("hello"), nodesdk.CodeMalformed, `malformed: 3 messages`},
		{"too deep", thrice(strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)), nodesdk.CodeMalformed, `nests deeper`},
		{"a key twice", thrice(`{"type":"changed","changed":{"generation":1},"Type":"effect"}`), nodesdk.CodeMalformed, `repeats a key`},
		{"an answer to nothing", thrice(`{"type":"answer","id":77,"answer":{}}`), nodesdk.CodeMalformed, `an answer to nothing that was asked`},
		{"of no type", thrice(`{"type":"what"}`), nodesdk.CodeMalformed, `a message of type "what"`},
		{"an effect of nothing", thrice(`{"type":"effect","effect":{"kind":"host","id":"a","effect":"in effect"}}`), nodesdk.CodeMalformed, `no known kind`},
		{"a key without proof", thrice(`{"type":"nextkey","nextkey":{"key":"AAAA","proof":"AAAA"}}`), nodesdk.CodeMalformed, `without its proof`},
		{"large without being asked", func(n *wireNode) {
			_ = n.conn.Write(w.ctx(), websocket.MessageText, []byte(strings.Repeat(" ", 64<<10)))
		}, nodesdk.CodeMalformed, "that answers nothing"},
		{"fragments", func(n *wireNode) {
			out, err := n.conn.Writer(w.ctx(), websocket.MessageText)
			for range 5000 {
				if err == nil {
					_, err = out.Write([]byte(" "))
				}
			}
		}, nodesdk.CodeMalformed, "fragments"},
		{"a flood of pings", func(n *wireNode) {
			for range 200 {
				go func() { _ = n.conn.Ping(w.ctx()) }() // it ends with the connection
			}
		}, nodesdk.CodeTooMuch, "more messages than a node may"},
	} {
		n := w.wireNode(fmt.Sprintf("bad-%d", i))
		n.join()
		n.compared()
		told := make(chan *nodesdk.Refused, 1)
		go func() { told <- n.answer(func(nodesdk.Message) bool { return false }) }()
		c.send(n)
		// Whoever goes on sending may lose the last message, with the connection.
		if r := <-told; r != nil && r.Code != c.code || r == nil && c.code != nodesdk.CodeTooMuch {
			t.Errorf("%s: it was told %+v, expected %s", c.what, r, c.code)
		}
		why := ""
		w.untilNode(n.name, c.what+" ended it", func(x *drift.Node) bool { why = x.Why; return !x.Online })
		if !strings.Contains(why, c.why) {
			t.Errorf("%s: the node is offline since %q, expected %q", c.what, why, c.why)
		}
	}
	scraped := w.scrape()
	for _, reason := range []string{"malformed", "unsolicited"} {
		if strings.Contains(scraped, "steady_node_frames_refused_total{reason=\""+reason+"\"} 0\n") {
			t.Errorf("no %s message was counted", reason)
		}
	}
	w.untilNode("gw-0", "nobody else is concerned", func(n *drift.Node) bool { return n.Online && n.Session == 1 })
}
