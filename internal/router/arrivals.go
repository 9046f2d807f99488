package router

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// arrivals counts connections that were accepted and whose first request has not begun.
// http.Server.Shutdown drops a request that it reads once it was called, so it must not be
// called before these have begun.
type arrivals struct {
	mu      sync.Mutex
	waiting int
	changed chan struct{} // closed when one fewer waits
	of      sync.Map      // *arrival by net.Conn
}

type arrival struct{ begun atomic.Bool }

type arrivalKey struct{}

func newArrivals() *arrivals { return &arrivals{changed: make(chan struct{})} }

// follow has a server report its connections.
func (a *arrivals) follow(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		one := &arrival{}
		a.of.Store(c, one)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting++
		return context.WithValue(ctx, arrivalKey{}, one)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state != http.StateClosed && state != http.StateHijacked {
			return
		}
		if one, ok := a.of.LoadAndDelete(c); ok {
			a.begin(one.(*arrival))
		}
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(arrivalKey{}).(*arrival); ok {
			a.begin(one)
		}
		next.ServeHTTP(w, r)
	})
}

// begin notes the first request of a connection, or its end.
func (a *arrivals) begin(one *arrival) {
	if one.begun.Load() || one.begun.Swap(true) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	close(a.changed)
	a.changed = make(chan struct{})
}

// wait waits until none waits, for most at the longest: a browser opens connections on
// which it may never send anything.
func (a *arrivals) wait(most time.Duration) {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		a.mu.Lock()
		left, changed := a.waiting, a.changed
		a.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		}
	}
}
