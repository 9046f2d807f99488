package shellsim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// serverStore is one server's hold on the store, with faults at the port. What it
// makes durable the ledger sees.
type serverStore struct {
	store.Store
	f      *faults
	ledger *ledger
	dir    string
	life   int
	died   func()
	ended  chan struct{}

	mu                    sync.Mutex
	appends, blobs, saves int
	at, how               int // the append that goes wrong for good
	dead                  error
	image                 map[string][]byte
}

func newServerStore(s store.Store, f *faults, l *ledger, dir string, life int, died func()) *serverStore {
	fs := &serverStore{Store: s, f: f, ledger: l, dir: dir, life: life, died: died, ended: make(chan struct{})}
	if r := f.at("store", life); f.on() && r.IntN(2) == 0 {
		fs.at, fs.how = 1+r.IntN(80), r.IntN(noRoom)
	}
	return fs
}

// Append implements store.Log.
func (s *serverStore) Append(ctx context.Context, expect, term uint64, entries []event.Entry) (store.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return store.Head{}, s.dead
	}
	if len(entries) > 0 {
		s.appends++
	}
	if s.f.on() && s.appends != s.at {
		switch s.f.at(fmt.Sprintf("append of life %d", s.life), s.appends).IntN(80) {
		case 0:
			s.f.count("server: log full")
			return store.Head{}, fmt.Errorf("append: %w", store.ErrFull)
		case 1:
			s.f.count("server: log locked")
			return store.Head{}, fmt.Errorf("append: %w", store.ErrBusy)
		}
	}
	fatal := s.f.on() && s.appends == s.at && len(entries) > 0
	if fatal && (s.how == killBefore || s.how == failBefore) {
		s.endLocked()
		return store.Head{}, s.dead
	}
	head, err := s.Store.Append(ctx, expect, term, entries)
	if err != nil {
		return head, err
	}
	s.ledger.appended(expect, entries)
	if fatal {
		s.endLocked()
		return store.Head{}, s.dead
	}
	return head, nil
}

// endLocked ends the process as was drawn.
func (s *serverStore) endLocked() {
	s.f.count("server: " + diskWords[s.how])
	s.breakLocked()
	if s.how == killBefore || s.how == killAfter {
		s.image = readImage(s.dir, "log.db", "log.db-wal", "anchor")
		s.died()
	}
}

func (s *serverStore) breakLocked() {
	s.dead = &store.FatalError{Op: "append", Err: errKilled}
	close(s.ended)
}

// kill ends the process: from here on it keeps nothing.
func (s *serverStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		s.image = readImage(s.dir, "log.db", "log.db-wal", "anchor")
		s.breakLocked()
	}
}

// backup is a copy of a log, and how much of it was durable then.
type backup struct {
	image     map[string][]byte
	snapshots map[string]bool
	blobs     [][]byte
	entries   int
}

// backup copies the log while the server runs.
func (s *serverStore) backup() (*backup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return nil, s.dead
	}
	b := &backup{image: readImage(s.dir, "log.db", "log.db-wal", "anchor"), snapshots: map[string]bool{}}
	for d, err := range s.Store.Blobs(context.Background()) {
		if err != nil {
			return nil, err
		}
		raw, err := s.Store.Blob(context.Background(), d)
		if err != nil {
			return nil, err
		}
		b.blobs = append(b.blobs, raw)
	}
	files, err := os.ReadDir(filepath.Join(s.dir, "snapshots"))
	for _, f := range files {
		b.snapshots[f.Name()] = true
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	b.entries = len(s.ledger.entries)
	return b, err
}

// restore has the files be those of a backup once the process let go of them.
func (s *serverStore) restore(b *backup) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := os.ReadDir(filepath.Join(s.dir, "snapshots"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !b.snapshots[f.Name()] {
			if err := os.Remove(filepath.Join(s.dir, "snapshots", f.Name())); err != nil {
				return err
			}
		}
	}
	for _, raw := range b.blobs { // of which some may be gone since
		d := digest.Of(raw).Hex()
		path := filepath.Join(s.dir, "blobs", d[:2], d)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600)); err != nil {
			return err
		}
	}
	s.ledger.restore(b.entries)
	return writeImage(s.dir, b.image)
}

// end comes when the process let go of its files.
func (s *serverStore) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.image == nil {
		return nil
	}
	if r := s.f.at("torn write of the server", s.life); s.f.on() && r.IntN(3) == 0 && len(s.image["log.db-wal"]) > 0 {
		s.f.count("server: torn write at the end of the journal")
		s.image["log.db-wal"] = append(s.image["log.db-wal"], garbage(r.IntN(6000))...)
	}
	return writeImage(s.dir, s.image)
}

// PutBlob implements store.Blobs.
func (s *serverStore) PutBlob(ctx context.Context, b []byte) (digest.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return "", s.dead
	}
	if s.blobs++; s.f.on() && s.f.at(fmt.Sprintf("blob of life %d", s.life), s.blobs).IntN(40) == 0 {
		s.f.count("server: no room for a document")
		return "", fmt.Errorf("put blob: %w", store.ErrFull)
	}
	return s.Store.PutBlob(ctx, b)
}

// RemoveBlob implements store.Blobs.
func (s *serverStore) RemoveBlob(ctx context.Context, d digest.Digest, before clock.Instant) (int64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return 0, false, s.dead
	}
	size, ok, err := s.Store.RemoveBlob(ctx, d, before)
	if ok {
		s.f.count("server: a blob that nothing names was removed")
	}
	return size, ok, err
}

// SaveSnapshot implements store.Snapshots.
func (s *serverStore) SaveSnapshot(ctx context.Context, snap store.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return s.dead
	}
	if s.saves++; s.f.on() && s.f.at(fmt.Sprintf("snapshot of life %d", s.life), s.saves).IntN(6) == 0 {
		s.f.count("server: no room for a snapshot")
		return fmt.Errorf("save snapshot: %w", store.ErrFull)
	}
	return s.Store.SaveSnapshot(ctx, snap)
}

// Acquire implements store.Lease.
func (s *serverStore) Acquire(ctx context.Context, holder string, at clock.Instant) (store.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return store.Head{}, s.dead
	}
	return s.Store.Acquire(ctx, holder, at)
}

// Prune implements store.Log. A kill may come between any two parts of it.
func (s *serverStore) Prune(ctx context.Context, term uint64, through store.Head) error {
	for {
		if next, err := s.pruneSome(ctx, term, through); err != nil || next == through {
			return err
		}
	}
}

func (s *serverStore) pruneSome(ctx context.Context, term uint64, through store.Head) (store.Head, error) {
	const some = 50
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return through, s.dead
	}
	base, err := s.Store.Base(ctx)
	if err == nil && through.Seq > base.Seq+some {
		var last []event.Record
		if last, err = s.Store.Read(ctx, base.Seq+some-1, 1); err == nil {
			through = store.Head{Seq: last[0].Seq, Term: last[0].Term, Hash: last[0].Hash}
		}
	}
	if err == nil {
		err = s.Store.Prune(ctx, term, through)
	}
	if err == nil {
		s.f.count("server: the log was pruned")
	}
	return through, err
}

// Broken implements store.Store.
func (s *serverStore) Broken() <-chan struct{} { return s.ended }

// Err implements store.Store.
func (s *serverStore) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// ledger is what was made durable, as the store was told to: what a server says of
// its log, and to whom, is held against it.
type ledger struct {
	mu       sync.Mutex
	entries  []event.Entry
	reported map[string]uint64          // the newest event of a host's chain, by host and incarnation
	grants   map[string]event.Granted   // by id
	claimed  map[string]map[string]bool // rollouts that hosts may act in, by host
	enrolled map[string]uint64
	accepted map[string]bool        // refs of releases
	renewed  map[string][]time.Time // when certificates were, by host
	open     map[string]time.Time   // grants that nobody claimed yet, since when
	restores int                    // from a backup
	bad      []string               // what must not be
}

func newLedger() *ledger {
	return &ledger{reported: map[string]uint64{}, grants: map[string]event.Granted{}, claimed: map[string]map[string]bool{},
		enrolled: map[string]uint64{}, accepted: map[string]bool{}, open: map[string]time.Time{}, renewed: map[string][]time.Time{}}
}

func chainOf(host string, incarnation uint64) string { return fmt.Sprintf("%s/%d", host, incarnation) }

// subject is the host that an entry is about, or empty.
func subject(e *event.Entry) string { return e.Host() }

// restore forgets what a backup does not hold. What hosts may do by claims that are
// forgotten they may still do.
func (l *ledger) restore(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, claimed := l.entries[:n:n], l.claimed
	fresh := newLedger()
	l.entries, l.reported, l.grants, l.claimed = nil, fresh.reported, fresh.grants, fresh.claimed
	l.enrolled, l.accepted, l.open = fresh.enrolled, fresh.accepted, fresh.open
	l.appendLocked(0, kept)
	l.claimed = claimed
	l.restores++
}

func (l *ledger) appended(expect uint64, entries []event.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appendLocked(expect, entries)
}

func (l *ledger) appendLocked(expect uint64, entries []event.Entry) {
	if expect != uint64(len(l.entries)) {
		l.bad = append(l.bad, fmt.Sprintf("S33: %d entries were appended behind entry %d of %d", len(entries), expect, len(l.entries)))
		return
	}
	for i := range entries {
		e := &entries[i]
		l.entries = append(l.entries, *e)
		name := subject(e)
		if e.HostSeq > 0 {
			k := chainOf(name, e.Incarnation)
			if e.HostSeq != l.reported[k]+1 {
				l.bad = append(l.bad, fmt.Sprintf("S33: event %d of %s follows event %d", e.HostSeq, k, l.reported[k]))
			}
			l.reported[k] = e.HostSeq
		}
		ev, err := event.Decode(*e)
		if err != nil {
			l.bad = append(l.bad, fmt.Sprintf("S25: %v", err))
			continue
		}
		switch ev := ev.(type) {
		case event.Granted:
			l.grants[ev.Grant] = ev
			l.open[ev.Grant] = time.Now()
		case event.GrantEnded:
			delete(l.open, ev.Grant)
		case event.GrantDeclined:
			delete(l.open, ev.Grant)
		case event.GrantClaimed:
			delete(l.open, ev.Grant)
			if l.claimed[name] == nil {
				l.claimed[name] = map[string]bool{}
			}
			l.claimed[name][l.grants[ev.Grant].Rollout] = true
		case event.CertificateRenewed:
			all := append(l.renewed[name], time.Now())
			if l.renewed[name] = all; len(all) >= 20 && time.Since(all[len(all)-20]) < time.Minute {
				l.bad = append(l.bad, fmt.Sprintf("L5: %s renews its certificate twenty times a minute", name))
			}
		case event.HostEnrolled:
			l.enrolled[name] = ev.Incarnation
		case event.ReleaseAccepted:
			l.accepted[ev.Ref] = true
		}
	}
}
