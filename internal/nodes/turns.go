package nodes

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
)

// turns lets connections begin at a pace, and the addresses among those that wait one after the other.
type turns struct {
	perSecond int
	most      time.Duration // that one waits

	mu      sync.Mutex
	pace    pace
	waiting access.Turns[chan struct{}] // a channel is closed when its turn comes
	ticking bool
}

func newTurns(perSecond int, most time.Duration) *turns {
	return &turns{perSecond: perSecond, most: most}
}

// full reports whether one more of an address would wait too long, behind so many that come before it.
func (t *turns) full(from netip.Addr, before int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.Of(from) > 0 && t.tooMany(from, before)
}

func (t *turns) tooMany(from netip.Addr, before int) bool {
	mine, addresses := t.waiting.Of(from), t.waiting.Addresses()
	if mine == 0 {
		addresses++
	}
	return time.Duration((mine+before)*addresses)*time.Second/time.Duration(t.perSecond) > t.most
}

// take waits for a turn, and reports whether it came in time.
func (t *turns) take(ctx context.Context, from netip.Addr) bool {
	t.mu.Lock()
	if t.waiting.Addresses() == 0 {
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
	t.waiting.Add(from, mine)
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
		first, some := t.waiting.Next()
		if t.ticking = some; !some {
			return
		}
		close(first)
		t.next()
	})
}

// leave gives up waiting, and reports whether the turn had not come.
func (t *turns) leave(from netip.Addr, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.Remove(from, mine)
}
