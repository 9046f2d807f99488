// Package hosts is what the server knows of its hosts outside the reducer: of
// each the view that was published of its committed state, when it was heard
// from, and the requests that wait for news. Next to it stand the watch over
// silent hosts and the list of those that know more than the log, which are the
// reducer's alone. Nothing here changes the state, appends or answers a request:
// control reads what is found here and decides.
package hosts

import (
	"crypto/ed25519"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rate"
	"github.com/steadyfleet/steady/internal/wire"
)

// View is what requests of a host are answered from without the reducer: a
// projection of committed state, never changed once published.
type View struct {
	Incarnation        uint64 // zero before enrolment
	EventKey           ed25519.PublicKey
	Serial, PrevSerial string
	RevokedBefore      clock.Instant
	Seq                uint64
	Chain              []byte
	Online             bool
	Forked             bool
	Grant              *plan.Grant // a copy; nil when there is nothing to offer
	Layer              Layer
}

// Layer is what a host has to fetch of its managed layer and settings.
type Layer struct {
	News     uint64 // changes with everything below
	Version  uint64 // of the managed layer
	Settings *wire.Settings
}

// Revoked refuses certificates from before the host's revocation.
func (v *View) Revoked(issued clock.Instant) error {
	if issued < v.RevokedBefore {
		return fmt.Errorf("its certificates issued before %s are revoked", v.RevokedBefore)
	}
	return nil
}

// InUse refuses a certificate of the named host that is not in use any more.
func (v *View) InUse(name, serial string, issued clock.Instant) error {
	if issued < v.RevokedBefore {
		return fmt.Errorf("the certificates of host %s issued before %s are revoked; enrol it again", name, v.RevokedBefore)
	}
	if v.Incarnation == 0 || (serial != v.Serial && (serial != v.PrevSerial || v.PrevSerial == "")) {
		return fmt.Errorf("certificate %s of host %s is not in use: it was replaced by a newer one, or this server never issued it; enrol the host again", serial, name)
	}
	return nil
}

// Directory finds hosts by name. It is safe for concurrent use; the zero value
// is empty.
type Directory struct {
	mu sync.RWMutex
	m  map[string]*Host
	// held is how many bytes of samples are kept.
	held atomic.Int64
}

// Find returns a host, or nil when it was never published.
func (d *Directory) Find(name string) *Host {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.m[name]
}

// Publish makes the committed state of a host visible and wakes its long-poll
// if that matters to it. Only the reducer calls it.
func (d *Directory) Publish(s *plan.Host, layer Layer) *Host {
	h := d.Find(s.Name)
	if h == nil {
		h = &Host{Name: s.Name}
		d.mu.Lock()
		if d.m == nil {
			d.m = map[string]*Host{}
		}
		d.m[s.Name] = h
		d.mu.Unlock()
	}
	v := &View{Incarnation: s.Incarnation, EventKey: s.EventKey, Serial: s.Serial, PrevSerial: s.PrevSerial,
		RevokedBefore: s.RevokedBefore, Seq: s.Seq, Chain: s.ChainHash, Online: s.Online, Forked: s.Forked, Layer: layer}
	old := h.view.Load()
	if s.Grant != nil {
		if old != nil && old.Grant != nil && *old.Grant == *s.Grant {
			v.Grant = old.Grant
		} else {
			g := *s.Grant
			v.Grant = &g
		}
	}
	h.view.Store(v)
	if old == nil || v.Grant != old.Grant || v.RevokedBefore != old.RevokedBefore || v.Serial != old.Serial || v.Layer.News != old.Layer.News {
		h.Wake()
	}
	return h
}

// Host is a host in the directory. It is never removed. Its methods may be
// called from any goroutine.
type Host struct {
	Name string

	view     atomic.Pointer[View]
	lastSeen atomic.Int64 // clock.Instant
	polls    atomic.Int32 // open long-polls
	active   atomic.Int32 // requests under way
	// returning says that the reducer has been told that the host is back.
	returning atomic.Bool
	told      atomic.Uint64 // the newest event that the host says it made, and one
	watched   bool          // by the watch; the reducer's
	sample    atomic.Pointer[Sample]

	mu      sync.Mutex
	changed chan struct{} // closed when the view changes; nil without waiters
	// given is the grant that was handed out last, how often, and when, so that
	// a host which is busy with it is not given it over and over.
	given      string
	givenTimes int
	givenAt    clock.Instant
	processes  processes
	share      rate.Bucket   // of the log
	limitedAt  clock.Instant // when share was used up last
	forking    bool          // a second history is being recorded
}

// View is the host as last published.
func (h *Host) View() *View { return h.view.Load() }

// LastSeen is when the host was last heard from, or zero.
func (h *Host) LastSeen() clock.Instant { return clock.Instant(h.lastSeen.Load()) }

// Seen notes that the host was heard from.
func (h *Host) Seen(now clock.Instant) { h.lastSeen.Store(int64(now)) }

// Tell notes what the newest event of the host is, as it says itself.
func (h *Host) Tell(last uint64) { h.told.Store(last + 1) }

// Told is what Tell noted last; ok is false when the host said nothing yet.
func (h *Host) Told() (last uint64, ok bool) {
	n := h.told.Load()
	return n - 1, n > 0
}

// Returns reports whether it is news for the reducer that the host was heard
// from. Once it was, it is not again until Returned.
func (h *Host) Returns() bool {
	return !h.View().Online && h.returning.CompareAndSwap(false, true)
}

// Returned says that the reducer has heard of the return, or could not be told.
func (h *Host) Returned() { h.returning.Store(false) }

// Changed returns a channel that is closed at the next change. Take it before
// reading the view.
func (h *Host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// Wake makes open long-polls look again.
func (h *Host) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Poll counts an open long-poll, which is liveness enough; call what it returns
// at its end.
func (h *Host) Poll() (end func()) {
	h.polls.Add(1)
	return func() { h.polls.Add(-1) }
}

// maxActive is how many requests of one host are served at a time.
const maxActive = 16

// Begin counts a request of the host. It is refused when too many are under way;
// otherwise call what it returns at its end.
func (h *Host) Begin() (end func(), ok bool) {
	if h.active.Add(1) > maxActive {
		h.active.Add(-1)
		return nil, false
	}
	return func() { h.active.Add(-1) }, true
}

// A grant that was handed out is handed out again, for the answer may have been
// lost, but each time later: an agent asks again while it prepares.
const (
	againBase = 4 * clock.Second
	againCap  = 15 * clock.Second
)

// TakeLog takes bytes of the host's share of the log, or returns how long to wait for
// them. News is true once an hour while the share is used up.
func (h *Host) TakeLog(l rate.Limit, bytes int64, now clock.Instant) (wait clock.Duration, news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait = h.share.Take(l, bytes, now)
	if news = wait > 0 && (h.limitedAt == 0 || now.Sub(h.limitedAt) >= clock.Hour); news {
		h.limitedAt = now
	}
	return wait, news
}

// ReturnLog gives bytes back that were not logged.
func (h *Host) ReturnLog(l rate.Limit, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.share.Return(l, bytes)
}

// Fork reports whether the caller is the one to record that the host tells two
// histories; it calls end when it did or could not.
func (h *Host) Fork() (end func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forking || h.View().Forked {
		return nil, false
	}
	h.forking = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.forking = false
	}, true
}

// Hand returns how long to wait before a grant is handed out, zero for now, and
// then notes that it was.
func (h *Host) Hand(grant string, now clock.Instant) clock.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given != grant {
		h.given, h.givenTimes, h.givenAt = grant, 1, now
		return 0
	}
	next := h.givenAt.Add(min(againBase<<min(h.givenTimes-1, 10), againCap))
	if !next.Reached(now) {
		return next.Sub(now)
	}
	h.givenTimes++
	h.givenAt = now
	return 0
}
