package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

// Clients send reads and writes while the workspace is replaced again and again:
// hold, drain, stop the old one, start another, release. Every request is
// answered by a workspace, once.
func TestSwapUnderLoadDropsNothing(t *testing.T) {
	f := start(t, router.Config{QueueFor: time.Minute}, router.Options{}, web())
	var served atomic.Int64
	next := func() *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			served.Add(1)
			_, _ = w.Write(append([]byte("echo "), body...))
		}))
	}
	old := next()
	f.ready("web", old)
	const clients, each, swaps = 6, 150, 20
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d %d", c, i)
				method := []string{"GET", "POST", "PUT"}[i%3]
				var from io.Reader
				if method != "GET" {
					from = strings.NewReader(body)
				} else {
					body = ""
				}
				req, err := http.NewRequest(method, "http://"+f.addr+"/", from)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := f.client.Do(req)
				if err != nil {
					t.Errorf("%s %s: %v", method, body, err)
					return
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != 200 || string(got) != "echo "+body {
					t.Errorf("%s %s: %d %q %v", method, body, res.StatusCode, got, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	running := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	for i := 0; i < swaps || running(); i++ {
		if i%2 == 0 { // stop first
			f.router.SetUpstream("web", router.Upstream{State: router.Holding})
		}
		fresh := next()
		if i%2 == 1 { // start first
			f.ready("web", fresh)
		}
		testkit.Must(t, f.router.Drain(context.Background(), "web", addrOf(old)))
		old.Close()
		f.ready("web", fresh)
		f.swap(web(), router.Route{Name: fmt.Sprintf("other-%d", i), Host: "other.example", Upstream: "other", Port: 80})
		old = fresh
	}
	wg.Wait()
	old.Close()
	if got := served.Load(); got != clients*each {
		t.Errorf("%d requests were served, %d were sent", got, clients*each)
	}
	drain(f) // a client has its answer before the router is done with the request
}

func TestRequestKeepsItsTableAndAddress(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web())
	arrived, release := make(chan bool), make(chan bool)
	old := workspace(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- true
		<-release
		_, _ = io.WriteString(w, "old")
	})
	f.ready("web", old)
	answer := make(chan string)
	go func() {
		_, body := f.get("/")
		answer <- body
	}()
	<-arrived
	f.ready("web", workspace(t, says("new")))
	if _, body := f.get("/"); body != "new" {
		t.Errorf("a new request got %q", body)
	}
	f.swap() // no routes at all
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the replace is in a hurry"))
	var left *router.Undrained
	if err := f.router.Drain(ctx, "web", addrOf(old)); !errors.As(err, &left) || left.InFlight != 1 || left.Upgraded != 0 {
		t.Errorf("drained with a request in flight: %v", err)
	}
	close(release)
	if body := <-answer; body != "old" {
		t.Errorf("the running request got %q", body)
	}
	if err := f.router.Drain(context.Background(), "web", addrOf(old)); err != nil {
		t.Error(err)
	}
	res, body := f.get("/")
	if res.StatusCode != 404 {
		t.Errorf("%d without routes", res.StatusCode)
	}
	has(t, body, "declare a route")
}

func TestDrainRefusesACurrentAddress(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web())
	s := workspace(t, says("x"))
	f.ready("web", s)
	if err := f.router.Drain(context.Background(), "web", addrOf(s)); err == nil {
		t.Fatal("drained an address that new requests go to")
	}
	f.router.SetUpstream("web", router.Upstream{State: router.Ready, Addrs: []netip.AddrPort{addrOf(s)}, ID: "next"})
	if err := f.router.Drain(context.Background(), "web", addrOf(s)); err != nil {
		t.Errorf("the successor at the same address is taken for the old one: %v", err)
	}
	if err := f.router.Drain(context.Background(), "unknown", addrOf(s)); err != nil {
		t.Error(err)
	}
}

// serve answers one request without a network, for virtual time.
func serve(r *router.Router, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func bubbleRouter(t *testing.T, cfg router.Config) *router.Router {
	r := router.New(cfg)
	tab, problems := router.BuildTable([]router.Route{web()})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r.Swap(tab)
	r.SetUpstream("web", router.Upstream{State: router.Holding})
	return r
}

func TestHoldEndsWith503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbleRouter(t, router.Config{QueueFor: 3 * time.Second})
		begin := time.Now()
		w := serve(r, httptest.NewRequest("GET", "http://a.example/", nil))
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || time.Since(begin) != 3*time.Second {
			t.Errorf("%d after %v, Retry-After %q", w.Code, time.Since(begin), w.Header().Get("Retry-After"))
		}
		has(t, w.Body.String(), "route: web")
	})
}

func TestHoldIsBoundedAndEndsWithGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbleRouter(t, router.Config{QueueLimit: 2})
		codes := make(chan int, 2)
		for range 2 {
			go func() { codes <- serve(r, httptest.NewRequest("GET", "/", nil)).Code }()
		}
		synctest.Wait()
		begin := time.Now()
		w := serve(r, httptest.NewRequest("GET", "/", nil))
		if w.Code != 503 || time.Since(begin) != 0 {
			t.Errorf("the third waited %v and got %d", time.Since(begin), w.Code)
		}
		has(t, w.Body.String(), "too many requests wait")
		ctx, leave := context.WithCancel(context.Background())
		left := make(chan int)
		r.SetUpstream("web", router.Upstream{State: router.Gone})
		if a, b := <-codes, <-codes; a != 503 || b != 503 {
			t.Errorf("gone: %d and %d", a, b)
		}
		r.SetUpstream("web", router.Upstream{State: router.Holding})
		go func() { left <- serve(r, httptest.NewRequest("GET", "/", nil).WithContext(ctx)).Code }()
		synctest.Wait()
		leave()
		if code := <-left; code != 499 {
			t.Errorf("a client that left while waiting is counted as %d", code)
		}
	})
}

func TestHoldThenRelease(t *testing.T) {
	f := start(t, router.Config{QueueFor: time.Minute}, router.Options{}, web())
	f.router.SetUpstream("web", router.Upstream{State: router.Holding})
	const n = 10
	bodies := make(chan string, n)
	for i := range n {
		go func() {
			_, body := f.do(f.request("POST", "/", strings.NewReader(fmt.Sprint(i))))
			bodies <- body
		}()
	}
	for f.router.InFlight() < n { // each is in the router now
		runtime.Gosched()
	}
	f.ready("web", workspace(t, says("held")))
	for range n {
		if body := <-bodies; body != "held" {
			t.Errorf("got %q", body)
		}
	}
}

// The old workspace died before anything said so: what had not begun waits and
// goes to the new one, also with a body.
func TestRefusedWhileHoldingIsTriedAgain(t *testing.T) {
	f := start(t, router.Config{QueueFor: time.Minute}, router.Options{}, web())
	dead, alive := closedAddr(t), workspace(t, func(w http.ResponseWriter, req *http.Request) { _, _ = io.Copy(w, req.Body) })
	f.router.SetUpstream("web", router.Upstream{State: router.Ready, Addrs: []netip.AddrPort{dead, addrOf(alive)}})
	for i := range 6 {
		if res, body := f.do(f.request("POST", "/", strings.NewReader("kept"))); res.StatusCode != 200 || body != "kept" {
			t.Fatalf("request %d: %d %q", i, res.StatusCode, body)
		}
	}
	f.router.SetUpstream("web", router.Upstream{State: router.Ready, Addrs: []netip.AddrPort{dead}})
	res, body := f.get("/")
	if res.StatusCode != 502 {
		t.Errorf("%d with a dead workspace only", res.StatusCode)
	}
	has(t, body, "accepts no connection")
	if strings.Contains(body, dead.String()) {
		t.Errorf("the page tells the address: %s", body)
	}
}

// A read that broke because its workspace was stopped goes to the next one; a
// write might have been done and does not.
func TestBrokenReadIsTriedAgainAndAWriteIsNot(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "POST": 502} {
		f := start(t, router.Config{QueueFor: time.Minute}, router.Options{}, web())
		fresh := workspace(t, says("fresh"))
		old := workspace(t, func(w http.ResponseWriter, _ *http.Request) {
			f.router.SetUpstream("web", router.Upstream{State: router.Holding})
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
			f.ready("web", fresh)
		})
		f.ready("web", old)
		if res, body := f.do(f.request(method, "/", nil)); res.StatusCode != want {
			t.Errorf("%s: %d %q", method, res.StatusCode, body)
		}
	}
}

// echo upgrades by hand and sends each line back with its name.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "websocket" || !strings.EqualFold(req.Header.Get("Connection"), "upgrade") {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
			req.Header.Get("Sec-WebSocket-Key") + "\r\n\r\n")
		_ = rw.Flush()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = rw.WriteString(name + " " + line)
			_ = rw.Flush()
		}
	}
}

type socket struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (f *front) upgrade(t *testing.T) *socket {
	t.Helper()
	conn := testkit.Value(net.Dial("tcp", f.addr))(t)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: key\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n")
	s := &socket{t: t, Conn: conn, r: bufio.NewReader(conn)}
	res, err := http.ReadResponse(s.r, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Sec-Websocket-Accept") != "key" {
		t.Fatalf("no upgrade: %v %v", res, err)
	}
	return s
}

func (s *socket) say(text string) string {
	s.t.Helper()
	fmt.Fprintf(s, "%s\n", text)
	line := testkit.Value(s.r.ReadString('\n'))(s.t)
	return strings.TrimSpace(line)
}

func TestWebSocketLivesThroughASwap(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web())
	old, fresh := workspace(t, echo("old")), workspace(t, echo("new"))
	f.ready("web", old)
	first := f.upgrade(t)
	if got := first.say("1"); got != "old 1" {
		t.Fatal(got)
	}
	f.ready("web", fresh)
	f.swap(web())
	second := f.upgrade(t)
	if a, b := first.say("2"), second.say("3"); a != "old 2" || b != "new 3" {
		t.Errorf("after the swap: %q and %q", a, b)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var left *router.Undrained
	if err := f.router.Drain(done, "web", addrOf(old)); !errors.As(err, &left) || left.Upgraded != 1 {
		t.Errorf("drain with an open WebSocket: %v", err)
	}
	first.Close()
	if err := f.router.Drain(context.Background(), "web", addrOf(old)); err != nil {
		t.Error(err)
	}
	if got := second.say("4"); got != "new 4" {
		t.Error(got)
	}
	second.Close()
}

func TestShutdownEndsUpgradedConnections(t *testing.T) {
	r := router.New(router.Config{})
	tab, _ := router.BuildTable([]router.Route{web()})
	r.Swap(tab)
	ctx, cancel := context.WithCancel(context.Background())
	l := testkit.Value(r.Listen(ctx, router.Options{HTTP: []string{"127.0.0.1:0"}}))(t)
	f := &front{t: t, router: r, addr: l.HTTP()[0].String()}
	f.ready("web", workspace(t, echo("x")))
	s := f.upgrade(t)
	cancel()
	if err := l.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := s.r.ReadByte(); err == nil {
		t.Error("the connection outlives the listener")
	}
	r.Close()
}
