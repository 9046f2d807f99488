package router_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

// seen sends each request that a workspace gets.
func seen(t testing.TB) (*httptest.Server, chan *http.Request) {
	ch := make(chan *http.Request, 16)
	return workspace(t, func(_ http.ResponseWriter, req *http.Request) { ch <- req }), ch
}

func TestHeadersOfTheRequest(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) {
		r.Path, r.StripPath = "/app", true
	}))
	s, ch := seen(t)
	f.ready("web", s)
	req := f.request("GET", "/app/x%2Fy?a=1;b&c=%zz", nil)
	req.Host = "A.example:80"
	for name, value := range map[string]string{
		"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "X-Forwarded-Port": "1", "X_Forwarded_For": "6.6.6.6",
		"X-Real-Ip": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X-Forwarded-Prefix": "/evil", "Connection": "X-Secret", "X-Secret": "1",
		"Keep-Alive": "1", "Proxy-Authorization": "x", "Te": "deflate", "X-Kept": "1",
	} {
		req.Header[name] = []string{value}
	}
	if res, body := f.do(req); res.StatusCode != 200 {
		t.Fatal(res.StatusCode, body)
	}
	got := <-ch
	if got.RequestURI != "/x%2Fy?a=1;b&c=%zz" || got.Host != "A.example:80" {
		t.Errorf("asked for %q of %q", got.RequestURI, got.Host)
	}
	want := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"A.example:80"}, "X-Forwarded-Proto": {"http"},
		"X-Forwarded-Prefix": {"/app"}, "X-Kept": {"1"}, "User-Agent": {"Go-http-client/1.1"}}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Error(diff)
	}
}

func TestStreamArrivesUnbuffered(t *testing.T) {
	for _, header := range []http.Header{{"Content-Type": {"text/event-stream"}}, {"Content-Type": {"video/mp4"}, "Content-Length": {"45"}}} {
		t.Run(header.Get("Content-Type"), func(t *testing.T) { stream(t, header) })
	}
}

// stream reads five events, each before the next is sent: a buffer would block.
func stream(t *testing.T, header http.Header) {
	f := start(t, router.Config{}, router.Options{}, web())
	next := make(chan string)
	f.ready("web", workspace(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		for event := range next {
			fmt.Fprintf(w, "data: %s\n\n", event)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	type answer struct {
		res *http.Response
		err error
	}
	answers := make(chan answer)
	go func() {
		res, err := f.client.Do(f.request("GET", "/", nil))
		answers <- answer{res, err}
	}()
	next <- "0"
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.res.Body.Close()
	r := bufio.NewReader(a.res.Body)
	for i := range 5 {
		line, err := r.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		testkit.Value(r.ReadString('\n'))(t)
		if i < 4 {
			next <- fmt.Sprint(i + 1)
		}
	}
	close(next)
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) { r.Host = "a.example" }))
	ask := func(method, host, accept string) (*http.Response, string) {
		req := f.request(method, "/", nil)
		req.Host = host
		req.Header.Set("Accept", accept)
		return f.do(req)
	}
	res, body := ask("GET", "a.example", "application/json")
	var doc struct {
		Status             int
		Error, Route, Next string
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Status != 503 || doc.Route != "web" || doc.Error == "" || doc.Next == "" || res.StatusCode != 503 {
		t.Errorf("%s: %v", body, err)
	}
	if res, body = ask("GET", "a.example", "text/html,application/json"); !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%v %s", res.Header, body)
	}
	if res, body = ask("HEAD", "a.example", ""); res.StatusCode != 503 || body != "" || res.ContentLength == 0 {
		t.Errorf("HEAD: %v %q", res, body)
	}
	if res, _ = ask("GET", "b.example", ""); res.StatusCode != 404 {
		t.Errorf("another host: %d", res.StatusCode)
	}
	if res, _ = ask("TRACE", "a.example", ""); res.StatusCode != 405 {
		t.Errorf("TRACE: %d", res.StatusCode)
	}
	if res, _ = ask("GET", "a_b..c", ""); res.StatusCode != 400 {
		t.Errorf("a bad host: %d", res.StatusCode)
	}
}

func TestBodyLimit(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) { r.MaxBody = 10 }))
	var whole atomic.Int64
	f.ready("web", workspace(t, func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			whole.Add(1)
		}
	}))
	hidden := func(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} } // sent in chunks
	for _, body := range []io.Reader{strings.NewReader("0123456789"), hidden("0123456789")} {
		if res, text := f.do(f.request("POST", "/", body)); res.StatusCode != 200 {
			t.Errorf("%d %s", res.StatusCode, text)
		}
	}
	for _, body := range []io.Reader{strings.NewReader("0123456789a"), hidden("0123456789a")} {
		res, text := f.do(f.request("POST", "/", body))
		if res.StatusCode != 413 {
			t.Errorf("%d %s", res.StatusCode, text)
		}
		has(t, text, "10 bytes")
	}
	if whole.Load() != 2 {
		t.Errorf("the workspace read %d whole bodies", whole.Load())
	}
}

func TestHeaderLimit(t *testing.T) {
	f := start(t, router.Config{}, router.Options{MaxHeader: 4096}, web())
	f.ready("web", workspace(t, says("ok")))
	req := f.request("GET", "/", nil)
	req.Header.Set("X-Long", strings.Repeat("a", 32<<10))
	if res, _ := f.do(req); res.StatusCode != 431 {
		t.Errorf("%d", res.StatusCode)
	}
}

func TestInFlightLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbleRouter(t, router.Config{MaxInFlight: 1})
		done := make(chan int)
		go func() { done <- serve(r, httptest.NewRequest("GET", "/", nil)).Code }()
		synctest.Wait()
		w := serve(r, httptest.NewRequest("GET", "/", nil))
		has(t, w.Body.String(), "too many requests at once")
		<-done
	})
}

// raw sends bytes and returns what comes back until the router closes.
func (f *front) raw(text string) string {
	f.t.Helper()
	conn := testkit.Value(net.Dial("tcp", f.addr))(f.t)
	defer conn.Close()
	testkit.Value(io.WriteString(conn, text))(f.t)
	out, _ := io.ReadAll(conn) // a reset after the answer is an end as well
	return string(out)
}

// What one side could read as two requests reaches the workspace as one, or not
// at all.
func TestSmuggling(t *testing.T) {
	const inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	f := start(t, router.Config{}, router.Options{}, web(), router.Route{Name: "admin", Path: "/admin", Upstream: "none", Port: 1})
	for name, c := range map[string]struct {
		text  string
		codes string // allowed first line codes
	}{
		"length and chunks":     {"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200 400"},
		"two lengths":           {fmt.Sprintf("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner), "400"},
		"list of lengths":       {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 5\r\n\r\nhello", "400"},
		"signed length":         {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", "400"},
		"two encodings":         {"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner, "400 501"},
		"unknown encoding":      {"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner, "400 501"},
		"space before colon":    {"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		"folded header":         {"POST /a HTTP/1.1\r\nHost: a\r\nX: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "200 400"},
		"bare line feed chunk":  {"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", "200 400 502"},
		"chunk with bad size":   {"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + inner, "400 502"},
		"two hosts":             {"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		"no host":               {"GET /a HTTP/1.1\r\n\r\n", "400"},
		"line break in path":    {"GET /a\r\nX: y HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		"dots out of a route":   {"GET /x/../admin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400"},
		"encoded dots":          {"GET /x/%2e%2e/admin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400"},
		"slashes round a route": {"GET //admin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "503"},
		"encoded slash":         {"GET /%2fadmin/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "503"},
	} {
		// One workspace for each: an aborted request may arrive late.
		var mu sync.Mutex
		var paths []string
		s := workspace(t, func(_ http.ResponseWriter, req *http.Request) {
			mu.Lock()
			paths = append(paths, req.URL.Path)
			mu.Unlock()
			_, _ = io.Copy(io.Discard, req.Body)
		})
		f.ready("web", s)
		got := f.raw(c.text)
		if len(got) < 12 || !strings.Contains(c.codes, got[9:12]) {
			t.Errorf("%s: %.60q, expected one of %s", name, got, c.codes)
		}
		s.Close()
		mu.Lock()
		if len(paths) > 1 || (len(paths) == 1 && paths[0] != "/a") {
			t.Errorf("%s: the workspace saw %v", name, paths)
		}
		mu.Unlock()
	}
}

func TestForwardAuth(t *testing.T) {
	asked := make(chan *http.Request, 8)
	auth := workspace(t, func(w http.ResponseWriter, req *http.Request) {
		asked <- req
		switch req.Header.Get("Cookie") {
		case "good":
			w.Header().Set("Other", "not copied")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Location", "https://login.example/")
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "log in")
		}
	})
	guarded := func(r *router.Route) {
		r.ForwardAuth = auth.URL + "/verify"
	}
	f := start(t, router.Config{}, router.Options{}, web(guarded))
	s, ch := seen(t)
	f.ready("web", s)
	send := func(cookie string) (*http.Response, string) {
		req := f.request("POST", "/x?y=1", strings.NewReader("body"))
		req.Header.Set("Cookie", cookie)
		req.Header.Set("X-Forwarded-Uri", "/harmless")
		return f.do(req)
	}
	if res, _ := send("good"); res.StatusCode != 200 {
		t.Fatal(res.StatusCode)
	}
	q, got := <-asked, <-ch
	if q.Method != "GET" || q.URL.Path != "/verify" || q.ContentLength != 0 || q.Header.Get("X-Forwarded-Uri") != "/x?y=1" ||
		q.Header.Get("X-Forwarded-Method") != "POST" || q.Header.Get("X-Forwarded-Host") != f.addr {
		t.Errorf("asked %s %s with %v", q.Method, q.URL, q.Header)
	}
	if got.Header.Get("Other") != "" {
		t.Errorf("passed with %v", got.Header)
	}
	res, body := send("bad")
	if res.StatusCode != 302 || res.Header.Get("Location") != "https://login.example/" || res.Header.Get("Set-Cookie") != "a=b" || body != "log in" || len(ch) != 0 {
		t.Errorf("refused with %d %v %q", res.StatusCode, res.Header, body)
	}
	auth.Close()
	if res, _ := send("good"); res.StatusCode != 502 || len(ch) != 0 {
		t.Errorf("without the service: %d", res.StatusCode)
	}
}

// TestForwardAuthForged: who a client says that it is reaches neither the service that
// authorizes, which may look at it, nor the workspace, which may believe it. Where
// nobody authorizes, a workspace has no reason to believe it, and may use the names.
func TestForwardAuthForged(t *testing.T) {
	auth, asked := seen(t)
	s, ch := seen(t)
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) { r.ForwardAuth = auth.URL }),
		web(func(r *router.Route) { r.Name, r.Path = "open", "/open" }))
	f.ready("web", s)
	forged := []string{"Remote-User", "Remote_User", "REMOTE_GROUPS", "remote-email", "X-Forwarded-User", "X_Forwarded_Email", "X-Auth-Request-User",
		"X_Auth_Request-Groups", "X-Authentik-Username", "X-Webauth-User", "X-Remote-Group", "X-Remote_Extra-Scopes", "X-Vouch-User", "X-Pomerium-Claim-Email",
		"Tailscale-User-Login", "X-User", "X-User-Id"}
	kept := []string{"X-Kept", "Authorization", "Cookie", "X-Auth-Token", "User-Agent", "X-Users", "X-User-Agent"}
	for _, path := range []string{"/", "/open"} {
		req := f.request("GET", path, nil)
		for _, name := range append(forged, kept...) {
			req.Header[name] = []string{"admin"}
		}
		if res, body := f.do(req); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, res.StatusCode, body)
		}
		got := []*http.Request{<-ch}
		if path == "/" {
			got = append(got, <-asked)
		}
		for i, r := range got {
			for _, name := range forged {
				guarded := path == "/" || strings.HasPrefix(strings.ReplaceAll(name, "_", "-"), "X-Forwarded-")
				if there := len(r.Header[name])+len(r.Header[http.CanonicalHeaderKey(name)]) > 0; there == guarded {
					t.Errorf("%s, reader %d: header %s there: %v", path, i, name, there)
				}
			}
			for _, name := range kept {
				if r.Header.Get(name) != "admin" {
					t.Errorf("%s, reader %d: header %s is gone", path, i, name)
				}
			}
		}
	}
}

func TestHeaderTimeout(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) { r.Timeouts.Header = 20 * clock.Millisecond }))
	f.ready("web", workspace(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }))
	res, body := f.get("/")
	if res.StatusCode != 504 {
		t.Errorf("%d", res.StatusCode)
	}
	has(t, body, "timeouts.header")
}

func TestIdleTimeoutEndsASilentStream(t *testing.T) {
	f := start(t, router.Config{}, router.Options{})
	f.ready("web", workspace(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	// The time is doubled until the stream begins before it is over.
	idle := 20 * clock.Millisecond
	for {
		f.swap(web(func(r *router.Route) { r.Timeouts.Idle = idle }))
		var body []byte
		res, err := f.client.Do(f.request("GET", "/", nil))
		if err == nil && res.StatusCode == http.StatusOK {
			body, err = io.ReadAll(res.Body)
		}
		if res != nil {
			res.Body.Close()
		}
		drain(f)
		switch idle *= 2; {
		case string(body) == "begin" && err != nil:
			return
		case len(body) > 0 || idle > clock.Minute:
			t.Fatalf("%q, %v: a cut stream must not look whole", body, err)
		}
	}
}

func TestIdleTimeoutEndsASilentClient(t *testing.T) {
	f := start(t, router.Config{}, router.Options{}, web(func(r *router.Route) { r.Timeouts.Idle = 20 * clock.Millisecond }))
	f.ready("web", workspace(t, func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }))
	conn := testkit.Value(net.Dial("tcp", f.addr))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
	all, _ := io.ReadAll(conn)
	has(t, string(all), "504")
	drain(f)
}

// drain waits until no request is in the router.
func drain(f *front) {
	for f.router.InFlight() > 0 {
		runtime.Gosched()
	}
}
