package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// flushEvery is after how many events, at least, the chains' ends are written
// down again. Opening a store reads at most about twice as many events.
const flushEvery = 200_000

// chains knows the end of every host's chain. An index by host would dirty a
// page for every row of every append, several times the cost of the row; this
// is memory, and each row points to the one before of its host. The table
// chains holds it as of some sequence, the events behind that complete it. The
// log is its only source: it is at the sequence that it has folded, and catches
// up when another handle has appended. Ends only grow, so that folding a record
// again, or a table row newer than its mark, changes nothing.
type chains struct {
	loaded bool
	at     uint64
	hosts  map[string]*hostEnd
	count  int         // of all chains
	dirty  []*chainEnd // changed since the current flush began
	undo   []undo      // what link did, until the commit

	flushing []*chainEnd // still to be written, in order of the table
	flushAt  uint64      // what the table will be complete up to
	mark     uint64      // what the table is complete up to
}

// hostEnd is the sequence of a host's newest record, and its chains: one for
// every incarnation that there was.
type hostEnd struct {
	last   uint64
	chains []*chainEnd
}

// chainEnd is the highest host sequence of a chain and its newest record.
type chainEnd struct {
	host         string
	incarnation  uint64
	hostSeq, seq uint64
	dirty        bool
}

type undo struct {
	host               *hostEnd
	chain              *chainEnd
	last, hostSeq, seq uint64
}

// end finds a chain, which it makes if need be.
func (c *chains) end(host string, incarnation uint64) (*hostEnd, *chainEnd) {
	h := c.hosts[host]
	if h == nil {
		h = &hostEnd{}
		c.hosts[host] = h
	}
	for i := len(h.chains) - 1; i >= 0; i-- {
		if h.chains[i].incarnation == incarnation {
			return h, h.chains[i]
		}
	}
	e := &chainEnd{host: host, incarnation: incarnation}
	h.chains = append(h.chains, e)
	c.count++
	return h, e
}

// touch notes that a chain's end differs from the table's.
func (c *chains) touch(e *chainEnd) {
	if !e.dirty {
		e.dirty = true
		c.dirty = append(c.dirty, e)
	}
}

// link takes in a batch that is to begin behind sequence seq. It returns the
// sequence of the record before of each entry's host, or a
// *store.DuplicateError. The caller must then call commit or revert.
func (c *chains) link(seq uint64, entries []event.Entry) ([]uint64, error) {
	prev := make([]uint64, len(entries))
	for i := range entries {
		e := &entries[i]
		seq++
		if e.Host == "" {
			continue
		}
		h, end := c.end(e.Host, e.Incarnation)
		if e.HostSeq > 0 && e.HostSeq <= end.hostSeq {
			return nil, &store.DuplicateError{Index: i, Host: e.Host, Incarnation: e.Incarnation, HostSeq: e.HostSeq}
		}
		c.undo = append(c.undo, undo{h, end, h.last, end.hostSeq, end.seq})
		prev[i] = h.last
		h.last, end.seq, end.hostSeq = seq, seq, max(end.hostSeq, e.HostSeq)
	}
	return prev, nil
}

// commit keeps what link did; the log is now at sequence seq.
func (c *chains) commit(seq uint64) {
	for i := range c.undo {
		c.touch(c.undo[i].chain)
	}
	c.undo, c.at = c.undo[:0], seq
}

// revert takes it back.
func (c *chains) revert() {
	for _, u := range slices.Backward(c.undo) {
		u.host.last, u.chain.hostSeq, u.chain.seq = u.last, u.hostSeq, u.seq
	}
	c.undo = c.undo[:0]
}

// catchUp folds what was committed up to sequence upTo.
func (s *Store) catchUp(ctx context.Context, upTo uint64) error {
	c := &s.chains
	if !c.loaded {
		*c = chains{hosts: map[string]*hostEnd{}}
		var mark int64
		if err := s.readers.QueryRowContext(ctx, `SELECT seq FROM chains_mark WHERE id = 1`).Scan(&mark); err != nil {
			return err
		}
		const table = `SELECT seq, host, incarnation, host_seq FROM chains WHERE ? >= 0`
		if err := s.foldRows(ctx, false, table, 0); err != nil {
			return err
		}
		c.mark, c.at, c.loaded = uint64(mark), uint64(mark), true
	}
	if c.at >= upTo {
		return nil
	}
	const events = `SELECT seq, host, incarnation, host_seq FROM events WHERE seq > ? AND host <> ''`
	if err := s.foldRows(ctx, true, events, int64(c.at)); err != nil {
		return err
	}
	c.at = upTo
	return nil
}

func (s *Store) foldRows(ctx context.Context, dirty bool, query string, arg int64) (err error) {
	rows, err := s.readers.QueryContext(ctx, query, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq, incarnation, hostSeq int64
		var host string
		if err := rows.Scan(&seq, &host, &incarnation, &hostSeq); err != nil {
			return err
		}
		h, end := s.chains.end(host, uint64(incarnation))
		h.last = max(h.last, uint64(seq))
		end.seq, end.hostSeq = max(end.seq, uint64(seq)), max(end.hostSeq, uint64(hostSeq))
		if dirty {
			s.chains.touch(end)
		}
	}
	return rows.Err()
}

// flush writes some of the ends into the table, in the transaction of an append
// of n entries and before link: little by little and in the table's order, so
// that no append waits for all of it. It returns what to call after the commit.
func (s *Store) flush(n int) (committed func(), err error) {
	c := &s.chains
	if c.flushing == nil {
		if c.at-c.mark < max(s.flushEvery, uint64(c.count)) {
			return func() {}, nil
		}
		c.flushAt, c.flushing, c.dirty = c.at, c.dirty, nil
		for _, e := range c.flushing {
			e.dirty = false
		}
		slices.SortFunc(c.flushing, func(a, b *chainEnd) int {
			return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(int64(a.incarnation), int64(b.incarnation)))
		})
	}
	const put = `INSERT OR REPLACE INTO chains (host, incarnation, host_seq, seq) VALUES (?, ?, ?, ?)`
	part := c.flushing[:min(len(c.flushing), 2*n+8)]
	for _, e := range part {
		if _, err := s.w.exec(put, e.host, int64(e.incarnation), int64(e.hostSeq), int64(e.seq)); err != nil {
			return nil, err
		}
	}
	if len(part) < len(c.flushing) {
		return func() { c.flushing = c.flushing[len(part):] }, nil
	}
	if _, err := s.w.exec(`UPDATE chains_mark SET seq = ? WHERE id = 1`, int64(c.flushAt)); err != nil {
		return nil, err
	}
	return func() { c.flushing, c.mark = nil, c.flushAt }, nil
}

// ReadHost implements store.Log. It follows the host's records backwards.
func (s *Store) ReadHost(ctx context.Context, host string, limit int) ([]event.Record, error) {
	const op = "read host"
	if err := errors.Join(store.CheckName("host", host), store.CheckLimit(limit)); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	last, err := s.lastOf(ctx, host)
	if err != nil || last == 0 {
		return nil, s.fail(op, err)
	}
	// A recursive query yields its rows in the order in which it finds them.
	const columns = `seq, term, at, type, host, incarnation, host_seq, body, hash`
	const query = `WITH RECURSIVE chain (` + columns + `, prev, n) AS (
			SELECT ` + columns + `, prev, 1 FROM events WHERE seq = ?
			UNION ALL
			SELECT e.seq, e.term, e.at, e.type, e.host, e.incarnation, e.host_seq, e.body, e.hash, e.prev, c.n + 1
			FROM chain c JOIN events e ON e.seq = c.prev WHERE c.n < ?)
		SELECT ` + columns + ` FROM chain`
	records, err := s.query(ctx, query, int64(last), limit)
	return records, s.fail(op, err)
}

// lastOf returns the sequence of a host's newest record, or 0.
func (s *Store) lastOf(ctx context.Context, host string) (uint64, error) {
	s.chainsMu.Lock()
	defer s.chainsMu.Unlock()
	head, err := s.readHead(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.catchUp(ctx, head.Seq); err != nil {
		return 0, err
	}
	if h := s.chains.hosts[host]; h != nil {
		return h.last, nil
	}
	return 0, nil
}
