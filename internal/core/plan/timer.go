package plan

import (
	"cmp"
	"container/heap"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// timer asks for a look at a host, or at a channel.
type timer struct {
	at      clock.Instant
	host    string
	channel string
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].host, h[j].host), cmp.Compare(h[i].channel, h[j].channel)) < 0
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (s *State) wake(at clock.Instant, name string) {
	if at != 0 {
		s.wakeAt(timer{at: at, host: name})
	}
}

func (s *State) wakeAt(t timer) { heap.Push(&s.timers, t) }
