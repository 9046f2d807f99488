package control

import (
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// directory finds hosts by name. It is safe for concurrent use; the zero value is empty.
type directory struct {
	mu sync.RWMutex
	m  map[string]*contact
	// sampled is how many bytes of samples are kept.
	sampled atomic.Int64
}

var _ server.Contacts = (*directory)(nil)

// contact is a host in the directory. It is never removed. Its methods may be called
// from any goroutine.
type contact struct {
	name     string
	view     atomic.Pointer[published]
	lastSeen atomic.Int64 // clock.Instant
	polls    atomic.Int32 // open long-polls
	active   atomic.Int32 // requests under way
	// returning says that the reducer was sent that the host is back.
	returning atomic.Bool
	lastEvent atomic.Uint64 // the newest event that the host says it made, and one
	sample    atomic.Pointer[Sample]
	loads     loads

	signal  // the view changed
	mu      sync.Mutex
	session server.Session
}

// signal wakes whoever waits for a change. The zero value is ready.
type signal struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil without waiters
}

// published is a view as requests read it, with the settings in their form.
type published struct {
	*server.View
	settings *wire.Settings
}

func (d *directory) find(name string) *contact {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.m[name]
}

// get finds a host, or adds it. Only the reducer calls it.
func (d *directory) get(name string) *contact {
	h := d.find(name)
	if h == nil {
		h = &contact{name: name}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.m == nil {
			d.m = map[string]*contact{}
		}
		d.m[name] = h
	}
	return h
}

// LastSeen implements server.Contacts.
func (d *directory) LastSeen(name string) (at clock.Instant, polling bool) {
	h := d.find(name)
	if h == nil {
		return 0, false
	}
	return clock.Instant(h.lastSeen.Load()), h.polls.Load() > 0
}

// LastEvent implements server.Contacts.
func (d *directory) LastEvent(name string) (seq uint64, ok bool) {
	h := d.find(name)
	if h == nil {
		return 0, false
	}
	n := h.lastEvent.Load()
	return n - 1, n > 0
}

// publish makes a view of the host visible, and wakes its open requests if that changes
// what they are answered.
func (h *contact) publish(v *published) {
	old := h.View()
	h.view.Store(v)
	if v.Wakes(old) {
		h.wake()
	}
}

// View is the host as last published; nil before the first time, and of no host.
func (h *contact) View() *server.View {
	if h == nil {
		return nil
	}
	if p := h.view.Load(); p != nil {
		return p.View
	}
	return nil
}

// watch returns a channel that is closed at the next change. Take it before reading what
// changes.
func (s *signal) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wake has open requests read again what changed.
func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// do runs f on the host's session.
func (h *contact) do(f func(*server.Session)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.session)
}
