package router

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/router/table"
)

// Config bounds a Router; zero values are the defaults.
type Config struct {
	HoldFor     time.Duration // longest wait of a request for a holding upstream; 10 s
	HoldLimit   int           // most requests waiting for one upstream; 1000
	MaxInFlight int           // most requests at once over all routes; 10 000
}

// Router is an http.Handler that serves the routes of the table set last.
type Router struct {
	cfg      Config
	active   atomic.Pointer[active]
	inFlight atomic.Int64
	other    counts // requests that no route took

	mu        sync.Mutex // guards swaps and the map
	upstreams map[string]*upstream

	proxy http.Handler
	auth  *http.Transport
	dial  dialer
}

// active is a table with the counters and upstreams of its routes.
type active struct {
	table     table.Table
	counts    []*counts
	upstreams []*upstream
}

// New returns a router without routes.
func New(cfg Config) *Router {
	if cfg.HoldFor <= 0 {
		cfg.HoldFor = 10 * time.Second
	}
	if cfg.HoldLimit <= 0 {
		cfg.HoldLimit = 1000
	}
	if cfg.MaxInFlight <= 0 {
		cfg.MaxInFlight = 10_000
	}
	dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
	r := &Router{cfg: cfg, upstreams: map[string]*upstream{}, dial: dial, auth: newTransport(dial, false)}
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

// Swap makes t the table of every request that begins from now on. Counters of
// routes whose name stays go on.
func (r *Router) Swap(t table.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.active.Load()
	kept := map[string]*counts{}
	for i, c := range old.counts {
		kept[old.table.Route(i).Name] = c
	}
	next := &active{table: t}
	for i := range t.Len() {
		route := t.Route(i)
		c := kept[route.Name]
		if c == nil {
			c = &counts{}
		}
		next.counts = append(next.counts, c)
		next.upstreams = append(next.upstreams, r.upstream(route.Upstream))
	}
	r.active.Store(next)
}

// Table returns the table of new requests.
func (r *Router) Table() table.Table { return r.active.Load().table }

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

// RemoveUpstream forgets key, unless a route of the table leads to it: then it
// is Gone.
func (r *Router) RemoveUpstream(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.upstreams[key]
	if u == nil {
		return
	}
	u.set(Upstream{State: Gone})
	if !slices.Contains(r.active.Load().upstreams, u) {
		delete(r.upstreams, key)
	}
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

// RouteCounts are the counters of one route since the router was made.
type RouteCounts struct {
	Route      string // "" for requests that no route took
	Requests   uint64
	InFlight   int64
	Errors     uint64 // answers of 500 and above, whoever made them, and broken responses
	LastStatus int    // 0 before the first answer
}

type counts struct {
	requests, errors     atomic.Uint64
	inFlight, lastStatus atomic.Int64
}

func (c *counts) answered(status int) {
	c.lastStatus.Store(int64(status))
	if status >= 500 {
		c.errors.Add(1)
	}
}

func (c *counts) read(name string) RouteCounts {
	return RouteCounts{Route: name, Requests: c.requests.Load(), InFlight: c.inFlight.Load(),
		Errors: c.errors.Load(), LastStatus: int(c.lastStatus.Load())}
}

// Counts returns the counters by route name; first those of requests that no
// route took.
func (r *Router) Counts() []RouteCounts {
	a := r.active.Load()
	out := []RouteCounts{r.other.read("")}
	for i, c := range a.counts {
		out = append(out, c.read(a.table.Route(i).Name))
	}
	slices.SortFunc(out, func(a, b RouteCounts) int { return strings.Compare(a.Route, b.Route) })
	return out
}
