package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Link is where the host's chain of events stands.
type Link struct {
	Seq  uint64 `json:"seq"`
	Hash []byte `json:"hash"`
}

// next is the link after one more event.
func (l Link) next(at clock.Instant, eventType string, body []byte) Link {
	c := identity.Chain{Seq: l.Seq}
	copy(c.Hash[:], l.Hash)
	c = c.Next(at, eventType, body)
	return Link{Seq: c.Seq, Hash: c.Hash[:]}
}

const (
	headKey  = "head"  // Link of the newest event
	ackedKey = "acked" // uint64
)

// Begin sets where the chain starts.
func Begin(ctx context.Context, tx *sql.Tx, genesis Link) error {
	if err := Put(ctx, tx, ackedKey, genesis.Seq); err != nil {
		return err
	}
	return PutDoc(ctx, tx, headKey, genesis)
}

// Append adds an event to the outbox in somebody's transaction, chained to the one before,
// so that neither is without what it tells.
func Append(ctx context.Context, tx *sql.Tx, at clock.Instant, e event.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.EventType(), err)
	}
	if len(body) > wire.MaxEventSize {
		return fmt.Errorf("event %s has %d bytes, at most %d", e.EventType(), len(body), wire.MaxEventSize)
	}
	var head Link
	if ok, err := get(ctx, tx, headKey, &head); err != nil {
		return err
	} else if !ok {
		return errors.New("the chain of events has no beginning; enrol the host again")
	}
	next := head.next(at, e.EventType(), body)
	if _, err := tx.ExecContext(ctx, "INSERT INTO outbox (seq, at, type, body, hash) VALUES (?, ?, ?, ?, ?)",
		next.Seq, at, e.EventType(), body, next.Hash); err != nil {
		return fmt.Errorf("write event %d to agent.db: %w", next.Seq, err)
	}
	return PutDoc(ctx, tx, headKey, next)
}

// Batch is consecutive events and the chain after the last.
type Batch struct {
	Events []wire.Event
	Head   Link
}

// Pending reads events after the acknowledged one, as many as one request
// takes.
func (s *Store) Pending(ctx context.Context) (Batch, error) {
	var b Batch
	var acked uint64
	if err := s.Seal(ctx); err != nil { // nothing is told that the anchor lacks
		return b, err
	}
	if _, err := s.Get(ctx, ackedKey, &acked); err != nil {
		return b, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT seq, at, type, body, hash FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", acked, wire.MaxEventBatch)
	if err != nil {
		return b, fmt.Errorf("read events from agent.db: %w", err)
	}
	defer func() { _ = rows.Close() }() // reading: rows.Err tells
	size := 0
	for rows.Next() {
		var e wire.Event
		var body, hash []byte
		if err := rows.Scan(&e.Seq, &e.At, &e.Type, &body, &hash); err != nil {
			return b, fmt.Errorf("read events from agent.db: %w", err)
		}
		size += len(body) + 256 // the envelope of one event, generously
		if size > wire.MaxEventBody-4096 {
			break
		}
		e.Body = body
		b.Events = append(b.Events, e)
		b.Head = Link{Seq: e.Seq, Hash: hash}
	}
	return b, rows.Err()
}

// Heads returns the numbers of the newest event and of the newest acknowledged.
func (s *Store) Heads(ctx context.Context) (last, acked uint64, err error) {
	var head Link
	if _, err = s.Get(ctx, headKey, &head); err == nil {
		_, err = s.Get(ctx, ackedKey, &acked)
	}
	return head.Seq, acked, err
}

// HashAt returns the hash of the chain after an event, and whether it is kept.
func (s *Store) HashAt(ctx context.Context, seq uint64) (hash []byte, kept bool, err error) {
	var head Link
	if _, err := s.Get(ctx, headKey, &head); err != nil || head.Seq == seq {
		return head.Hash, head.Hash != nil, err
	}
	err = s.db.QueryRowContext(ctx, "SELECT hash FROM outbox WHERE seq = ?", seq).Scan(&hash)
	kept, err = found(err, "read events from agent.db")
	return hash, kept, s.note(err)
}

// Bounds returns where the host's events stand.
func (s *Store) Bounds(ctx context.Context) (o agent.Outbox, err error) {
	if o.Last, o.Acked, err = s.Heads(ctx); err != nil {
		return o, err
	}
	var seq sql.NullInt64
	err = s.db.QueryRowContext(ctx, "SELECT min(seq) FROM outbox").Scan(&seq)
	o.Oldest = uint64(seq.Int64)
	return o, err
}

// Newest returns the latest instant of an event, 0 if there is none.
func (s *Store) Newest(ctx context.Context) (clock.Instant, error) {
	var at sql.NullInt64
	err := s.db.QueryRowContext(ctx, "SELECT max(at) FROM outbox").Scan(&at)
	return clock.Instant(at.Int64), err
}

// Ack records what the server holds. It may go back: a server that lost its
// newest records is sent them again.
func (s *Store) Ack(ctx context.Context, seq uint64) error {
	return s.Tx(ctx, func(tx *sql.Tx) error { return Put(ctx, tx, ackedKey, seq) })
}

// Prune removes acknowledged events that need not be kept any more: those that are too
// old, and those before the newest ones that fill the bound of bytes.
func (s *Store) Prune(ctx context.Context, now clock.Instant) error {
	const prune = `DELETE FROM outbox WHERE seq <= ? AND (at < ? OR seq <= (SELECT coalesce(max(seq), 0) FROM
		(SELECT seq, sum(length(body) + length(type) + length(hash)) OVER (ORDER BY seq DESC) AS size FROM outbox) WHERE size > ?))`
	_, acked, err := s.Heads(ctx)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, prune, acked, now.Add(-agent.RetainFor), s.retain); err != nil {
		return fmt.Errorf("prune events: %w", err)
	}
	return nil
}
