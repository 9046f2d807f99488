package embedded

import (
	"context"
	"database/sql"
	"errors"

	"github.com/steadyfleet/steady/internal/core/event"
)

// derived is what the store derives of the log to find its way in it: the ends of the
// hosts' chains, and which events are about what. Rows for every event would dirty a
// page for each of every append, several times the cost of the event; so this is
// memory. Tables hold it as of the sequence mark, the events behind that complete it.
// The log is the only source: the whole is built again from it when the tables are
// missing or their checksum is not theirs, and catches up when another handle has
// appended.
type derived struct {
	loaded bool
	at     uint64 // the sequence that is folded
	chains chains
	newest postings // behind flushAt while a flush is under way, else behind mark

	mark  uint64 // what the tables are complete up to
	sum   uint64 // of the table about, up to mark
	clear bool   // the tables are to be emptied before the next flush

	flushing *flush
}

// flush is the part of what is derived that is on its way into the tables.
type flush struct {
	upTo     uint64
	ends     []*chainEnd
	blocks   []*block // still to be written
	postings postings // of these blocks, and of those written
	sum      uint64
}

// derivedTables are no part of the schema's history: dropping them is allowed.
const derivedTables = `
	CREATE TABLE IF NOT EXISTS chains (
		host TEXT NOT NULL, incarnation INTEGER NOT NULL, host_seq INTEGER NOT NULL,
		PRIMARY KEY (host, incarnation)) STRICT, WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS about (
		kind TEXT NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL, rest BLOB NOT NULL,
		PRIMARY KEY (kind, name, first)) STRICT, WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS derived (
		id INTEGER PRIMARY KEY CHECK (id = 1), mark INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;`

// sealed is the checksum of the table about with the mark that it belongs to.
func sealed(mark, sum uint64) int64 { return int64(sum + (mark+1)*0x9e3779b97f4a7c15) }

const selectMark = `SELECT mark, sum FROM derived WHERE id = 1`

// catchUp folds what was committed up to sequence upTo.
func (s *Store) catchUp(ctx context.Context, upTo uint64) (err error) {
	d := &s.derived
	if d.loaded && d.at >= upTo {
		return nil
	}
	base, err := s.base(ctx)
	if err == nil && (!d.loaded || d.at < base.Seq) { // another handle may have pruned the log
		err = s.load(ctx, upTo)
	}
	if err != nil {
		return err
	}
	d.at = max(d.at, base.Seq)
	const query = `SELECT seq, type, subject_kind, subject_name, incarnation, host_seq, body FROM events WHERE seq > ? AND seq <= ? ORDER BY seq`
	rows, err := s.readers.QueryContext(ctx, query, int64(d.at), int64(upTo))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var body sql.RawBytes
	for rows.Next() {
		var e event.Entry
		var seq, incarnation, hostSeq int64
		if err := rows.Scan(&seq, &e.Type, &e.Subject.Kind, &e.Subject.Name, &incarnation, &hostSeq, &body); err != nil {
			return err
		}
		e.Body = body
		d.newest.add(uint64(seq), &e)
		if hostSeq != 0 {
			end := d.chains.end(e.Host(), uint64(incarnation))
			end.hostSeq = max(end.hostSeq, uint64(hostSeq))
			d.chains.touch(end)
		}
		d.at = uint64(seq)
	}
	return rows.Err()
}

// load begins with what the tables hold, or when they are damaged with what the records
// that were pruned left.
func (s *Store) load(ctx context.Context, upTo uint64) error {
	if err := s.loadDerived(ctx, upTo); err != nil {
		return err
	}
	return s.loadEnds(ctx, `SELECT host, incarnation, host_seq FROM pruned_chains`)
}

func (s *Store) loadEnds(ctx context.Context, query string) error {
	var host string
	var incarnation, hostSeq int64
	return s.each(ctx, query, nil, []any{&host, &incarnation, &hostSeq}, func() error {
		end := s.derived.chains.end(host, uint64(incarnation))
		end.hostSeq = max(end.hostSeq, uint64(hostSeq))
		return nil
	})
}

func (s *Store) loadDerived(ctx context.Context, upTo uint64) error {
	s.derived = derived{chains: chains{ends: map[string][]*chainEnd{}}, loaded: true}
	d := &s.derived
	var mark, sum int64
	err := s.readers.QueryRowContext(ctx, selectMark).Scan(&mark, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		d.clear = true
		return nil
	}
	if err == nil {
		d.mark, d.at = uint64(mark), uint64(mark)
		if err = s.loadTables(ctx, mark); err == nil && (sealed(d.mark, d.sum) != sum || d.mark > upTo) {
			err = errDamaged
		}
	}
	if errors.Is(err, errDamaged) {
		s.derived = derived{chains: chains{ends: map[string][]*chainEnd{}}, loaded: true, clear: true}
		return nil
	}
	d.loaded = err == nil
	return err
}

func (s *Store) loadTables(ctx context.Context, mark int64) error {
	d := &s.derived
	if err := s.loadEnds(ctx, `SELECT host, incarnation, host_seq FROM chains`); err != nil {
		return err
	}
	var b block
	var first int64
	var rest sql.RawBytes
	return s.each(ctx, `SELECT kind, name, first, rest FROM about WHERE first <= ?`, []any{mark}, []any{&b.subject.Kind, &b.subject.Name, &first, &rest}, func() error {
		b.first, b.rest = uint64(first), rest
		d.sum += b.sum()
		return nil
	})
}

// each calls fn for every row of a query, which was scanned into dest.
func (s *Store) each(ctx context.Context, query string, args, dest []any, fn func() error) (err error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// committed takes in a batch that was committed behind sequence seq.
func (d *derived) committed(seq uint64, entries []event.Entry) {
	d.chains.commit()
	for i := range entries {
		seq++
		d.newest.add(seq, &entries[i])
	}
	d.at = seq
}

// flush writes some of what changed into the tables, in the transaction of an append
// of n entries and before link: little by little and in the tables' order, so that no
// append waits for all of it. It returns what to call after the commit.
func (s *Store) flush(n int) (committed func(), err error) {
	d := &s.derived
	if d.flushing == nil {
		if !d.clear && d.at-d.mark < max(s.flushEvery, uint64(d.chains.count)) {
			return func() {}, nil
		}
		d.flushing = &flush{upTo: d.at, ends: d.chains.drain(), blocks: d.newest.sorted(), postings: d.newest, sum: d.sum}
		d.newest = postings{}
	}
	if same, err := s.ownTables(); err != nil || !same {
		return func() { d.loaded = same }, err
	}
	f, room := d.flushing, 2*n+8
	ends := f.ends[:min(len(f.ends), room)]
	for _, e := range ends {
		const put = `INSERT OR REPLACE INTO chains (host, incarnation, host_seq) VALUES (?, ?, ?)`
		if _, err := s.w.exec(put, e.host, int64(e.incarnation), int64(e.hostSeq)); err != nil {
			return nil, err
		}
	}
	blocks, sum := f.blocks[:min(len(f.blocks), room-len(ends))], f.sum
	for _, b := range blocks {
		const put = `INSERT OR REPLACE INTO about (kind, name, first, rest) VALUES (?, ?, ?, ?)`
		if _, err := s.w.exec(put, b.subject.Kind, b.subject.Name, int64(b.first), b.rest); err != nil {
			return nil, err
		}
		sum += b.sum()
	}
	last := len(ends) == len(f.ends) && len(blocks) == len(f.blocks)
	if last {
		if _, err := s.w.exec(`UPDATE derived SET mark = ?, sum = ? WHERE id = 1`, int64(f.upTo), sealed(f.upTo, sum)); err != nil {
			return nil, err
		}
	}
	return func() {
		d.clear = false
		f.ends, f.blocks, f.sum = f.ends[len(ends):], f.blocks[len(blocks):], sum
		if last {
			d.flushing, d.mark, d.sum = nil, f.upTo, sum
		}
	}, nil
}

// ownTables reports whether the tables are those that this handle read or wrote. It
// empties them first if they were damaged.
func (s *Store) ownTables() (bool, error) {
	d := &s.derived
	if d.clear {
		_, err1 := s.w.exec(`DELETE FROM chains`)
		_, err2 := s.w.exec(`DELETE FROM about`)
		_, err3 := s.w.exec(`INSERT OR REPLACE INTO derived (id, mark, sum) VALUES (1, 0, ?)`, sealed(0, 0))
		return true, errors.Join(err1, err2, err3)
	}
	row, err := s.w.row(selectMark)
	return row != nil && row[0] == int64(d.mark) && row[1] == sealed(d.mark, d.sum), err
}
