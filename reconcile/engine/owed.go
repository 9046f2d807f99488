package engine

import "time"

// Owed is when a row wants its next turn at the latest, by what is recorded alone: at once where
// it is on its way, after its back-off, at its deadlines, and by its period of resync. ok is false
// for a row that may rest until something triggers a turn.
func Owed(in Input) (at time.Time, ok bool) {
	row, by := &in.Snap.Row, instant(0)
	if row.Phase.Terminal() {
		return at, false
	}
	rec := Record{Row: *row}
	rec.wakeAtDeadlines(in)
	switch {
	case !row.Phase.atRest() && row.Phase != Retrying:
		by = max(in.now(), 1)
	case in.Policy.Resync > 0:
		by = in.now().add(in.Policy.Resync + time.Millisecond)
	}
	by = earliest(earliest(by, toInstant(rec.Wake)), toInstant(rec.Deadline))
	return by.time(), by != 0
}

// lateness is how much later than it is owed a turn may be queued: after an error of the store.
const lateness = 2 * time.Second

// Unqueued reports whether nothing of the row is queued, and no turn of it runs, by when it is owed
// one, or although a trigger of the outbox waits for it: the row would be left as it is. A turn
// that runs queues what is owed at its end.
func (q *Queue) Unqueued(in Input) (owed time.Time, missing bool) {
	owed, ok := Owed(in)
	at, queued := q.By(in.Snap.Row.Ref)
	switch {
	case in.Snap.Row.Phase.Terminal():
		return owed, false
	case !queued:
		return owed, ok || in.Snap.TriggerN != 0
	}
	return owed, ok && !at.IsZero() && at.After(owed.Add(lateness))
}

// Stuck reports whether nothing follows this record although its row is on its way: after a turn
// with it the row would be left as it is.
func (rec *Record) Stuck() bool {
	return rec.Why == 0 && rec.Act == nil && !rec.Row.Phase.atRest()
}
