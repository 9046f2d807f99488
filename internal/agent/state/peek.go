package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
)

// Peek is the database of a state folder that nothing can be written to.
type Peek struct {
	DB   *sql.DB
	lock *disk.Lock
}

// OpenPeek opens the database of a folder to be read, also where its disk is full: what SQLite needs beside a log of
// writes stays in memory. No agent has the folder until Close.
func OpenPeek(dir string) (*Peek, error) {
	lock, err := disk.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	path := filepath.Join(dir, "agent.db")
	q := url.Values{"mode": {"rw"}, "_pragma": {"locking_mode(EXCLUSIVE)", "query_only(1)", "temp_store(MEMORY)"}}
	db, err := sql.Open(Driver, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), lock.Release())
	}
	db.SetMaxOpenConns(1)
	return &Peek{db, lock}, nil
}

// Get reads what Put or PutDoc stored.
func (p *Peek) Get(ctx context.Context, key string, v any) (bool, error) {
	return get(ctx, p.DB, key, v)
}

// Close releases the folder.
func (p *Peek) Close() error { return errors.Join(p.DB.Close(), p.lock.Release()) }
