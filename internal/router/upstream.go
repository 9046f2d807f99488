package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// State says whether an upstream takes requests.
type State uint8

const (
	// Gone refuses requests with 503: the workspace is stopped or not known.
	Gone State = iota
	// Holding lets new requests wait, for a bounded time, for the next state.
	Holding
	// Ready sends requests to the addresses, in turn.
	Ready
)

func (s State) String() string {
	switch s {
	case Gone:
		return "gone"
	case Holding:
		return "holding"
	case Ready:
		return "ready"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Upstream is where the requests for one workspace go.
type Upstream struct {
	State State
	// Addrs are for Ready only. An address with port 0 takes the route's port;
	// another port is used as it is (one that the engine published).
	Addrs []netip.AddrPort
	// ID tells one container from its successor at the same address, so that no
	// connection to the old one is used again. "" if the caller cannot tell.
	ID string
}

// Errors of choosing an address; each becomes a 503 page.
var (
	errGone         = errors.New("the workspace is not running")
	errQueueFull    = errors.New("the workspace is being replaced and too many requests wait for it already")
	errQueueTimeout = errors.New("the workspace is being replaced and was not ready in time")
)

// backend is one address of an upstream. Its fields are guarded by the
// upstream's mutex.
type backend struct {
	addr     netip.AddrPort
	id       string
	retired  bool
	succeeds bool // another backend at the same address
	inFlight int
	upgraded int
	conns    *http.Transport // made for the first request
}

func (b *backend) closeIdle() {
	if b.conns != nil {
		b.conns.CloseIdleConnections()
	}
}

type upstream struct {
	key  string
	dial dialer

	mu      sync.Mutex
	state   State
	ready   []*backend
	retired []*backend // with requests in flight, oldest first
	turn    int
	waiting int
	changed chan struct{} // closed at the next change
}

func newUpstream(key string, dial dialer) *upstream {
	return &upstream{key: key, dial: dial, changed: make(chan struct{})}
}

// set moves to the new state. Backends that stay are kept with their
// connections; the others are retired and end with their last request.
func (u *upstream) set(next Upstream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var ready []*backend
	for _, a := range next.Addrs {
		i := slices.IndexFunc(u.ready, func(b *backend) bool { return b.addr == a && b.id == next.ID })
		if i < 0 {
			succeeds := slices.ContainsFunc(u.ready, func(b *backend) bool { return b.addr == a })
			ready = append(ready, &backend{addr: a, id: next.ID, succeeds: succeeds})
			continue
		}
		ready = append(ready, u.ready[i])
		u.ready = slices.Delete(u.ready, i, i+1)
	}
	for _, b := range u.ready {
		b.retired = true
		b.closeIdle()
		if b.inFlight > 0 {
			u.retired = append(u.retired, b)
		}
	}
	u.state, u.ready = next.State, ready
	u.broadcast()
}

func (u *upstream) broadcast() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// lease is one request's hold on a backend.
type lease struct {
	u        *upstream
	b        *backend
	upgraded bool
}

// pick leases a backend that was not tried yet; nil if there is none to try
// now, with the channel that tells of the next change.
func (u *upstream) pick(tried []*backend) (*lease, State, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state == Ready {
		for range u.ready {
			b := u.ready[u.turn%len(u.ready)]
			u.turn++
			if !slices.Contains(tried, b) {
				b.inFlight++
				return &lease{u: u, b: b}, u.state, nil
			}
		}
	}
	return nil, u.state, u.changed
}

// holder carries how long one request may still wait, over all its attempts.
type holder struct {
	most  time.Duration
	limit int
	timer *time.Timer
}

func (h *holder) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// acquire leases a backend, and waits for one while the upstream is holding. It
// returns no lease and no error when every ready backend was tried.
func (u *upstream) acquire(ctx context.Context, h *holder, tried []*backend) (*lease, error) {
	waiting := false
	defer func() {
		if waiting {
			u.mu.Lock()
			u.waiting--
			u.mu.Unlock()
		}
	}()
	for {
		l, state, changed := u.pick(tried)
		switch {
		case l != nil:
			return l, nil
		case state == Gone:
			return nil, errGone
		case state == Ready:
			return nil, nil
		}
		if !waiting {
			if waiting = u.wait(h.limit); !waiting {
				return nil, errQueueFull
			}
		}
		if h.timer == nil {
			h.timer = time.NewTimer(h.most)
		}
		select {
		case <-changed:
		case <-h.timer.C:
			h.timer.Reset(0) // a later attempt of this request does not wait again
			return nil, errQueueTimeout
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (u *upstream) wait(limit int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting >= limit {
		return false
	}
	u.waiting++
	return true
}

// moved reports whether the backend is no longer where new requests go.
func (l *lease) moved() bool {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	return l.b.retired || l.u.state != Ready
}

// transport returns the backend's connections.
func (l *lease) transport() *http.Transport {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	if l.b.conns == nil {
		l.b.conns = newTransport(l.u.dial)
	}
	return l.b.conns
}

func (l *lease) upgrade() {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	l.upgraded = true
	l.b.upgraded++
}

// release ends the request's hold. The last one of a retired backend ends it.
func (l *lease) release() {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	b := l.b
	b.inFlight--
	if l.upgraded {
		b.upgraded--
	}
	if !b.retired || b.inFlight > 0 {
		return
	}
	// The request may have left an idle connection behind.
	b.closeIdle()
	l.u.retired = slices.DeleteFunc(l.u.retired, func(r *backend) bool { return r == b })
	l.u.broadcast()
}

// Undrained says that requests to an old address were still running.
type Undrained struct {
	Upstream string
	Addr     netip.AddrPort
	InFlight int // requests, Upgraded included
	Upgraded int // WebSocket and other upgraded connections, which end when a side ends them
	Cause    error
}

func (e *Undrained) Error() string {
	return fmt.Sprintf("%d requests to %s at %s still run, %d of them upgraded connections: %v; stopping the old workspace ends them",
		e.InFlight, e.Upstream, e.Addr, e.Upgraded, e.Cause)
}

func (e *Undrained) Unwrap() error { return e.Cause }

// drain waits until no request runs on retired backends at the address.
func (u *upstream) drain(ctx context.Context, addr netip.AddrPort) error {
	for {
		u.mu.Lock()
		left := Undrained{Upstream: u.key, Addr: addr}
		for _, b := range u.retired {
			if b.addr == addr {
				left.InFlight += b.inFlight
				left.Upgraded += b.upgraded
			}
		}
		changed := u.changed
		current := slices.ContainsFunc(u.ready, func(b *backend) bool { return b.addr == addr && !b.succeeds })
		u.mu.Unlock()
		if left.InFlight == 0 {
			if current {
				return fmt.Errorf("%s still sends requests to %s: set the upstream to its new address, or to holding, before draining", u.key, addr)
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			left.Cause = context.Cause(ctx)
			return &left
		}
	}
}
