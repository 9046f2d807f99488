package dockertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Outcome is what the proxy does with a request or with its answer.
type Outcome int

// The fates. After the engine has answered, Hang and Drop keep the answer back.
const (
	Pass Outcome = iota
	Hang         // no answer until the client gives up or the fate of all is Pass again
	Drop         // the connection breaks off
	Fail         // the answer is 500; before the engine has it, the request goes no further
)

// Request is one request that came to the proxy.
type Request struct {
	Seq    int    // 1 for the first
	Write  int    // 1 for the first that may change something, 0 for a read
	Method string // GET, POST, ...
	Path   string // without the version: /containers/create
	Query  string
	Body   []byte // of a JSON request; nil for others
}

// Proxy stands between a client and an engine, and sees and troubles what they say.
type Proxy struct {
	path   string // of its own socket
	engine string // of the engine's
	server *http.Server
	back   http.Handler

	mu      sync.Mutex
	seen    []Request
	writes  int
	outcome Outcome
	changed chan struct{} // closed when fate is set
	before  func(Request) Outcome
	after   func(Request) Outcome
}

// Proxy starts a proxy in front of the engine, for this test.
func (d *Daemon) Proxy() *Proxy {
	d.t.Helper()
	p := &Proxy{engine: d.Socket(), changed: make(chan struct{}),
		path: filepath.Join(base, "proxy-"+strconv.Itoa(number())+".sock")}
	back := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.engine)
		}},
		FlushInterval:  -1,
		ModifyResponse: p.onResponse,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if !errors.Is(err, errFail) {
				panic(http.ErrAbortHandler)
			}
			fail(w)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.back = back
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ErrorLog: log.New(io.Discard, "", 0)}
	l := testkit.Value(net.Listen("unix", p.path))(d.t)
	go func() { _ = p.server.Serve(l) }() // ends when the server is closed
	d.t.Cleanup(func() {
		p.Set(Drop)
		_ = p.server.Close() // the socket is in a folder that goes with the process
		back.Transport.(*http.Transport).CloseIdleConnections()
	})
	return p
}

// Socket is the path of the proxy's unix socket.
func (p *Proxy) Socket() string { return p.path }

// Before decides over each request before the engine has it; it may take its
// time. It may be called for several requests at once. Nil: Pass.
func (p *Proxy) Before(f func(Request) Outcome) { p.mu.Lock(); defer p.mu.Unlock(); p.before = f }

// After decides over each answer before the client has it: for a stream (build,
// pull, load, push) at its end, for a hijacked one not at all. Nil: Pass.
func (p *Proxy) After(f func(Request) Outcome) { p.mu.Lock(); defer p.mu.Unlock(); p.after = f }

// Set gives all requests from now on one fate. Pass lets go of hanging ones.
func (p *Proxy) Set(f Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcome = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Requests are all requests so far, in the order in which they came.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.seen...)
}

// Writes are the requests so far that may have changed something.
func (p *Proxy) Writes() []Request {
	var out []Request
	for _, r := range p.Requests() {
		if r.Write > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Forget empties the list of requests and counts from 1 again.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.writes = nil, 0
}

type requestKey struct{}

var (
	version  = regexp.MustCompile(`^/v[0-9.]+/`)
	streamed = regexp.MustCompile(`^(/build|/images/create|/images/load|/images/.+/push)$`)
)

// Errors that end a request whose answer the client shall not have.
var (
	errDrop = errors.New("the test wants this answer lost")
	errFail = errors.New("the test wants this answer to be a failure")
)

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	req, before := p.record(r)
	switch p.apply(r.Context(), before, req) {
	case Pass:
	case Fail:
		fail(w)
		return
	default:
		panic(http.ErrAbortHandler)
	}
	if r.Header.Get("Upgrade") != "" {
		p.hijack(w, r)
		return
	}
	p.back.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, req)))
}

func fail(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `{"message":"the test wants this call to fail"}`) // the client may be gone
}

func (p *Proxy) record(r *http.Request) (Request, func(Request) Outcome) {
	req := Request{Method: r.Method, Path: version.ReplaceAllString(r.URL.Path, "/"), Query: r.URL.RawQuery}
	if r.Header.Get("Content-Type") == "application/json" {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			req.Body = body
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.writes++
		req.Write = p.writes
	}
	req.Seq = len(p.seen) + 1
	p.seen = append(p.seen, req)
	return req, p.before
}

// apply asks for the fate and waits out a Hang.
func (p *Proxy) apply(ctx context.Context, ask func(Request) Outcome, req Request) Outcome {
	p.mu.Lock()
	outcome := p.outcome
	p.mu.Unlock()
	if outcome == Pass && ask != nil {
		outcome = ask(req)
	}
	for outcome == Hang {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return Drop
		case <-changed:
		}
		p.mu.Lock()
		outcome = p.outcome
		p.mu.Unlock()
	}
	return outcome
}

// onResponse decides over an answer of the engine.
func (p *Proxy) onResponse(r *http.Response) error {
	req, _ := r.Request.Context().Value(requestKey{}).(Request)
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if after == nil {
		return nil
	}
	end := func() error {
		switch p.apply(r.Request.Context(), after, req) {
		case Pass:
			return nil
		case Fail:
			return errFail
		default:
			return errDrop
		}
	}
	if req.Write > 0 && streamed.MatchString(req.Path) && r.StatusCode == http.StatusOK {
		r.Body = &atEnd{ReadCloser: r.Body, end: end}
		return nil
	}
	return end()
}

// atEnd calls end before it tells that the body is over.
type atEnd struct {
	io.ReadCloser
	end func() error
}

func (a *atEnd) Read(b []byte) (int, error) {
	n, err := a.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		if lost := a.end(); lost != nil {
			return n, lost
		}
	}
	return n, err
}

// hijack joins the two connections, each direction with an end of its own.
func (p *Proxy) hijack(w http.ResponseWriter, r *http.Request) {
	up, err := net.Dial("unix", p.engine)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer up.Close()
	if err := r.Write(up); err != nil {
		panic(http.ErrAbortHandler)
	}
	down, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer down.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(up, buffered) // an end of the stream either way
		_ = up.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(down, up)
	_ = down.(*net.UnixConn).CloseWrite()
	_ = down.Close()
	<-over
}
