package engine

// ready has what is due. In which order it goes out:
//
//   - Deadlines that have passed go before everything, kinds in turn.
//   - Of the other priorities the highest goes first, but one that was passed over aged times goes
//     before it: the one that was passed over most often.
//   - Within a priority kinds take turns, and within a kind what became due first goes first.
//
// So at most MaxPassed turns of other priorities begin between two of one priority that
// something is due of: a row has its turn after at most MaxPassed+1 turns of others for
// each kind with something due, times one more than the rows of its kind that were due
// before it, and those of deadlines. No flood of events or requests makes it more.
type ready struct {
	kinds  []kindQueue
	byName map[string]uint16
	turns  [classes][]uint16 // kinds with something of that priority, in the order of their turns
	passed [classes]int      // how often others were preferred since it had a turn, or has something due
	n      int
}

// classes is how many priorities there are, and the unused 0.
const classes = int(PriorityDeadline) + 1

// aged is how often a priority is passed over before it goes first.
const aged = 16

// MaxPassed is how many turns of other priorities begin at most, deadlines apart, while
// one of a priority is due: aged, and one of each other priority that was passed over longer.
const MaxPassed = aged + classes - 3

// kindQueue has what is due of one kind, by priority and then by when it became due.
type kindQueue struct {
	class          [classes]heap
	active, places int
}

// noBound is the places of a kind that has no bound of its own.
const noBound = 1 << 30

// kind is the number of a kind. Kinds beyond so many as are counted share one queue.
func (r *ready) kind(name string) uint16 {
	k, ok := r.byName[name]
	if !ok {
		k = uint16(min(len(r.kinds), 1<<16-1))
		r.byName[name] = k
		if int(k) == len(r.kinds) {
			r.kinds = append(r.kinds, kindQueue{places: noBound})
		}
	}
	return k
}

func (r *ready) push(s slot) {
	c := s.it.class()
	h := &r.kinds[s.it.kind].class[c]
	if h.len() == 0 {
		r.turns[c] = append(r.turns[c], s.it.kind)
	}
	h.push(s)
	r.n++
}

// remove takes out an item that does not get its turn.
func (r *ready) remove(it *item) slot {
	c := it.class()
	h := &r.kinds[it.kind].class[c]
	s := h.remove(int(it.index))
	r.n--
	if h.len() == 0 {
		for i, k := range r.turns[c] {
			if k == it.kind {
				r.end(int(c), i)
				break
			}
		}
	}
	return s
}

// move gives an item another priority, with its age.
func (r *ready) move(it *item, p Priority) {
	s := r.remove(it)
	it.priority = p
	r.push(s)
}

// end takes a kind off the turns of a priority.
func (r *ready) end(c, place int) {
	t := r.turns[c]
	copy(t[place:], t[place+1:])
	r.turns[c] = t[:len(t)-1]
	if len(t) == 1 {
		r.passed[c] = 0
	}
}

// pop takes what goes first; nil if there is nothing.
func (r *ready) pop(idle bool) *item {
	if r.n == 0 {
		return nil
	}
	c, place := r.choose(idle)
	if c == 0 {
		return nil
	}
	t := r.turns[c]
	k := t[place]
	kq := &r.kinds[k]
	it := kq.class[c].pop()
	kq.active++
	r.n--
	if len(t) > 1 {
		copy(t[place:], t[place+1:])
		t[len(t)-1] = k
	}
	if kq.class[c].len() == 0 {
		r.end(c, len(t)-1)
	}
	if c != int(PriorityDeadline) {
		r.pass(c)
	}
	return it
}

// pass counts a turn of priority c for those that it went before.
func (r *ready) pass(c int) {
	for other := 1; other < int(PriorityDeadline); other++ {
		if len(r.turns[other]) > 0 {
			r.passed[other]++
		}
	}
	r.passed[c] = 0
}

// choose is the priority that goes first, and the place of the kind in its turns; 0 if
// there is none.
func (r *ready) choose(idle bool) (class, place int) {
	for c := classes - 1; c > 0; c-- {
		if len(r.turns[c]) == 0 || class != 0 && (r.passed[c] < aged || r.passed[c] <= r.passed[class]) {
			continue
		}
		at := r.first(c, idle)
		if at < 0 {
			continue
		}
		class, place = c, at
		if c == int(PriorityDeadline) {
			break
		}
	}
	return class, place
}

// first is the place of the first kind of a priority that has a place; -1 if none has.
func (r *ready) first(c int, idle bool) int {
	for i, k := range r.turns[c] {
		if kq := &r.kinds[k]; kq.active < kq.places && (!idle || kq.active == 0) {
			return i
		}
	}
	return -1
}

// waiting counts what is due of a kind, and the turns of it that run with a place.
func (r *ready) waiting(k uint16) (due, running int) {
	kq := &r.kinds[k]
	for c := range kq.class {
		due += kq.class[c].len()
	}
	return due, kq.active
}

// Waiting counts what is due of a kind, and the turns of it that run and have a place.
func (q *Queue) Waiting(kind string) (due, running int) {
	if k, ok := q.ready.byName[kind]; ok {
		return q.ready.waiting(k)
	}
	return 0, 0
}

// EachDue calls f with what is due of a kind, in no certain order; f must not call the queue.
func (q *Queue) EachDue(kind string, f func(Ref)) {
	k, ok := q.ready.byName[kind]
	if !ok {
		return
	}
	for c := range q.ready.kinds[k].class {
		for _, s := range q.ready.kinds[k].class[c].slots {
			if s.it.ref.Kind == kind {
				f(s.it.ref)
			}
		}
	}
}
