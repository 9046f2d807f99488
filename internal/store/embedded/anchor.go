package embedded

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// anchor is the end of the log that was acknowledged last, outside of the database. Only
// who has the lease writes it: after the commit, so that it is never ahead of a log that is
// whole. Where two processes have the store open, the one that was fenced may write it once
// more; it names an older end then, and never a wrong one.
type anchor struct {
	file *disk.Anchor
	last store.Head // zero when nothing is known
	// noted: the database says that there is an anchor.
	noted bool
}

// anchorTable has a row once there is an anchor, so that one that is gone can be told from
// one that was never written, as 0.1.0 did not. It is no migration: 0.1.0 refuses a log with another one.
const anchorTable = `
	CREATE TABLE IF NOT EXISTS anchored (id INTEGER PRIMARY KEY CHECK (id = 1)) STRICT;`

func (a *anchor) close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

func encodeHead(h store.Head) []byte {
	b := binary.BigEndian.AppendUint64(nil, h.Seq)
	b = binary.BigEndian.AppendUint64(b, h.Term)
	return append(b, h.Hash[:]...)
}

func decodeHead(b []byte) (h store.Head, ok bool) {
	if len(b) != 8+8+len(h.Hash) {
		return h, false
	}
	h.Seq, h.Term = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	copy(h.Hash[:], b[16:])
	return h, true
}

func (s *Store) anchorFile() string { return filepath.Join(s.dir, "anchor") }

// readAnchor reads the anchor, and before it whether there has to be one: whoever leads meanwhile
// writes the file first.
func (s *Store) readAnchor(ctx context.Context) error {
	if err := s.readers.QueryRowContext(ctx, `SELECT count(*) > 0 FROM anchored`).Scan(&s.anchor.noted); err != nil {
		return err
	}
	return s.reopenAnchor()
}

// Another process may be in the middle of writing the anchor: one that is damaged is read again so many
// times, so long apart.
const (
	anchorReads = 50
	anchorPause = 2 * time.Millisecond
)

// reopenAnchor reads the anchor as whoever had the lease before left it.
func (s *Store) reopenAnchor() error {
	var file *disk.Anchor
	for try := range anchorReads {
		if try > 0 {
			time.Sleep(anchorPause)
		}
		var err error
		if file, err = disk.OpenAnchor(s.anchorFile()); err != nil {
			return err
		}
		if _, state := file.Last(); state != disk.AnchorDamaged {
			break
		}
	}
	err := s.anchor.close()
	s.anchor.file = file
	if raw, _ := file.Last(); raw != nil {
		s.anchor.last, _ = decodeHead(raw)
	}
	return err
}

// compare holds the log against what was acknowledged.
func (s *Store) compare(ctx context.Context, head store.Head, bodies []body) error {
	last, reason, err := s.behind(ctx, head)
	if err != nil {
		return err
	}
	for _, b := range bodies {
		if b.seq > head.Seq && reason == "" {
			last, reason = store.Head{Seq: b.seq}, fmt.Sprintf("the log ends at record %d, but there is a snapshot of record %d", head.Seq, b.seq)
		}
	}
	if reason != "" {
		s.setBack.Store(&store.SetBack{Log: head, Acknowledged: last, Reason: reason})
	}
	return nil
}

// behind returns the anchor's head, and the reason if the log may lack what was acknowledged.
func (s *Store) behind(ctx context.Context, head store.Head) (last store.Head, reason string, err error) {
	raw, state := s.anchor.file.Last()
	last, known := decodeHead(raw)
	ends := fmt.Sprintf("the log ends at record %d, ", head.Seq)
	switch {
	case state == disk.AnchorAbsent && s.anchor.noted:
		return last, ends + "and the file " + s.anchorFile() + ", which says how far it was acknowledged, is gone", nil
	case state == disk.AnchorAbsent && head.Seq == 0: // the first start, or nothing is left
		held, err := s.holdsBlobs()
		if held {
			reason = "the log is empty, but " + s.blobDir() + " has the documents of one"
		}
		return last, reason, err
	case state == disk.AnchorAbsent: // a log that 0.1.0 wrote
		return last, "", nil
	case !known:
		return last, ends + "and the file " + s.anchorFile() + ", which says how far it was acknowledged, is damaged", nil
	case head.Seq < last.Seq:
		return last, ends + fmt.Sprintf("but record %d was acknowledged", last.Seq), nil
	case state == disk.AnchorDamaged && head.Seq == last.Seq:
		return last, ends + "and the file " + s.anchorFile() + " is damaged: it may have said that one more was acknowledged", nil
	}
	same, err := s.hasHash(ctx, last)
	if pruned := (*store.PrunedError)(nil); errors.As(err, &pruned) {
		return last, fmt.Sprintf("record %d, the last that is known to be acknowledged, was pruned: the log and %s are of different days", last.Seq, s.anchorFile()), nil
	}
	if err == nil && !same {
		reason = fmt.Sprintf("record %d of the log is not the one that was acknowledged: it is another log, or one that went on without what was lost", last.Seq)
	}
	return last, reason, err
}

// hasHash reports whether the record at a head has its hash. The log is at least as long.
func (s *Store) hasHash(ctx context.Context, h store.Head) (bool, error) {
	if h.Seq == 0 {
		return true, nil
	}
	var hash []byte
	err := s.readers.QueryRowContext(ctx, `SELECT hash FROM events WHERE seq = ?`, int64(h.Seq)).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		base, err := s.base(ctx)
		if err == nil && base.Seq != h.Seq {
			err = s.gone(ctx, h.Seq-1)
		}
		return err == nil && base.Hash == h.Hash, err
	}
	return err == nil && string(hash) == string(h.Hash[:]), err
}

func (s *Store) holdsBlobs() (bool, error) {
	dirs, err := os.ReadDir(s.blobDir())
	if err != nil {
		return false, err
	}
	for _, d := range dirs {
		files, err := os.ReadDir(filepath.Join(s.blobDir(), d.Name()))
		if err != nil || len(files) > 0 {
			return true, err
		}
	}
	return false, nil
}

// SetBack implements store.Log.
func (s *Store) SetBack() *store.SetBack { return s.setBack.Load() }

// acknowledge makes the end of the log durable outside of the database, after its commit;
// with ends, a log that was set back counts as whole from then on. The caller has s.mu.
// After a failure nobody knows what counts as acknowledged: the handle ends.
func (s *Store) acknowledge(op string, head store.Head, ends bool) error {
	err := s.anchor.file.Write(encodeHead(head))
	if err == nil && ends {
		err = s.removeBodies(head.Seq)
	}
	if err != nil {
		return s.kill(op, err)
	}
	s.anchor.last = head
	if ends {
		s.setBack.Store(nil)
	}
	if s.anchor.noted {
		return nil
	}
	// After the file, and moved out of the WAL. Without room the next commit tries again.
	if _, err := s.w.exec(`INSERT OR IGNORE INTO anchored (id) VALUES (1)`); err == nil {
		s.anchor.noted = true
		s.checkpoint()
	} else if err = s.fail(op, err); errors.Is(err, store.ErrBroken) {
		return err
	}
	return s.alive()
}

// removeBodies removes the snapshots of records that the log lacks.
func (s *Store) removeBodies(after uint64) error {
	bodies, err := s.bodies()
	if err != nil {
		return err
	}
	for _, b := range bodies {
		if b.seq > after {
			if err := os.Remove(b.path); err != nil {
				return err
			}
		}
	}
	return nil
}
