package router

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config bounds a Router; zero values are the defaults.
type Config struct {
	QueueFor    time.Duration // longest wait of a request for a holding upstream; 10 s
	QueueLimit  int           // most requests waiting for one upstream; 1000
	MaxInFlight int           // most requests at once over all routes; 10 000
}

// Router is an http.Handler that serves the routes of the table set last.
type Router struct {
	cfg      Config
	active   atomic.Pointer[active]
	inFlight atomic.Int64

	mu        sync.Mutex // guards swaps and the fields below
	upstreams map[string]*upstream
	placed    map[string]bool // upstreams that SetUpstream was called for
	changed   chan struct{}   // closed at the next Swap or SetUpstream

	proxy http.Handler
	auth  *http.Transport
	dial  dialer
}

// active is a table with the upstreams of its routes.
type active struct {
	table     Table
	upstreams []*upstream
}

// New returns a router without routes.
func New(cfg Config) *Router {
	cfg.QueueFor = cmp.Or(cfg.QueueFor, 10*time.Second)
	cfg.QueueLimit = cmp.Or(cfg.QueueLimit, 1000)
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, 10_000)
	dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
	r := &Router{cfg: cfg, upstreams: map[string]*upstream{}, placed: map[string]bool{}, changed: make(chan struct{}), dial: dial, auth: newTransport(dial)}
	r.auth.MaxConnsPerHost = 256
	r.proxy = newProxy()
	r.active.Store(&active{})
	return r
}

// Close ends idle connections. Requests in flight go on.
func (r *Router) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.auth.CloseIdleConnections()
	for _, u := range r.upstreams {
		u.set(Upstream{State: Gone})
	}
}

// Swap makes t the table of every request that begins from now on.
func (r *Router) Swap(t Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &active{table: t}
	for i := range t.Len() {
		next.upstreams = append(next.upstreams, r.upstream(t.Route(i).Upstream))
	}
	r.active.Store(next)
	r.broadcast()
}

// broadcast wakes those that wait in Await. Called with mu held.
func (r *Router) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Await waits until each of the routes is in the table and SetUpstream was called for
// its upstream: only then are answers for it worth giving. When ctx ends before, it
// returns the names of the others.
func (r *Router) Await(ctx context.Context, routes []string) (missing []string) {
	for {
		r.mu.Lock()
		changed := r.changed
		known := map[string]bool{}
		for _, have := range r.Table().Routes() {
			known[have.Name] = r.placed[have.Upstream]
		}
		r.mu.Unlock()
		missing = slices.DeleteFunc(slices.Clone(routes), func(name string) bool { return known[name] })
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return missing
		}
	}
}

// Table returns the table of new requests.
func (r *Router) Table() Table { return r.active.Load().table }

// upstream finds or makes the one of key. Called with mu held.
func (r *Router) upstream(key string) *upstream {
	u := r.upstreams[key]
	if u == nil {
		u = newUpstream(key, r.dial)
		r.upstreams[key] = u
	}
	return u
}

// SetUpstream says where the requests for key go from now on. Requests that
// wait are let go or refused; those that run keep their address. A key that was
// never set is Gone. Keys of routes and workspaces may come in any order.
func (r *Router) SetUpstream(key string, next Upstream) {
	if next.State != Ready {
		next.Addrs = nil
	}
	next.Addrs = distinct(next.Addrs)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upstream(key).set(next)
	r.placed[key] = true
	r.broadcast()
}

func distinct(addrs []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		if a.Addr().IsValid() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Drain returns when no request runs any more to addr, an old address of key in
// the form that SetUpstream was given, or with *Undrained when ctx ends first.
// It is an error while addr is where new requests go.
func (r *Router) Drain(ctx context.Context, key string, addr netip.AddrPort) error {
	r.mu.Lock()
	u := r.upstreams[key]
	r.mu.Unlock()
	if u == nil {
		return nil
	}
	return u.drain(ctx, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
}
