package router_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// front is a router on loopback.
type front struct {
	t      testing.TB
	router *router.Router
	addr   string
	https  string
	listen *router.Listener
	client *http.Client
}

func start(t testing.TB, cfg router.Config, o router.Options, routes ...router.Route) *front {
	t.Helper()
	r := router.New(cfg)
	f := &front{t: t, router: r}
	f.swap(routes...)
	o.HTTP = []string{"127.0.0.1:0"}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := r.Listen(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	f.listen, f.addr = l, l.HTTP()[0].String()
	if len(l.HTTPS()) > 0 {
		f.https = l.HTTPS()[0].String()
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	f.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := l.Wait(); err != nil {
			t.Error(err)
		}
		r.Close()
	})
	return f
}

func (f *front) swap(routes ...router.Route) {
	f.t.Helper()
	tab, problems := router.BuildTable(routes)
	if len(problems) > 0 {
		f.t.Fatal(problems)
	}
	f.router.Swap(tab)
}

// ready leads key to the servers.
func (f *front) ready(key string, servers ...*httptest.Server) {
	u := router.Upstream{State: router.Ready}
	for _, s := range servers {
		u.Addrs = append(u.Addrs, addrOf(s))
	}
	f.router.SetUpstream(key, u)
}

func (f *front) request(method, path string, body io.Reader) *http.Request {
	f.t.Helper()
	req := testkit.Value(http.NewRequest(method, "http://"+f.addr+path, body))(f.t)
	return req
}

// do returns the response with its body read.
func (f *front) do(req *http.Request) (*http.Response, string) {
	f.t.Helper()
	res := testkit.Value(f.client.Do(req))(f.t)
	defer res.Body.Close()
	body := testkit.Value(io.ReadAll(res.Body))(f.t)
	return res, string(body)
}

func (f *front) get(path string) (*http.Response, string) {
	f.t.Helper()
	return f.do(f.request("GET", path, nil))
}

// workspace is a real HTTP server on loopback.
func workspace(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func addrOf(s *httptest.Server) netip.AddrPort {
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// closedAddr is an address that refuses connections.
func closedAddr(t testing.TB) netip.AddrPort {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func web(change ...func(*router.Route)) router.Route {
	r := router.Route{Name: "web", Upstream: "web", Port: 80}
	for _, c := range change {
		c(&r)
	}
	return r
}

func has(t testing.TB, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%q does not say %q", got, want)
	}
}
