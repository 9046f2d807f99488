package nodes

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// turns lets connections begin at a pace, and the addresses among those that wait one after the other.
type turns struct {
	perSecond int
	most      time.Duration // that one waits

	mu      sync.Mutex
	pace    pace
	waiting map[netip.Addr][]chan struct{} // in order; a channel is closed when its turn comes
	ring    []netip.Addr                   // that have somebody who waits
	ticking bool
}

func newTurns(perSecond int, most time.Duration) *turns {
	return &turns{perSecond: perSecond, most: most, waiting: map[netip.Addr][]chan struct{}{}}
}

// full reports whether one more of an address would wait too long, behind so many that come before it.
func (t *turns) full(from netip.Addr, before int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting[from]) > 0 && t.tooMany(from, before)
}

func (t *turns) tooMany(from netip.Addr, before int) bool {
	mine, addresses := len(t.waiting[from]), len(t.ring)
	if mine == 0 {
		addresses++
	}
	return time.Duration((mine+before)*addresses)*time.Second/time.Duration(t.perSecond) > t.most
}

// take waits for a turn, and reports whether it came in time.
func (t *turns) take(ctx context.Context, from netip.Addr) bool {
	t.mu.Lock()
	if len(t.ring) == 0 {
		if wait, ok := t.pace.turn(t.perSecond, 0); ok && wait == 0 {
			t.mu.Unlock()
			return true
		}
	}
	if t.tooMany(from, 0) {
		t.mu.Unlock()
		return false
	}
	mine := make(chan struct{})
	if len(t.waiting[from]) == 0 {
		t.ring = append(t.ring, from)
	}
	t.waiting[from] = append(t.waiting[from], mine)
	if !t.ticking {
		t.ticking = true
		t.next()
	}
	t.mu.Unlock()
	late := time.NewTimer(t.most)
	defer late.Stop()
	select {
	case <-mine:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return !t.leave(from, mine)
}

// next has the next one begin when its turn comes; t is locked.
func (t *turns) next() {
	wait, _ := t.pace.turn(t.perSecond, time.Duration(1<<62))
	time.AfterFunc(wait, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.ticking = len(t.ring) > 0; !t.ticking {
			return
		}
		from := t.ring[0]
		first := t.waiting[from][0]
		t.drop(from, 0)
		if t.waiting[from] != nil { // its next one comes after those of the others
			t.ring = append(t.ring[1:], from)
		}
		close(first)
		t.next()
	})
}

// drop takes one that waits out.
func (t *turns) drop(from netip.Addr, i int) {
	if list := slices.Delete(t.waiting[from], i, i+1); len(list) > 0 {
		t.waiting[from] = list
		return
	}
	delete(t.waiting, from)
	t.ring = slices.DeleteFunc(t.ring, func(a netip.Addr) bool { return a == from })
}

// leave gives up waiting, and reports whether the turn had not come.
func (t *turns) leave(from netip.Addr, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[from], mine)
	if i >= 0 {
		t.drop(from, i)
	}
	return i >= 0
}
