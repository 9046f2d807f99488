package documents

import (
	"container/list"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Bounds of the cache, in bytes.
const (
	maxCached    = 32 << 20
	maxCachedOne = 1 << 20
)

// cache keeps the small blobs that were used last: a rollout has many hosts
// fetch the same few.
type cache struct {
	mu    *sync.Mutex
	items map[digest.Digest]*list.Element
	order *list.List // of cached, the last used in front
	size  *int
}

type cached struct {
	d digest.Digest
	b []byte
}

func newCache() cache {
	return cache{mu: new(sync.Mutex), items: map[digest.Digest]*list.Element{}, order: list.New(), size: new(int)}
}

func (c cache) get(d digest.Digest) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[d]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(cached).b, true
}

func (c cache) put(d digest.Digest, b []byte) {
	if len(b) > maxCachedOne {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.items[d]; there {
		return
	}
	c.items[d] = c.order.PushFront(cached{d, b})
	*c.size += len(b)
	for *c.size > maxCached {
		last := c.order.Back()
		old := c.order.Remove(last).(cached)
		delete(c.items, old.d)
		*c.size -= len(old.b)
	}
}
