package engine

import "time"

// Queue has at most one entry per ref. A request for a ref that is queued merges with
// it: the union of causes, the earliest due time, the highest priority. The deadline of a
// ref is kept apart from its requests, so that they do not bring it forward. A ref that was
// popped is not given out again before Done; a request meanwhile makes one more turn. It has
// no lock, clock or goroutine: one owner calls it. In which order due turns are given out is
// in ready.go.
type Queue struct {
	items  map[Ref]*item
	timed  heap // requests that were not due at now
	late   heap // deadlines that had not passed at now, but for those of turns that run
	ready  ready
	free   []*item // recycled items
	seq    uint64
	now    instant // the latest that Pop was given
	back   instant // how far the clock went back since Back was called
	active int
}

// maxFree bounds the recycled items.
const maxFree = 1024

// jump is how far the clock may go back without what is due in a while being brought forward, in ms.
const jump = 1000

type itemState uint8

const (
	resting itemState = iota // has a deadline, no request
	inTimed
	inReady
	passed // in ready too, as a deadline
	taken  // its turn runs
	left   // its turn runs, and needs no place any more
)

type item struct {
	ref      Ref
	due      instant // of the requests; never if there is none
	deadline instant // never if there is none
	causes   Causes
	index    int32 // in timed, or in its heap of ready
	late     int32 // in late; -1 if it is not there
	kind     uint16
	priority Priority
	state    itemState
}

// class is the priority with which an item is ready.
func (it *item) class() Priority {
	if it.state == passed {
		return PriorityDeadline
	}
	return it.priority
}

// never is later than each instant of a queue.
const never = instant(1) << 53

// Item is one turn to take.
type Item struct {
	Ref      Ref
	Due      time.Time
	Priority Priority // PriorityDeadline if its deadline has passed
	Causes   Causes
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{items: map[Ref]*item{}, late: heap{late: true}, ready: ready{byName: map[string]uint16{}}}
}

// Add requests a turn of ref at the instant (zero or less: at once). PriorityDeadline is for
// SetDeadline alone: here it counts as PriorityOperator.
func (q *Queue) Add(ref Ref, due time.Time, p Priority, c Cause) {
	it := q.items[ref]
	if it == nil {
		it = q.alloc(ref)
	}
	it.causes.Add(c)
	q.request(it, min(max(toInstant(due), 0), never-1), min(p, PriorityOperator))
}

func (q *Queue) request(it *item, at instant, p Priority) {
	if it.state == inReady && p > it.priority {
		q.ready.move(it, p)
	}
	it.priority = max(it.priority, p)
	if at >= it.due {
		return
	}
	it.due = at
	switch it.state {
	case resting:
		it.state = inTimed
		q.timed.push(slot{q.timedKey(at), it})
	case inTimed:
		q.timed.sift(int(it.index), slot{q.timedKey(at), it})
	}
}

// SetDeadline has ref given out at the instant at the latest, before everything that is no
// deadline; it replaces the deadline before, and zero is none. It stays when the ref is
// popped for something else.
func (q *Queue) SetDeadline(ref Ref, at time.Time) {
	next := never
	if !at.IsZero() {
		next = min(max(toInstant(at), 0), never-1)
	}
	it := q.items[ref]
	switch {
	case it == nil && next == never, it != nil && it.deadline == next:
		return
	case it == nil:
		it = q.alloc(ref)
	}
	it.deadline = next
	if it.state == passed {
		q.ready.remove(it)
		q.rest(it)
	} else if it.state < taken {
		q.watch(it)
		q.drop(it)
	}
}

// rest queues what is left of an item: its requests, its deadline, or nothing.
func (q *Queue) rest(it *item) {
	it.state = resting
	if it.due != never {
		it.state = inTimed
		q.timed.push(slot{q.timedKey(it.due), it})
	}
	q.watch(it)
	q.drop(it)
}

// watch puts an item that waits into the heap of deadlines, or takes it out.
func (q *Queue) watch(it *item) {
	switch {
	case it.deadline == never:
		q.unwatch(it)
	case it.late < 0:
		q.late.push(slot{q.timedKey(it.deadline), it})
	default:
		q.late.sift(int(it.late), slot{q.timedKey(it.deadline), it})
	}
}

func (q *Queue) unwatch(it *item) {
	if it.late >= 0 {
		q.late.remove(int(it.late))
		it.late = -1
	}
}

// Pop gives out what is due and goes first, or false if nothing is due or no kind of it has a
// place.
func (q *Queue) Pop(now time.Time) (Item, bool) { return q.pop(now, false) }

// PopIdle is Pop for kinds of which no turn runs.
func (q *Queue) PopIdle(now time.Time) (Item, bool) { return q.pop(now, true) }

// Advance has what is due at the instant be so, as Pop does.
func (q *Queue) Advance(now time.Time) { q.advance(toInstant(now)) }

func (q *Queue) pop(now time.Time, idle bool) (Item, bool) {
	q.advance(toInstant(now))
	it := q.ready.pop(idle)
	if it == nil {
		return Item{}, false
	}
	due := it.due
	if it.state == passed {
		due = it.deadline
		it.causes.Add(Cause{Trigger: TriggerDeadline})
		it.deadline = never
	}
	out := Item{Ref: it.ref, Due: due.time(), Priority: it.class(), Causes: it.causes}
	q.unwatch(it)
	it.causes, it.priority, it.due, it.state = Causes{}, 0, never, taken
	q.active++
	return out, true
}

// Done ends the turn of ref that Pop gave out. Without one it does nothing.
func (q *Queue) Done(ref Ref) {
	if it := q.items[ref]; it != nil && it.state >= taken {
		q.done(it)
	}
}

func (q *Queue) done(it *item) {
	q.leave(it)
	q.active--
	q.rest(it)
}

// Finish is Done with what follows the turn: another one at wake for why, if that is not 0, and
// the deadline, unless the one that is queued stays.
func (q *Queue) Finish(ref Ref, wake time.Time, why Trigger, deadline time.Time, keep bool) {
	it := q.items[ref]
	if it == nil || it.state < taken {
		return
	}
	if why != 0 {
		it.causes.Add(Cause{Trigger: why})
		q.request(it, min(max(toInstant(wake), 0), never-1), min(why.Priority(), PriorityOperator))
	}
	if !keep {
		it.deadline = never
		if !deadline.IsZero() {
			it.deadline = min(max(toInstant(deadline), 0), never-1)
		}
	}
	q.done(it)
}

// Leave gives back the place of a turn that runs and needs none any more. Its ref is not given
// out before Done.
func (q *Queue) Leave(ref Ref) {
	if it := q.items[ref]; it != nil {
		q.leave(it)
	}
}

func (q *Queue) leave(it *item) {
	if it.state == taken {
		it.state = left
		q.ready.kinds[it.kind].active--
	}
}

// SetPlaces bounds how many turns of a kind run at once; without it there is no bound.
func (q *Queue) SetPlaces(kind string, n int) { q.ready.kinds[q.ready.kind(kind)].places = n }

// drop forgets an item that nothing is queued of.
func (q *Queue) drop(it *item) {
	if it.state != resting || it.deadline != never {
		return
	}
	delete(q.items, it.ref)
	*it = item{}
	if len(q.free) < maxFree {
		q.free = append(q.free, it)
	}
}

// Next is when something can be taken at the earliest; false if nothing is queued.
func (q *Queue) Next() (time.Time, bool) {
	if q.ready.n > 0 {
		return max(q.now, 1).time(), true
	}
	return q.NextTimed()
}

// NextTimed is when something becomes due at the earliest, beside what is; false if nothing will.
func (q *Queue) NextTimed() (time.Time, bool) {
	at := never
	if q.timed.len() > 0 {
		at = q.timed.slots[0].it.due
	}
	if q.late.len() > 0 {
		at = min(at, q.late.slots[0].it.deadline)
	}
	return at.time(), at != never
}

// Len counts the refs that wait; Active those that are taken and not done.
func (q *Queue) Len() int    { return len(q.items) - q.active }
func (q *Queue) Active() int { return q.active }

// By is when ref is given out at the latest if nothing goes before it, and whether it is queued or
// its turn runs. A turn that runs ends with what is owed being queued.
func (q *Queue) By(ref Ref) (at time.Time, queued bool) {
	it := q.items[ref]
	switch {
	case it == nil:
		return at, false
	case it.state >= taken:
		return at, true
	}
	return min(it.due, it.deadline).time(), true
}

// Due counts what is due; Poppable reports whether some of it has a place.
func (q *Queue) Due() int { return q.ready.n }
func (q *Queue) Poppable() bool {
	c, _ := q.ready.choose(false)
	return c != 0
}

// Back is how far the clock went back since the last call, and what was due in a while with it.
func (q *Queue) Back() time.Duration {
	d := time.Duration(q.back) * time.Millisecond
	q.back = 0
	return d
}

func (q *Queue) alloc(ref Ref) *item {
	var it *item
	if n := len(q.free); n > 0 {
		it = q.free[n-1]
		q.free[n-1], q.free = nil, q.free[:n-1]
	} else {
		it = new(item)
	}
	it.ref, it.due, it.deadline, it.late, it.kind = ref, never, never, -1, q.ready.kind(ref.Kind)
	q.items[ref] = it
	return it
}

// timedKey orders by instant, then by order of request. The instant has 43 bits, and
// is cut in the year 2248; the order wraps after two million.
func (q *Queue) timedKey(at instant) uint64 {
	q.seq++
	return uint64(min(at, 1<<43-1))<<21 | q.seq&(1<<21-1)
}

// advance moves what is due to the ready ones: passed deadlines, then requests.
func (q *Queue) advance(now instant) {
	if now+jump < q.now {
		q.shift(q.now - now)
	}
	q.now = now
	for q.late.len() > 0 && q.late.slots[0].it.deadline <= now {
		it := q.late.pop()
		it.late = -1
		switch it.state {
		case inReady:
			q.ready.remove(it)
		case inTimed:
			q.timed.remove(int(it.index))
		}
		q.ripen(it, passed)
	}
	for q.timed.len() > 0 && q.timed.slots[0].it.due <= now {
		q.ripen(q.timed.pop(), inReady)
	}
}

func (q *Queue) ripen(it *item, s itemState) {
	it.state = s
	q.seq++
	q.ready.push(slot{q.seq, it})
}

// shift brings requests forward by as much as the clock went back: each was for so long
// after now. Deadlines are instants, and stay.
func (q *Queue) shift(by instant) {
	q.back += by
	old := q.timed.slots
	q.timed.slots = make([]slot, 0, len(old))
	for _, s := range old {
		s.it.due = max(s.it.due-by, 0)
		q.timed.push(slot{q.timedKey(s.it.due), s.it})
	}
}
