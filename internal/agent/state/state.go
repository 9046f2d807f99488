// Package state is what an agent remembers: one SQLite file with the events that it
// reports and the time that it keeps, content-addressed blobs and kept files beside it,
// and a lock so that two agents never share a folder. It decides nothing.
//
// The first error of the database is final: a caller that sees one ends the
// process, because what it believes to be durable may not be.
package state

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/disk"
)

// ErrLocked says that another process has the folder.
var ErrLocked = errors.New("another agent uses this state folder; stop it first")

// Store is an open state folder.
type Store struct {
	dir    string
	db     *sql.DB
	lock   *disk.Lock
	light  bool
	anchor anchor
	margin int64 // what stays free of the disk
	retain int64 // bytes of acknowledged events that stay
	broken atomic.Pointer[error]
	ended  chan struct{} // closed when broken is set
}

// Options of Open.
type Options struct {
	// Light does not wait for the disk; for benchmarks.
	Light bool
	// Driver is the driver of package database/sql; the default is Driver.
	Driver string
	// Migrate adds the tables of others to the same database.
	Migrate func(ctx context.Context, db *sql.DB, tx *sql.Tx) error
}

// Driver is the name of the embedded engine's driver.
const Driver = "sqlite"

var schema = []disk.Migration{{Name: "0001_state", SQL: `
CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (
	seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL);
CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL, prev TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE folders (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE steps (name TEXT PRIMARY KEY, run TEXT NOT NULL, done INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE baselines (container TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE refused (ref TEXT PRIMARY KEY, detail TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE reported (ref TEXT PRIMARY KEY, state TEXT NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID;
`}}

// Open takes the folder, which it creates if needed, and opens the database.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	for _, d := range []string{dir, filepath.Join(dir, "blobs"), filepath.Join(dir, "kept"), filepath.Join(dir, "keys")} {
		if err := disk.Private(d); err != nil {
			return nil, fmt.Errorf("the state folder: %w", err)
		}
	}
	if err := disk.Unversioned(dir, "*"); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	lock, err := disk.TryLock(filepath.Join(dir, "lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, lock: lock, light: o.Light, margin: Margin, retain: agent.RetainBytes, ended: make(chan struct{})}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "cache_size(-512)", "temp_store(MEMORY)",
	}}
	if o.Light {
		q["_pragma"][1] = "synchronous(OFF)"
	}
	path := filepath.Join(s.dir, "agent.db")
	db, err := sql.Open(cmp.Or(o.Driver, Driver), "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	// One connection: writers queue here instead of polling a lock.
	db.SetMaxOpenConns(1)
	s.db = db
	return s.Tx(ctx, func(tx *sql.Tx) error {
		err := disk.Migrate(ctx, tx, schema)
		if errors.Is(err, disk.ErrDamaged) {
			return fmt.Errorf("agent.db: %w; move %s away and enrol the host again with a new token", err, s.dir)
		}
		if err != nil {
			return fmt.Errorf("agent.db: %w", err)
		}
		if o.Migrate == nil {
			return nil
		}
		return o.Migrate(ctx, db, tx)
	})
}

// Close closes the database and releases the folder.
func (s *Store) Close() error {
	var errs []error
	if s.anchor.file != nil {
		errs = append(errs, s.anchor.file.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(append(errs, s.lock.Release())...)
}

// Dir is the state folder.
func (s *Store) Dir() string { return s.dir }

// KeyPath names a key file in the folder.
func (s *Store) KeyPath(name string) string { return filepath.Join(s.dir, "keys", name) }

// Tx runs f in one durable transaction. f must use tx alone: there is only one
// connection.
func (s *Store) Tx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.note(fmt.Errorf("begin in agent.db: %w", err))
	}
	if err := f(tx); err != nil {
		return s.note(errors.Join(err, ignoreDone(tx.Rollback())))
	}
	if err := tx.Commit(); err != nil {
		return s.note(fmt.Errorf("commit to agent.db: %w", err))
	}
	return s.Seal(ctx)
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// Forget removes all that the folder remembers of an enrolment. What the agent did to the
// host's files, and how its containers looked when it made them, stays.
func Forget(ctx context.Context, tx *sql.Tx) error {
	for _, table := range []string{"kv", "outbox", "steps", "refused", "reported"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			return fmt.Errorf("forget the former enrolment in agent.db: %w", err)
		}
	}
	return nil
}

// querier is a transaction or the database.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Put stores v as JSON under a key.
func Put(ctx context.Context, tx *sql.Tx, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return put(ctx, tx, key, raw)
}

// PutDoc is Put for an object that decisions rest on: a checksum inside of it, which
// readers that do not know it pass over, tells a bit that the disk turned.
func PutDoc(ctx context.Context, tx *sql.Tx, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return put(ctx, tx, key, withSum(raw))
}

func put(ctx context.Context, tx *sql.Tx, key string, raw []byte) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, raw); err != nil {
		return fmt.Errorf("write %s to agent.db: %w", key, err)
	}
	return nil
}

// Get reads what Put stored. It reports whether there was anything.
func (s *Store) Get(ctx context.Context, key string, v any) (bool, error) {
	there, err := get(ctx, s.db, key, v)
	return there, s.note(err)
}

func get(ctx context.Context, q querier, key string, v any) (bool, error) {
	var raw []byte
	err := q.QueryRowContext(ctx, "SELECT value FROM kv WHERE key = ?", key).Scan(&raw)
	if ok, err := found(err, "read "+key+" from agent.db"); !ok {
		return false, err
	}
	raw, err = withoutSum(raw)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return false, fmt.Errorf("%s in agent.db is not what this version wrote: %w", key, err)
	}
	return true, nil
}

// Drop removes the keys with the prefix that keep does not name.
func Drop(ctx context.Context, tx *sql.Tx, prefix string, keep ...string) error {
	rows, err := tx.QueryContext(ctx, "SELECT key FROM kv WHERE key >= ? AND key < ?", prefix, prefix+"~")
	if err != nil {
		return fmt.Errorf("list %s in agent.db: %w", prefix, err)
	}
	var drop []string
	for rows.Next() {
		var k string
		if err := rows.Scan(&k); err != nil {
			return errors.Join(err, rows.Close())
		}
		drop = append(drop, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("list %s in agent.db: %w", prefix, err)
	}
	kept := map[string]bool{}
	for _, k := range keep {
		kept[prefix+k] = true
	}
	for _, k := range drop {
		if kept[k] {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM kv WHERE key = ?", k); err != nil {
			return fmt.Errorf("remove %s from agent.db: %w", k, err)
		}
	}
	return nil
}
