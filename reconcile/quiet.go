package reconcile

import (
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// quiet keeps what the store last gave of each row, for turns that only look
// again. It holds as long as nothing is written: the loop is the store's one
// writer, but for the transactions of its owner, which end in a Kick. A turn that
// read too early records nothing or meets ErrConflict, and the kick has it read
// anew.
type quiet struct {
	writes atomic.Uint64 // rises after each write and with each offer

	mu   sync.Mutex
	rows map[engine.Ref]quietRow
}

type quietRow struct {
	writes uint64
	snap   engine.Snapshot
}

// wrote ends what was kept.
func (q *quiet) wrote() { q.writes.Add(1) }

// get returns what was kept at this count of writes.
func (q *quiet) get(ref engine.Ref, writes uint64) (engine.Snapshot, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok := q.rows[ref]
	return r.snap, ok && r.writes == writes
}

// keep takes what was read after writes was.
func (q *quiet) keep(ref engine.Ref, writes uint64, s engine.Snapshot) {
	q.mu.Lock()
	q.rows[ref] = quietRow{writes, s}
	q.mu.Unlock()
}

func (q *quiet) forget(ref engine.Ref) {
	q.mu.Lock()
	delete(q.rows, ref)
	q.mu.Unlock()
}
