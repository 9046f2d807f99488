package sim

import "github.com/steadyfleet/steady/internal/core/clock"

// task is something that happens at an instant.
type task struct {
	at    clock.Instant
	order uint64
	run   func()
	// of is whose it is, nil the world's. It is void once its life is over; a message
	// of a host or to it once the host has another identity, or is cut off.
	of      *agent
	life    int32
	message bool
}

// due reports whether a task still has somebody to do it.
func (t *task) due() bool {
	switch {
	case t.of == nil:
		return true
	case t.message:
		return !t.of.cut() && t.of.enrolments == t.life
	}
	return t.of.up && t.of.life == t.life && len(t.of.w.found) == 0
}

func (t *task) before(o *task) bool { return t.at < o.at || t.at == o.at && t.order < o.order }

// queue is a heap of tasks with the next one first. It is not container/heap's: a
// world takes thousands of steps, and that one moves every task through an interface.
type queue []task

func (q *queue) push(t task) {
	*q = append(*q, t)
	h, i := *q, len(*q)-1
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(&h[parent]) {
			break
		}
		h[i], i = h[parent], parent
	}
	h[i] = t
}

// pop takes the next task of a queue that is not empty.
func (q *queue) pop() task {
	h := *q
	next, last := h[0], h[len(h)-1]
	h[len(h)-1] = task{}
	h = h[:len(h)-1]
	*q = h
	for i := 0; len(h) > 0; {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if child >= len(h) || !h[child].before(&last) {
			h[i] = last
			break
		}
		h[i], i = h[child], child
	}
	return next
}
