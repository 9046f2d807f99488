package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// page is a browser's end of a terminal.
type page struct {
	t    testing.TB
	conn *websocket.Conn
}

// terminal opens one as the page of an origin that sends a header; refused is the status of a
// handshake that fails.
func (w *world) terminal(name, value, origin string) (p *page, refused int) {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.server.ServerCA())
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	w.t.Cleanup(c.CloseIdleConnections)
	url := w.server.OperatorURL() + operator.Prefix + "/hosts/h-0000/workspace/web/terminal"
	conn, res, err := websocket.Dial(w.ctx(), url, &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{name: {value}, "Origin": {origin}}})
	if err != nil {
		if res == nil {
			w.t.Fatal(err)
		}
		return nil, res.StatusCode
	}
	w.t.Cleanup(func() { _ = conn.CloseNow() })
	return &page{w.t, conn}, 0
}

func (p *page) send(f wire.Frame) {
	p.t.Helper()
	var b bytes.Buffer
	testkit.Must(p.t, wire.NewFrameWriter(&b).Write(f))
	testkit.Must(p.t, p.conn.Write(context.Background(), websocket.MessageBinary, b.Bytes()))
}

func (p *page) start(args wire.StreamArgs) {
	p.t.Helper()
	p.send(testkit.Value(wire.StartFrame(args))(p.t))
}

func (p *page) next() (wire.Frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	_, b, err := p.conn.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	return wire.NewFrameReader(bytes.NewReader(b)).Next()
}

// exit is the last frame, after which the socket is closed in good order.
func (p *page) exit() wire.Exit {
	p.t.Helper()
	f := testkit.Value(p.next())(p.t)
	e := testkit.Value(f.Exit())(p.t)
	var end websocket.CloseError
	if _, err := p.next(); !errors.As(err, &end) || end.Code != websocket.StatusNormalClosure {
		p.t.Errorf("after the exit: %v", err)
	}
	return e
}

// A terminal of the page is the exec of the command line: the same frames to the same agent,
// once in the log.
func TestTerminalGoesBothWays(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	wait := a.serve(1, func(c *conn) {
		if r := c.req; r.Kind != wire.StreamExec || strings.Join(r.Args.Argv, " ") != "sh" || !r.Args.TTY || r.Args.Rows != 24 || !strings.HasPrefix(r.Actor, "admin") {
			t.Errorf("asked for %+v", r)
		}
		c.takes(wire.FrameStdin, "ls\r")
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("etc")))
		c.takes(wire.FrameResize, `{"rows":30,"cols":90}`)
		testkit.Must(t, c.out.Exit(wire.Exit{Code: 7}))
		_, _ = c.in.Next() // the server ends it
	})
	p, status := w.terminal("Cookie", w.login(byToken(w.adminSecret())), w.server.OperatorURL())
	if p == nil {
		t.Fatalf("the handshake is answered %d", status)
	}
	p.start(wire.StreamArgs{Argv: []string{"sh"}, Stdin: true, TTY: true, Rows: 24, Cols: 80})
	p.send(wire.Frame{Type: wire.FrameStdin, Data: []byte("ls\r")})
	if f, err := p.next(); err != nil || f.Type != wire.FrameStdout || string(f.Data) != "etc" {
		t.Fatalf("the page got %d %q, %v", f.Type, f.Data, err)
	}
	p.send(wire.Frame{Type: wire.FrameResize, Data: []byte(`{"rows":30,"cols":90}`)})
	if e := p.exit(); e.Code != 7 || e.Error != "" {
		t.Errorf("exit %+v", e)
	}
	wait()
	log := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutHost("h-0000"), Tail: true, Limit: 50}))(t)
	opened := 0
	for _, e := range log.Events {
		if e.Type == "stream.opened" {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d events of one terminal", opened)
	}
}

// Closing the tab ends what ran for it.
func TestTerminalEndsWithItsTab(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	ended := make(chan error, 1)
	wait := a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("$ ")))
		_, err := c.in.Next()
		ended <- err
	})
	p, _ := w.terminal("Cookie", w.login(byToken(w.adminSecret())), w.server.OperatorURL())
	p.start(wire.StreamArgs{Argv: []string{"sh"}, Stdin: true, TTY: true, Rows: 24, Cols: 80})
	testkit.Value(p.next())(t)
	testkit.Must(t, p.conn.CloseNow())
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the agent was told nothing")
		}
	case <-time.After(testkit.Patience):
		t.Error("the command runs on")
	}
	wait()
}

// What a page may not have, it is refused; a page of this server is told why.
func TestTerminalIsRefused(t *testing.T) {
	w := newWorld(t)
	settled(w, plan{hosts: 1, content: "one", host: ", managed: [workspace], allow: [logs]"})
	viewer := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "eve", Role: operator.Viewer}))(t)
	here := w.server.OperatorURL()
	for name, c := range map[string]struct {
		cookie, origin string
		want           int
	}{
		"another site's page": {w.login(byToken(w.adminSecret())), "https://evil.example", http.StatusForbidden},
		"another port's page": {w.login(byToken(w.adminSecret())), "https://127.0.0.1:1", http.StatusForbidden},
		"viewer":              {w.login(byToken(viewer.Secret)), here, http.StatusForbidden},
		"nobody":              {operator.LoginCookie + "=none", here, http.StatusUnauthorized},
	} {
		if p, status := w.terminal("Cookie", c.cookie, c.origin); p != nil || status != c.want {
			t.Errorf("%s: status %d, want %d", name, status, c.want)
		}
	}
	for name, c := range map[string]struct {
		frame wire.Frame
		want  string
	}{
		"no exec here": {testkit.Value(wire.StartFrame(wire.StreamArgs{Argv: []string{"sh"}}))(t), "allow"},
		"no command":   {testkit.Value(wire.StartFrame(wire.StreamArgs{}))(t), "command is empty"},
		"no start":     {wire.Frame{Type: wire.FrameStdin, Data: []byte("ls")}, "first frame"},
	} {
		p, status := w.terminal("Cookie", w.login(byToken(w.adminSecret())), here)
		if p == nil {
			t.Fatalf("%s: status %d", name, status)
		}
		p.send(c.frame)
		if e := p.exit(); e.Code != -1 || !strings.Contains(e.Error, c.want) {
			t.Errorf("%s: exit %+v, want %q", name, e, c.want)
		}
	}
}
