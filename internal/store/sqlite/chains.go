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

// flushEvery is after how many events, at least, the chains' heads are written
// down again. Opening a store reads at most about that many events.
const flushEvery = 50_000

// chains knows the end of every host's chain. An index by host would dirty a
// page for every row of every append, several times the cost of the row; this
// is memory, and each row points to the one before of its host. The table
// chains holds it as of some sequence, the events behind that complete it. The
// log is its only source: it is at the sequence that it has folded, and catches
// up when another handle has appended. Heads only grow, so that folding a
// record again, or a table row newer than its mark, changes nothing.
type chains struct {
	loaded bool
	at     uint64
	heads  map[chainKey]chainHead
	last   map[string]uint64 // host -> sequence of its newest record
	dirty  map[chainKey]bool // changed since the current flush began

	flushing []chainKey // still to be written, in order of the table
	flushAt  uint64     // what the table will be complete up to
	mark     uint64     // what the table is complete up to
}

type chainKey struct {
	host        string
	incarnation uint64
}

type chainHead struct{ hostSeq, seq uint64 }

// fold takes in one record.
func (c *chains) fold(k chainKey, h chainHead) {
	old := c.heads[k]
	c.heads[k] = chainHead{max(old.hostSeq, h.hostSeq), max(old.seq, h.seq)}
	c.last[k.host] = max(c.last[k.host], h.seq)
}

func (c *chains) committed(records []event.Record) {
	for i := range records {
		if r := &records[i]; r.Host != "" {
			k := chainKey{r.Host, r.Incarnation}
			c.fold(k, chainHead{r.HostSeq, r.Seq})
			c.dirty[k] = true
		}
		c.at = max(c.at, records[i].Seq)
	}
}

// link returns, for a batch that is to begin behind sequence seq, the sequence
// of the record before of each entry's host, or a *store.DuplicateError.
func (c *chains) link(seq uint64, entries []event.Entry) ([]uint64, error) {
	prev := make([]uint64, len(entries))
	heads, last := map[chainKey]uint64{}, map[string]uint64{}
	for i := range entries {
		e := &entries[i]
		if e.Host == "" {
			continue
		}
		if e.HostSeq > 0 {
			k := chainKey{e.Host, e.Incarnation}
			if e.HostSeq <= max(heads[k], c.heads[k].hostSeq) {
				return nil, &store.DuplicateError{Index: i, Host: e.Host, Incarnation: e.Incarnation, HostSeq: e.HostSeq}
			}
			heads[k] = e.HostSeq
		}
		prev[i] = max(last[e.Host], c.last[e.Host])
		last[e.Host] = seq + uint64(i) + 1
	}
	return prev, nil
}

// catchUp folds what was committed up to sequence upTo.
func (s *Store) catchUp(ctx context.Context, upTo uint64) error {
	c := &s.chains
	if !c.loaded {
		*c = chains{heads: map[chainKey]chainHead{}, last: map[string]uint64{}, dirty: map[chainKey]bool{}}
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
		k := chainKey{host, uint64(incarnation)}
		s.chains.fold(k, chainHead{uint64(hostSeq), uint64(seq)})
		if dirty {
			s.chains.dirty[k] = true
		}
	}
	return rows.Err()
}

// flush writes some of the heads into the table, in the transaction of an
// append of n entries: little by little and in the table's order, so that no
// append waits for all of it. It returns what to call after the commit.
func (s *Store) flush(n int) (committed func(), err error) {
	c := &s.chains
	if c.flushing == nil {
		if c.at-c.mark < max(flushEvery, uint64(len(c.heads))) {
			return func() {}, nil
		}
		c.flushAt, c.flushing = c.at, make([]chainKey, 0, len(c.dirty))
		for k := range c.dirty {
			c.flushing = append(c.flushing, k)
		}
		clear(c.dirty)
		slices.SortFunc(c.flushing, func(a, b chainKey) int {
			return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(int64(a.incarnation), int64(b.incarnation)))
		})
	}
	const put = `INSERT OR REPLACE INTO chains (host, incarnation, host_seq, seq) VALUES (?, ?, ?, ?)`
	part := c.flushing[:min(len(c.flushing), 2*n+8)]
	for _, k := range part {
		h := c.heads[k]
		if _, err := s.w.exec(put, k.host, int64(k.incarnation), int64(h.hostSeq), int64(h.seq)); err != nil {
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
	return s.chains.last[host], nil
}
