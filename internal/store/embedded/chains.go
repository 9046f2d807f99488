package embedded

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// chains knows the highest host sequence of every host's chain. Ends only grow, so
// that folding a record again, or a table row newer than its mark, changes nothing.
type chains struct {
	ends  map[string][]*chainEnd // by host, one for every incarnation
	count int                    // of all chains
	dirty []*chainEnd            // changed since the last flush began
	undo  []undo                 // what link did, until the commit
}

type chainEnd struct {
	host        string
	incarnation uint64
	hostSeq     uint64
	dirty       bool
}

type undo struct {
	chain   *chainEnd
	hostSeq uint64
}

// end finds a chain, which it makes if need be.
func (c *chains) end(host string, incarnation uint64) *chainEnd {
	ends := c.ends[host]
	for i := len(ends) - 1; i >= 0; i-- {
		if ends[i].incarnation == incarnation {
			return ends[i]
		}
	}
	e := &chainEnd{host: host, incarnation: incarnation}
	c.ends[host] = append(ends, e)
	c.count++
	return e
}

// touch notes that a chain's end differs from the table's.
func (c *chains) touch(e *chainEnd) {
	if !e.dirty {
		e.dirty = true
		c.dirty = append(c.dirty, e)
	}
}

// link takes in a batch, or returns a *store.DuplicateError. The caller must then
// call commit or revert.
func (c *chains) link(entries []event.Entry) error {
	for i := range entries {
		e := &entries[i]
		if e.HostSeq == 0 {
			continue
		}
		end := c.end(e.Host(), e.Incarnation)
		if e.HostSeq <= end.hostSeq {
			return &store.DuplicateError{Index: i, Host: e.Host(), Incarnation: e.Incarnation, HostSeq: e.HostSeq}
		}
		c.undo = append(c.undo, undo{end, end.hostSeq})
		end.hostSeq = e.HostSeq
	}
	return nil
}

// commit keeps what link did.
func (c *chains) commit() {
	for i := range c.undo {
		c.touch(c.undo[i].chain)
	}
	c.undo = c.undo[:0]
}

// revert takes it back.
func (c *chains) revert() {
	for _, u := range slices.Backward(c.undo) {
		u.chain.hostSeq = u.hostSeq
	}
	c.undo = c.undo[:0]
}

// drain returns the ends that changed since it was last called, in the table's order.
func (c *chains) drain() []*chainEnd {
	out := c.dirty
	c.dirty = nil
	for _, e := range out {
		e.dirty = false
	}
	slices.SortFunc(out, func(a, b *chainEnd) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(int64(a.incarnation), int64(b.incarnation)))
	})
	return out
}
