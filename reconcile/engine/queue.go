package engine

import "time"

// Queue holds at most one entry per ref. An offer for a ref that is queued
// merges with it: the union of causes, the earliest due time, the highest
// priority. A ref that was taken is not given out again before Done; an offer
// meanwhile makes one more turn. It has no lock, clock or goroutine: one owner
// calls it.
type Queue struct {
	items  map[Ref]*item
	timed  slots   // not due when last looked at: by due time, then order of offer
	ready  slots   // due: by priority, due time, then order of offer
	free   []*item // recycled items
	seq    uint64
	active int
}

// maxFree bounds the recycled items.
const maxFree = 1024

type itemState uint8

const (
	inTimed itemState = iota
	inReady
	taken      // processing, nothing offered meanwhile
	takenAgain // processing, and one more turn is due
)

type item struct {
	ref      Ref
	due      instant
	seq      uint64
	causes   Causes
	index    int32
	priority Priority
	state    itemState
}

// Item is one turn to take.
type Item struct {
	Ref      Ref
	Due      time.Time
	Priority Priority
	Causes   Causes
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{items: map[Ref]*item{}} }

// Add asks for a turn of ref at the instant (zero or less: at once).
func (q *Queue) Add(ref Ref, due time.Time, p Priority, c Cause) {
	at := max(toInstant(due), 0)
	it, ok := q.items[ref]
	if !ok {
		it = q.alloc()
		it.ref, it.due, it.priority = ref, at, p
		it.causes.Add(c)
		q.items[ref] = it
		q.push(it)
		return
	}
	it.causes.Add(c)
	switch it.state {
	case taken:
		it.due, it.priority, it.state = at, p, takenAgain
	case takenAgain:
		it.due, it.priority = min(it.due, at), max(it.priority, p)
	case inTimed:
		it.due, it.priority = min(it.due, at), max(it.priority, p)
		q.timed.fix(slot{uint64(it.due), it.seq, it})
	case inReady:
		it.due, it.priority = min(it.due, at), max(it.priority, p)
		q.ready.fix(slot{rank(it), it.seq, it})
	}
}

// Pop gives out the due item of the highest priority (then the earliest due,
// then the first offered), or false if none is due.
func (q *Queue) Pop(now time.Time) (Item, bool) {
	q.ripen(toInstant(now))
	if len(q.ready) == 0 {
		return Item{}, false
	}
	it := q.ready.pop()
	out := Item{Ref: it.ref, Due: it.due.time(), Priority: it.priority, Causes: it.causes}
	it.causes, it.state = Causes{}, taken
	q.active++
	return out, true
}

// Done ends the turn of ref that Take gave out. Without one it does nothing.
func (q *Queue) Done(ref Ref) {
	it, ok := q.items[ref]
	if !ok || it.state < taken {
		return
	}
	q.active--
	if it.state == takenAgain {
		q.push(it)
		return
	}
	delete(q.items, ref)
	*it = item{}
	if len(q.free) < maxFree {
		q.free = append(q.free, it)
	}
}

// Next is the earliest due time of what can be taken; false if nothing can.
func (q *Queue) Next() (time.Time, bool) {
	switch {
	case len(q.ready) > 0:
		return q.ready[0].it.due.time(), true
	case len(q.timed) > 0:
		return q.timed[0].it.due.time(), true
	}
	return time.Time{}, false
}

// Len counts the refs that wait; Active those that are taken and not done.
func (q *Queue) Len() int    { return len(q.timed) + len(q.ready) }
func (q *Queue) Active() int { return q.active }

func (q *Queue) alloc() *item {
	n := len(q.free)
	if n == 0 {
		return &item{}
	}
	it := q.free[n-1]
	q.free[n-1], q.free = nil, q.free[:n-1]
	return it
}

func (q *Queue) push(it *item) {
	q.seq++
	it.seq = q.seq
	it.state = inTimed
	q.timed.push(slot{uint64(it.due), it.seq, it})
}

// ripen moves what is due from the timed heap to the ready heap.
func (q *Queue) ripen(now instant) {
	for len(q.timed) > 0 && q.timed[0].it.due <= now {
		it := q.timed.pop()
		it.state = inReady
		q.ready.push(slot{rank(it), it.seq, it})
	}
}

// rank orders what is due: by priority, then by due time. An instant stays
// below 2^53 ms, so both fit into one word.
func rank(it *item) uint64 { return uint64(255-it.priority)<<55 | uint64(it.due) }
