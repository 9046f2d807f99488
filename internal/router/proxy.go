package router

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// exchange is one request on its way. It belongs to the goroutine of its
// handler, but for idle and body.
type exchange struct {
	route    *Route
	upstream *upstream
	queue    holder
	lease    *lease
	body     *requestBody
	idle     *idleTimer
	headers  *headerTimer
	path     string // escaped path for the workspace
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

func (x *exchange) address(a netip.AddrPort) string {
	if a.Port() == 0 {
		a = netip.AddrPortFrom(a.Addr(), uint16(x.route.Port))
	}
	return a.String()
}

// ServeHTTP answers one request.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.inFlight.Add(1) > int64(r.cfg.MaxInFlight) {
		r.inFlight.Add(-1)
		page{status: http.StatusServiceUnavailable, text: "too many requests at once on this host",
			next: "try again, or raise the router's limit of requests in flight", retry: 1}.write(w, req)
		return
	}
	defer r.inFlight.Add(-1)
	a := r.active.Load()
	i, p := a.choose(req)
	if p != nil {
		p.write(w, req)
		return
	}
	x := &exchange{route: a.table.Route(i), upstream: a.upstreams[i],
		queue: holder{most: r.cfg.QueueFor, limit: r.cfg.QueueLimit}}
	defer x.finish()
	r.serve(w, req, x)
}

// choose finds the route, or the page that says why there is none.
func (a *active) choose(req *http.Request) (int, *page) {
	if req.Method == http.MethodConnect || req.Method == http.MethodTrace {
		return 0, &page{status: http.StatusMethodNotAllowed, text: "the method " + req.Method + " is not served", next: "use another method"}
	}
	host, err := RequestHost(req.Host)
	if err != nil {
		return 0, &page{status: http.StatusBadRequest, text: "the Host of the request is not a host name", next: "send the name that the route has"}
	}
	path, err := CleanPath(req.URL.Path)
	if err != nil {
		return 0, &page{status: http.StatusBadRequest, text: err.Error(), next: "send a plain path"}
	}
	i := a.table.Match(host, path)
	if i < 0 {
		return 0, &page{status: http.StatusNotFound, text: "no route for " + host + " takes this path", next: "declare a route for it, or correct the address"}
	}
	route := a.table.Route(i)
	if req.TLS == nil {
		return i, nil
	}
	// A connection may be used for every name that its certificate has, and
	// this host name has another one (RFC 9110, 15.5.20).
	if a.table.Certificate(req.TLS.ServerName) != a.table.Certificate(host) {
		return 0, &page{status: http.StatusMisdirectedRequest, route: route.Name, text: host + " has another certificate than this connection",
			next: "connect again with that server name"}
	}
	if route.TLS == "" {
		return 0, &page{status: http.StatusNotFound, route: route.Name, text: "this route is served without TLS only", next: "use http, or give the route a certificate"}
	}
	return i, nil
}

func (r *Router) serve(w http.ResponseWriter, req *http.Request, x *exchange) {
	route := x.route
	if req.TLS == nil && route.RedirectHTTP {
		x.redirect(w, req)
		return
	}
	x.path = req.URL.EscapedPath()
	if route.StripPath {
		var err error
		if x.path, err = route.Strip(x.path); err != nil {
			x.fail(w, req, page{status: http.StatusBadRequest, text: err.Error(), next: "send a plain path"})
			return
		}
	}
	if route.MaxBody >= 0 && req.ContentLength > route.MaxBody {
		x.fail(w, req, tooLarge(route.MaxBody))
		return
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	if route.ForwardAuth != "" {
		dropIdentity(req.Header)
		if !r.authorize(ctx, w, req, x) {
			return
		}
	}
	x.idle = newIdleTimer(route.Timeouts.Idle.Std(), w, req, cancel)
	defer x.idle.stop()
	x.headers = &headerTimer{most: route.Timeouts.Header.Std(), cancel: cancel}
	defer x.headers.stop()
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.headers.start(info.Err) },
	})
	out := req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody && req.ContentLength != 0 {
		x.body = &requestBody{from: req.Body, idle: x.idle}
		if route.MaxBody >= 0 {
			x.body.from = http.MaxBytesReader(w, req.Body, route.MaxBody)
		}
		out.Body = x.body
	}
	r.proxy.ServeHTTP(w, out)
}

func (x *exchange) redirect(w http.ResponseWriter, req *http.Request) {
	host, err := RequestHost(req.Host)
	if err != nil {
		host = x.route.Host
	}
	w.Header().Set("Location", "https://"+host+"/"+strings.TrimLeft(req.URL.RequestURI(), "/"))
	w.WriteHeader(http.StatusPermanentRedirect)
}

// finish gives back what the exchange holds.
func (x *exchange) finish() {
	x.queue.stop()
	if x.body != nil {
		x.body.finish()
	}
	if x.lease != nil {
		x.lease.release()
	}
}

func newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      attempts{},
		FlushInterval:  -1,
		Rewrite:        rewrite,
		ModifyResponse: received,
		ErrorHandler:   failed,
		ErrorLog:       log.New(io.Discard, "", 0), // the client is told
		BufferPool:     &buffers{},
	}
}

func rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme = "http"
	out.URL.Host = x.upstream.key // replaced by each attempt
	// The router decides nothing by the query: it goes on as it came.
	out.URL.RawQuery = p.In.URL.RawQuery
	if plain, err := url.PathUnescape(x.path); err == nil {
		out.URL.Path, out.URL.RawPath = plain, x.path
	}
	out.Host = p.In.Host
	dropForwarding(out.Header)
	p.SetXForwarded()
	if x.route.StripPath && x.route.Path != "/" {
		out.Header.Set("X-Forwarded-Prefix", x.route.Path)
	}
}

// received sees the response before it goes to the client.
func received(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	x.headers.stop()
	x.idle.responding()
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.lease.upgrade()
		if both, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = &upgradedBody{responseBody{both, x.idle}, both}
		}
		return nil
	}
	if len(res.Trailer) > 0 {
		// A body of known length carries no trailers over HTTP/1.1.
		res.Header.Del("Content-Length")
	}
	res.Body = &responseBody{ReadCloser: res.Body, idle: x.idle}
	return nil
}

// failed answers a request that got no response.
func failed(w http.ResponseWriter, req *http.Request, err error) {
	x := exchangeOf(req.Context())
	if x.body != nil {
		if long := x.body.long.Load(); long != nil {
			x.fail(w, req, tooLarge(long.Limit))
			return
		}
	}
	if cause := context.Cause(req.Context()); cause != nil && !errors.Is(err, errQueueTimeout) {
		err = cause
	}
	x.fail(w, req, pageFor(err))
}

func (x *exchange) fail(w http.ResponseWriter, req *http.Request, p page) {
	p.route = x.route.Name
	p.write(w, req)
}

func tooLarge(limit int64) page {
	return page{status: http.StatusRequestEntityTooLarge, text: "the body is longer than " + strconv.FormatInt(limit, 10) + " bytes",
		next: "send less, or raise maxBody of the route"}
}
