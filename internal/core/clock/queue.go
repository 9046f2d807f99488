package clock

// Queue is a heap of what is to happen, by instant and, at one instant, in
// the order in which it was added. It is not container/heap's,
// which moves every item through an interface.
type Queue[T any] struct {
	items []item[T]
	order uint64
}

type item[T any] struct {
	at    Instant
	order uint64
	what  T
}

func (i *item[T]) before(o *item[T]) bool {
	return i.at < o.at || i.at == o.at && i.order < o.order
}

// Len is how much is to happen.
func (q *Queue[T]) Len() int { return len(q.items) }

// Due reports whether something happens by an instant.
func (q *Queue[T]) Due(now Instant) bool { return len(q.items) > 0 && q.items[0].at <= now }

// Next is when the next thing happens; zero: never.
func (q *Queue[T]) Next() Instant {
	if len(q.items) == 0 {
		return 0
	}
	return q.items[0].at
}

// Push adds what happens at an instant.
func (q *Queue[T]) Push(at Instant, what T) {
	q.order++
	q.items = append(q.items, item[T]{at, q.order, what})
	h, i := q.items, len(q.items)-1
	last := h[i]
	for ; i > 0 && last.before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = last
}

// Pop takes the next thing of a queue that is not empty.
func (q *Queue[T]) Pop() (at Instant, what T) {
	h := q.items
	next, last := h[0], h[len(h)-1]
	h[len(h)-1] = item[T]{}
	h = h[:len(h)-1]
	q.items = h
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
	return next.at, next.what
}
