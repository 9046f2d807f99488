package nodes

import (
	"math/rand/v2"
	"sync"
	"time"
)

// atOnce is how many turns there are at once when few were taken before.
const atOnce = 50

// pace gives turns one after the other.
type pace struct {
	mu   sync.Mutex
	next time.Time
}

// turn takes a turn, and returns how long to wait for it. Where that is longer than most, none is
// taken, and ok is false.
func (p *pace) turn(perSecond int, most time.Duration) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	each, now := time.Second/time.Duration(perSecond), time.Now()
	if since := now.Add(-atOnce * each); p.next.Before(since) {
		p.next = since
	}
	if wait = p.next.Sub(now); wait > most {
		return 0, false
	}
	p.next = p.next.Add(each)
	return max(wait, 0), true
}

// within takes a turn, or where it would be later than most, gives any time until then.
func (p *pace) within(perSecond int, most time.Duration) time.Duration {
	wait, ok := p.turn(perSecond, most)
	if !ok {
		wait = rand.N(most) //nolint:gosec // no secret
	}
	return wait
}

// reconnects is how many of so many nodes come back in a second that lost their connections at once.
func (l Limits) reconnects(nodes int) int {
	return min(max(l.Reconnect, nodes/int(l.ReconnectWithin/time.Second)), max(l.Reconnect, l.Pace))
}

// reconnectWithin is over how long they come back.
func (l Limits) reconnectWithin(nodes int) time.Duration {
	return time.Duration(nodes) * time.Second / time.Duration(l.reconnects(nodes))
}
