// Package embedded is the embedded engine of the store: one directory, one
// process that leads, nothing to install.
//
//	DIR/log.db       log, head, leases, index of snapshots (and -wal, -shm)
//	DIR/anchor       the end of the log that was acknowledged last
//	DIR/snapshots/   bodies of snapshots, <seq>-<digest>
//	DIR/blobs/       <2 hex>/<64 hex>
//	DIR/tmp/         files on their way
//
// The database is in WAL mode with synchronous=FULL: a commit returns when the
// WAL is synced. What a commit made the end of the log is then written to the anchor and
// synced, before anybody is told: SQLite drops a damaged end of its WAL without a word. One connection writes, through the driver itself; a few others
// read. Checkpoints are explicit, because SQLite ignores the errors of
// automatic ones, and a failed fsync must end the process.
//
// Blobs and bodies of snapshots are files and not rows: they are large and
// never change, so a row would write them twice (WAL and database) ahead of
// every waiting append, and make the database slow to back up. Each is written
// to DIR/tmp, synced, renamed, and its directory synced.
//
// A second process may open the same directory. It reads at once, and fences
// the first when it acquires the lease.
package embedded

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// Options of Open. The zero value is right for a server.
type Options struct {
	// MaxBytes bounds log.db, 0 for no bound; beyond it appends are ErrFull.
	// It holds for this handle and is rounded to pages of 4096 bytes.
	MaxBytes int64
	// Readers is how many connections read, 0 for 4.
	Readers int
	// FlushEvery is after how many events, at least, what is derived of the log is
	// written down again, 0 for 200,000. Opening a store reads at most about twice
	// as many events.
	FlushEvery uint64
}

const (
	dbFile       = "log.db"
	busyTimeout  = 5 * time.Second
	pageSize     = 4096
	pollInterval = 500 * time.Millisecond
	staleTmp     = 24 * time.Hour
)

// Store implements store.Store on a directory.
type Store struct {
	dir     string
	dbDir   string // of log.db: dir, or that of a copy
	readers *sql.DB
	limit   int64 // bytes of log.db
	broken  atomic.Pointer[store.FatalError]
	ended   chan struct{} // closed when broken is set

	// calls is held for reading by every call and for writing by Close.
	calls  sync.RWMutex
	closed bool
	done   chan struct{}

	mu     sync.Mutex // guards w, anchor, pages and rest
	w      *writer
	anchor anchor
	pages  int         // upper estimate of WAL frames since the last checkpoint
	rest   *time.Timer // moves them; nil while there are none

	setBack atomic.Pointer[store.SetBack]

	derivedMu  sync.Mutex // after mu
	derived    derived
	flushEvery uint64

	snapMu sync.Mutex   // one SaveSnapshot at a time
	blobMu sync.RWMutex // held to remove a blob, and for reading to put one

	tipMu   sync.Mutex
	tip     store.Head // newest head that this handle committed
	changed chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open opens the store in dir, which it makes if need be, brings its schema up
// to date, checks that its head is that of its last record, and compares it with what
// was acknowledged: see SetBack. It does not acquire the lease.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	s := newStore(dir, o)
	for _, d := range []string{dir, s.blobDir(), s.snapshotDir(), s.tmpDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	if err := s.cleanTmp(time.Now().Add(-staleTmp)); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s.open(ctx, o)
}

func newStore(dir string, o Options) *Store {
	return &Store{dir: dir, dbDir: dir, limit: o.MaxBytes, flushEvery: cmp.Or(o.FlushEvery, 200_000), done: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{})}
}

// open opens the database of a store whose folders are there.
func (s *Store) open(ctx context.Context, o Options) (_ *Store, err error) {
	dir := s.dbDir
	if err := s.migrate(ctx, false); err != nil {
		return nil, s.fail("open store "+dir, err)
	}
	if s.w, err = openWriter(ctx, s.dsn(o)); err != nil {
		return nil, s.fail("open store "+dir, err)
	}
	if s.readers, err = sql.Open("sqlite", s.dsn(o, "query_only(1)", readerCacheSize)); err != nil {
		return nil, errors.Join(err, s.w.close())
	}
	n := cmp.Or(o.Readers, 4)
	s.readers.SetMaxOpenConns(n)
	s.readers.SetMaxIdleConns(n)
	if err := s.checkHead(ctx); err != nil {
		return nil, errors.Join(err, s.readers.Close(), s.w.close())
	}
	return s, nil
}

// Page caches, in KiB: the writer's holds the inner pages of the indexes, which
// appends hit at random. Readers share the kernel's cache, and each would fill
// its own with pages of the log that nobody asks for again.
const (
	cacheSize       = "cache_size(-4096)"
	readerCacheSize = "cache_size(-1024)"
)

// dsn returns the driver's name of the database with its settings.
func (s *Store) dsn(o Options, more ...string) string {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"wal_autocheckpoint(0)", cacheSize, "temp_store(MEMORY)",
	}
	if o.MaxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", max(1, o.MaxBytes/pageSize)))
	}
	q := url.Values{
		"_txlock": {"immediate"}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"},
		"_pragma": append(pragmas, more...),
	}
	path := s.logFile()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	u := url.URL{Path: path}
	return "file:" + u.EscapedPath() + "?" + q.Encode()
}

//go:embed migrations/0001_log.sql
var logSchema string

//go:embed migrations/0002_pruned.sql
var prunedSchema string

var schema = []disk.Migration{{Name: "0001_log.sql", SQL: logSchema}, {Name: "0002_pruned.sql", SQL: prunedSchema}}

// migrate brings the schema up to date. Its second step is for a log that is, or is about to
// be, pruned.
func (s *Store) migrate(ctx context.Context, pruned bool) error {
	db, err := sql.Open("sqlite", s.dsn(Options{}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil) // immediate: two processes take turns
	if err == nil {
		steps := schema
		_, err = tx.ExecContext(ctx, prunedTables)
		if err == nil && !pruned {
			err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM pruned`).Scan(&pruned)
		}
		if !pruned {
			steps = schema[:1]
		}
		if err == nil {
			err = disk.Migrate(ctx, tx, steps)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, anchorTable+derivedTables)
		}
		if err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err == nil {
		// Closing would do this as well, but hide a failed sync.
		_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
	return errors.Join(err, db.Close())
}

// checkHead refuses a log whose end is not where its head says, and finds out whether it
// was set back (F10). Another process may append meanwhile: head and last record are read
// by one statement, and the anchor and snapshots, which follow their records, before it.
func (s *Store) checkHead(ctx context.Context) error {
	const op = "open store"
	bodies, err := s.bodies()
	if err == nil {
		err = s.readAnchor(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	const query = `SELECT h.seq, h.term, h.hash, coalesce(e.seq, 0), coalesce(e.term, 0), coalesce(e.hash, zeroblob(32))
		FROM head h LEFT JOIN (SELECT seq, term, hash FROM events ORDER BY seq DESC LIMIT 1) e`
	var seq, term, endSeq, endTerm int64
	var hash, endHash []byte
	if err := s.readers.QueryRowContext(ctx, query).Scan(&seq, &term, &hash, &endSeq, &endTerm, &endHash); err != nil {
		return s.fail(op, err)
	}
	head, end := headOf(seq, term, hash), headOf(endSeq, endTerm, endHash)
	if end.Seq != head.Seq || end.Hash != head.Hash || end.Term > head.Term {
		return fmt.Errorf("%s: %w", op, &store.ChainError{Seq: head.Seq, Reason: fmt.Sprintf(
			"the head says sequence %d of term %d, the last record is %d of term %d", head.Seq, head.Term, end.Seq, end.Term)})
	}
	if err := s.compare(ctx, head, bodies); err != nil {
		return s.fail(op, err)
	}
	// By now the WAL exists. SQLite syncs the directory for it at the first
	// commit, but ignores an error, so that it must be durable before.
	if err := errors.Join(disk.SyncDir(s.dir), disk.SyncDir(filepath.Dir(s.dir))); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	s.advance(head)
	return nil
}

// enter begins a call; the caller must leave with s.calls.RUnlock unless it is
// refused.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.alive(); err != nil {
		return err
	}
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return store.ErrClosed
	}
	return nil
}

// Close ends waits with ErrClosed, lets other calls finish, and moves the WAL
// into the database unless the handle is broken. Closing again does nothing.
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	s.stopRest()
	errs := []error{s.readers.Close()}
	if s.alive() == nil {
		if _, err := s.w.exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			errs = append(errs, s.fail("close store", err))
		}
	}
	if err := errors.Join(append(errs, s.w.close(), s.anchor.close(), s.removeCopy())...); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

func (s *Store) logFile() string     { return filepath.Join(s.dbDir, dbFile) }
func (s *Store) tmpDir() string      { return filepath.Join(s.dir, "tmp") }
func (s *Store) blobDir() string     { return filepath.Join(s.dir, "blobs") }
func (s *Store) snapshotDir() string { return filepath.Join(s.dir, "snapshots") }

// cleanTmp removes what earlier processes left. Younger files may be of another
// process that is alive.
func (s *Store) cleanTmp(before time.Time) error {
	entries, err := os.ReadDir(s.tmpDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.ModTime().Before(before) && strings.Contains(e.Name(), "-") {
			if err := os.Remove(filepath.Join(s.tmpDir(), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
