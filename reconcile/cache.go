package reconcile

import (
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// quiet keeps what the store last gave of each row, for turns that only look
// again. It holds as long as nothing is written: the controller is the store's one
// writer, but for the transactions of its owner, which end in a Enqueue. A turn that
// read too early records nothing or meets ErrConflict, and the Enqueue has it read
// anew.
type snapshotCache struct {
	writes atomic.Uint64 // rises after each write and with each offer

	mu   sync.Mutex
	rows map[engine.Ref]cachedSnapshot
}

type cachedSnapshot struct {
	writes uint64
	snap   engine.Snapshot
}

// wrote ends what was kept.
func (q *snapshotCache) invalidate() { q.writes.Add(1) }

// get returns what was kept at this count of writes.
func (q *snapshotCache) get(ref engine.Ref, writes uint64) (engine.Snapshot, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok := q.rows[ref]
	return r.snap, ok && r.writes == writes
}

// keep takes what was read after writes was.
func (q *snapshotCache) keep(ref engine.Ref, writes uint64, s engine.Snapshot) {
	q.mu.Lock()
	q.rows[ref] = cachedSnapshot{writes, s}
	q.mu.Unlock()
}

func (q *snapshotCache) drop(ref engine.Ref) {
	q.mu.Lock()
	delete(q.rows, ref)
	q.mu.Unlock()
}
