package embedded

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

const (
	selectHead = `SELECT seq, term, hash FROM head WHERE id = 1`
	updateHead = `UPDATE head SET seq = ?, hash = ? WHERE id = 1`
	// selectEvents wants the condition under which a row comes with the hash of the one
	// before it, which is a look-up of its own.
	selectEvents = `SELECT seq, term, at, type, subject_kind, subject_name, incarnation, host_seq, body, hash,
		CASE WHEN %s THEN coalesce((SELECT hash FROM events AS before WHERE before.seq = events.seq - 1),
			(SELECT hash FROM pruned WHERE pruned.seq = events.seq - 1)) END FROM events `
	insertEvents = `INSERT INTO events (seq, term, at, type, subject_kind, subject_name, incarnation, host_seq, body, hash) VALUES `
	eventColumns = 10
	// insertRows is how many rows one statement inserts: more saves little.
	insertRows = 32
	// checkpointPages is the size of the WAL, by estimate, that is moved into
	// the database.
	checkpointPages = 4000
)

var (
	selectBehind = fmt.Sprintf(selectEvents, `seq = ?1 + 1`) + `WHERE seq > ?1 ORDER BY seq LIMIT ?2`
	selectListed = fmt.Sprintf(selectEvents, `true`) + `WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq`
	insertOne    = insertEvents + valuesOf(1)
	insertMany   = insertEvents + valuesOf(insertRows)
)

func valuesOf(rows int) string {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", eventColumns), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(one+",", rows), ",")
}

// Head implements store.Log.
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	if err := s.enter(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.RUnlock()
	h, err := s.readHead(ctx)
	return h, s.fail("read head", err)
}

func (s *Store) readHead(ctx context.Context) (store.Head, error) {
	var seq, term int64
	var hash []byte
	if err := s.readers.QueryRowContext(ctx, selectHead).Scan(&seq, &term, &hash); err != nil {
		return store.Head{}, err
	}
	return headOf(seq, term, hash), nil
}

func headOf(seq, term int64, hash []byte) store.Head {
	h := store.Head{Seq: uint64(seq), Term: uint64(term)}
	copy(h.Hash[:], hash) // the schema holds it to 32 bytes
	return h
}

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, expect, term uint64, entries []event.Entry) (store.Head, error) {
	return s.commit(ctx, expect, term, entries, false)
}

// EndSetBack implements store.Log.
func (s *Store) EndSetBack(ctx context.Context, expect, term uint64, entries []event.Entry) (store.Head, error) {
	return s.commit(ctx, expect, term, entries, true)
}

// commit is Append and, with ends, EndSetBack.
func (s *Store) commit(ctx context.Context, expect, term uint64, entries []event.Entry, ends bool) (store.Head, error) {
	const op = "append"
	if err := store.Check(entries); err != nil {
		return store.Head{}, fmt.Errorf("%s: %w", op, err)
	}
	if b := s.SetBack(); b != nil && !ends {
		return store.Head{}, fmt.Errorf("%s: %w: %s", op, store.ErrSetBack, b.Reason)
	}
	if err := s.enter(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.alive()); err != nil {
		return store.Head{}, err
	}
	head, err := s.appendLocked(expect, term, entries)
	if err == nil && (len(entries) > 0 || ends) {
		err = s.acknowledge(op, head, ends)
	}
	if err != nil {
		err = s.fail(op, err)
		if errors.Is(err, store.ErrFull) {
			s.checkpoint() // an emptied WAL may be room enough
		}
		return store.Head{}, err
	}
	if s.pages += walPages(entries); s.pages >= checkpointPages {
		s.checkpoint()
	}
	s.startRest()
	if len(entries) > 0 {
		s.advance(head)
	}
	return head, nil
}

// appendLocked is Append under s.mu.
func (s *Store) appendLocked(expect, term uint64, entries []event.Entry) (store.Head, error) {
	var head store.Head
	flushed := func() {}
	s.derivedMu.Lock()
	defer s.derivedMu.Unlock()
	err := s.w.tx(func() (err error) {
		if head, err = s.checkTx(expect, term); err != nil || len(entries) == 0 {
			return err
		}
		if err := s.catchUp(context.Background(), head.Seq); err != nil {
			return err
		}
		if flushed, err = s.flush(len(entries)); err != nil {
			return err
		}
		if err := s.derived.chains.link(entries); err != nil {
			return err
		}
		records := store.Chain(head, term, entries)
		if err := s.insert(records); err != nil {
			return err
		}
		last := &records[len(records)-1]
		head.Seq, head.Hash = last.Seq, last.Hash
		_, err = s.w.exec(updateHead, int64(head.Seq), head.Hash[:])
		return err
	})
	if err != nil || len(entries) == 0 {
		s.derived.chains.revert()
		return head, err
	}
	flushed()
	s.derived.committed(expect, entries)
	return head, nil
}

// checkTx compares the head with what an append wants it to be.
func (s *Store) checkTx(expect, term uint64) (store.Head, error) {
	row, err := s.w.row(selectHead)
	if err != nil {
		return store.Head{}, err
	}
	head := headOf(row[0].(int64), row[1].(int64), row[2].([]byte))
	if head.Term != term || term == 0 {
		return head, fmt.Errorf("%w: the head is of term %d, the append of %d", store.ErrFenced, head.Term, term)
	}
	if head.Seq != expect {
		return head, fmt.Errorf("%w: it is at %d, the append expects %d", store.ErrConflict, head.Seq, expect)
	}
	return head, nil
}

func (s *Store) insert(records []event.Record) error {
	values := make([]driver.Value, 0, insertRows*eventColumns)
	var kind, name driver.Value // one allocation for entries in a row of one kind or type
	term := driver.Value(int64(records[0].Term))
	for len(records) > 0 {
		n, query := 1, insertOne
		if len(records) >= insertRows {
			n, query = insertRows, insertMany
		}
		values = values[:0]
		for i := range records[:n] {
			r := &records[i]
			if kind != r.Subject.Kind {
				kind = r.Subject.Kind
			}
			if name != r.Type {
				name = r.Type
			}
			values = append(values, int64(r.Seq), term, int64(r.At), name, kind, r.Subject.Name,
				int64(r.Incarnation), int64(r.HostSeq), r.Body, r.Hash[:])
		}
		if _, err := s.w.exec(query, values...); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// walPages is about how many pages an append writes.
func walPages(entries []event.Entry) int {
	pages, bytes := 3, 0
	for i := range entries {
		bytes += len(entries[i].Body) + 128
	}
	return pages + bytes/pageSize
}

// restAfter is how long records may stay in the WAL alone, whose end SQLite drops
// where a bit of it is damaged.
const restAfter = 30 * time.Second

// startRest has the WAL moved into the database although nothing is appended. The caller has s.mu.
func (s *Store) startRest() {
	if s.rest == nil && s.pages > 0 {
		s.rest = time.AfterFunc(restAfter, s.atRest)
	}
}

func (s *Store) stopRest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest != nil {
		s.rest.Stop()
	}
}

func (s *Store) atRest() {
	if s.enter(context.Background()) != nil {
		return
	}
	defer s.calls.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = nil
	// Nobody is to wait for a reader: its own is enough for the next time.
	if _, err := s.w.exec("PRAGMA busy_timeout = 0"); err == nil {
		s.checkpointAs("TRUNCATE")
	}
	_, _ = s.w.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()))
	s.startRest()
}

// checkpoint moves the WAL into the database as far as readers allow. What was
// appended is durable without it: a full disk only postpones it, but a failed
// sync ends the handle like any other.
func (s *Store) checkpoint() { s.checkpointAs("PASSIVE") }

func (s *Store) checkpointAs(mode string) {
	s.pages = 0
	if s.alive() != nil {
		return
	}
	_, err := s.w.exec("PRAGMA wal_checkpoint(" + mode + ")")
	if err = s.fail("checkpoint", err); err != nil && !errors.Is(err, store.ErrBroken) {
		s.pages = checkpointPages / 2 // try again sooner
	}
}

// Read implements store.Log.
func (s *Store) Read(ctx context.Context, after uint64, limit int) ([]event.Record, error) {
	if err := store.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	if after > 1<<63-1 {
		return nil, nil
	}
	end, _ := s.newest()
	records, err := s.query(ctx, selectBehind, int64(after), limit)
	if _, damaged := errors.AsType[*store.ChainError](err); damaged || err == nil && after < end.Seq && (len(records) == 0 || records[0].Seq != after+1) {
		if gone := s.gone(ctx, after); err == nil || errors.Is(gone, store.ErrPruned) {
			records, err = nil, gone
		}
	}
	return records, s.fail("read", err)
}

// query returns records up to store.ReadBudget bytes of bodies. Each must follow, by its
// hash, from the one before it in the log.
func (s *Store) query(ctx context.Context, query string, args ...any) (out []event.Record, err error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, rows.Close()); err != nil {
			out = nil
		}
	}()
	bytes := 0
	var hash, before sql.RawBytes
	var from store.Head
	for bytes < store.ReadBudget && rows.Next() {
		var r event.Record
		var seq, term, at, incarnation, hostSeq int64
		if err := rows.Scan(&seq, &term, &at, &r.Type, &r.Subject.Kind, &r.Subject.Name, &incarnation, &hostSeq, &r.Body, &hash, &before); err != nil {
			return nil, err
		}
		r.Seq, r.Term, r.At = uint64(seq), uint64(term), clock.Instant(at)
		r.Incarnation, r.HostSeq = uint64(incarnation), uint64(hostSeq)
		copy(r.Hash[:], hash)
		switch last := len(out) - 1; {
		case before != nil || r.Seq == 1:
			from = headOf(seq-1, 0, before)
		case last < 0 || out[last].Seq != r.Seq-1:
			return nil, missing(r.Seq - 1)
		}
		if from, err = store.Verify(from, []event.Record{r}); err != nil {
			return nil, err
		}
		bytes += len(r.Body)
		out = append(out, r)
	}
	return out, rows.Err()
}

// Wait implements store.Log. This handle's own appends wake it; those of other
// processes are found by polling.
func (s *Store) Wait(ctx context.Context, known store.Head) (store.Head, error) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for ask := true; ; {
		head, changed := s.newest()
		if !newer(head, known) && ask {
			var err error
			if head, err = s.Head(ctx); err != nil {
				return store.Head{}, err
			}
		}
		if newer(head, known) {
			return head, nil
		}
		if err := s.alive(); err != nil {
			return store.Head{}, err
		}
		select {
		case <-changed:
			ask = false
		case <-poll.C:
			ask = true
		case <-ctx.Done():
			return store.Head{}, ctx.Err()
		case <-s.done:
			return store.Head{}, store.ErrClosed
		}
	}
}

func newer(h, known store.Head) bool { return h.Seq > known.Seq || h.Term > known.Term }

func (s *Store) newest() (store.Head, <-chan struct{}) {
	s.tipMu.Lock()
	defer s.tipMu.Unlock()
	return s.tip, s.changed
}

// advance tells waiters about a head that is durable.
func (s *Store) advance(h store.Head) {
	s.tipMu.Lock()
	defer s.tipMu.Unlock()
	s.tip = h
	close(s.changed)
	s.changed = make(chan struct{})
}
