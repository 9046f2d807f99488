package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/disk"
)

// anchor says beside the database how far the host's chain of events had come, so that
// a database whose newest part is gone is known by it. It is written after each commit
// that moved the chain, and before anything follows from that.
type anchor struct {
	mu   sync.Mutex
	file *disk.Anchor // nil: none is written
	at   anchored
}

// anchored is an anchor's payload.
type anchored struct {
	incarnation, seq uint64
	hash             []byte
}

const (
	anchorFile = "anchor"
	// anchoredKey is in a database beside which an anchor was written: then one has to be there.
	anchoredKey = "anchored"
	hashSize    = 32
)

func (a anchored) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+hashSize), a.incarnation)
	return append(binary.BigEndian.AppendUint64(b, a.seq), a.hash...)
}

func decodeAnchored(b []byte) (a anchored, ok bool) {
	if len(b) != 16+hashSize {
		return a, false
	}
	return anchored{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), b[16:]}, true
}

// Anchor compares the database with the anchor of an incarnation, and keeps that up to date
// from then on. It returns why the database is not to be believed, or nil; then the
// anchor stays as it is. Its Since is not set.
func (s *Store) Anchor(ctx context.Context, incarnation uint64) (*agent.Parked, error) {
	if s.light {
		return nil, nil
	}
	file, err := disk.OpenAnchor(filepath.Join(s.dir, anchorFile))
	if err != nil {
		return nil, s.note(err)
	}
	was := false
	if _, err := s.Get(ctx, anchoredKey, &was); err != nil {
		return nil, err
	}
	raw, found := file.Last()
	at, readable := decodeAnchored(raw)
	switch {
	case found == disk.AnchorAbsent && !was: // an older agent wrote none
	case !readable:
		return &agent.Parked{Code: host.ParkedUnreadable, Detail: found.String()}, nil
	default:
		parked, err := s.behind(ctx, at, incarnation)
		if parked != nil || err != nil {
			return parked, err
		}
	}
	s.anchor.mu.Lock()
	s.anchor.file, s.anchor.at = file, anchored{incarnation: incarnation, seq: at.seq}
	fresh := at.incarnation != incarnation || found != disk.AnchorWhole
	s.anchor.mu.Unlock()
	if err := s.seal(ctx, fresh); err != nil || was {
		return nil, err
	}
	return nil, s.Tx(ctx, func(tx *sql.Tx) error { return Put(ctx, tx, anchoredKey, true) })
}

// behind says why the database is older than an anchor, or nil.
func (s *Store) behind(ctx context.Context, at anchored, incarnation uint64) (*agent.Parked, error) {
	last, _, err := s.Heads(ctx)
	if err != nil {
		return nil, err
	}
	own, kept, err := s.HashAt(ctx, at.seq)
	if err != nil {
		return nil, err
	}
	parked := &agent.Parked{Code: host.ParkedBehind}
	switch {
	case at.incarnation < incarnation: // the host enrolled again and ended before it wrote one
		return nil, nil
	case at.incarnation > incarnation:
		parked.Detail = fmt.Sprintf("the anchor is of enrolment %d of this host and agent.db of enrolment %d", at.incarnation, incarnation)
	case at.seq > last:
		parked.Detail = fmt.Sprintf("the anchor names event %d and agent.db ends at event %d", at.seq, last)
	case kept && !bytes.Equal(own, at.hash):
		parked.Detail = fmt.Sprintf("event %d is another one in agent.db than the anchor names", at.seq)
	default:
		return nil, nil
	}
	return parked, nil
}

// Seal has the anchor say how far the chain has come. It returns once that is durable,
// whoever writes it.
func (s *Store) Seal(ctx context.Context) error { return s.seal(ctx, false) }

func (s *Store) seal(ctx context.Context, again bool) error {
	a := &s.anchor
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	var head Link
	if there, err := s.Get(context.WithoutCancel(ctx), headKey, &head); err != nil || !there {
		return err
	}
	if head.Seq == a.at.seq && !again {
		return nil
	}
	next := anchored{a.at.incarnation, head.Seq, head.Hash}
	if err := a.file.Write(next.encode()); err != nil {
		return s.note(err)
	}
	a.at = next
	return nil
}

// DropAnchor removes the anchor of a folder whose host enrols again.
func (s *Store) DropAnchor() error {
	s.anchor.mu.Lock()
	s.anchor.file = nil // what is sealed from here on is of the next enrolment
	s.anchor.mu.Unlock()
	err := os.Remove(filepath.Join(s.dir, anchorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Rest writes all that is committed into the database file itself: the end of a
// write-ahead log that is lost then holds nothing.
func (s *Store) Rest(ctx context.Context) error {
	var busy, log, moved int
	if err := s.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
		return s.note(fmt.Errorf("checkpoint agent.db: %w", err))
	}
	return nil
}
