package reconcile

import (
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// snapshotCache keeps what the store last gave of each row, for turns that only look
// again. It holds as long as nothing is written: the controller is the store's one
// writer, but for the transactions of its owner, which end in an Enqueue. A turn that
// read too early records nothing or meets ErrConflict, and the Enqueue has it read
// anew.
type snapshotCache struct {
	writes atomic.Uint64 // rises after each write and with each request

	mu   sync.Mutex
	rows map[engine.Ref]*cachedSnapshot
}

type cachedSnapshot struct {
	writes uint64
	snap   engine.Snapshot
}

// invalidate ends what was kept.
func (c *snapshotCache) invalidate() { c.writes.Add(1) }

// get gives what was kept at this count of writes.
func (c *snapshotCache) get(ref engine.Ref, writes uint64, snap *engine.Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.rows[ref]
	if !ok || r.writes != writes {
		return false
	}
	*snap = r.snap
	return true
}

// keep takes what was read after writes was.
func (c *snapshotCache) keep(ref engine.Ref, writes uint64, s *engine.Snapshot) {
	c.mu.Lock()
	c.rows[ref] = &cachedSnapshot{writes, *s}
	c.mu.Unlock()
}

func (c *snapshotCache) drop(ref engine.Ref) {
	c.mu.Lock()
	delete(c.rows, ref)
	c.mu.Unlock()
}
