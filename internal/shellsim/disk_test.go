package shellsim

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/steadyfleet/steady/internal/agent/state"
)

// errKilled is what a process that was killed gets from its disk, so that nothing
// that it still does is kept.
var errKilled = fmt.Errorf("the process was killed: %w", syscall.EIO)

// How an access to a disk goes wrong.
const (
	killBefore = iota // the process dies, and what it was writing is lost
	killAfter         // it dies once that is durable
	failBefore        // the disk fails before
	failAfter         // the disk fails once it is durable: nobody is told that it is
	noRoom            // there is no room this once
	diskKinds
)

var diskWords = [...]string{"killed before a commit", "killed after a commit", "disk failed before a commit", "disk failed after a commit", "disk full"}

// driverName is the agents' database driver with faults.
const driverName = "sqlite-with-faults"

var disks sync.Map // *disk by its state folder

func init() { sql.Register(driverName, faultyDriver{}) }

type faultyDriver struct{}

// Open implements driver.Driver.
func (faultyDriver) Open(dsn string) (driver.Conn, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, err
	}
	d, ok := disks.Load(filepath.Dir(path))
	if !ok {
		return nil, fmt.Errorf("no disk was made for %s", path)
	}
	plain, err := sql.Open(state.Driver, dsn)
	if err != nil {
		return nil, err
	}
	c, err := plain.Driver().Open(dsn)
	if err := errors.Join(err, plain.Close()); err != nil {
		return nil, err
	}
	return &diskConn{c.(sqliteConn), d.(*disk)}, nil
}

// sqliteConn is all that package database/sql asks of the embedded engine.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type diskConn struct {
	sqliteConn
	d *disk
}

// BeginTx implements driver.ConnBeginTx.
func (c *diskConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.d.err(); err != nil {
		return nil, err
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &diskTx{tx, c.d}, nil
}

// QueryContext implements driver.QueryerContext.
func (c *diskConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.d.err(); err != nil {
		return nil, err
	}
	return c.sqliteConn.QueryContext(ctx, q, args)
}

// ExecContext implements driver.ExecerContext.
func (c *diskConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.d.err(); err != nil {
		return nil, err
	}
	return c.sqliteConn.ExecContext(ctx, q, args)
}

type diskTx struct {
	driver.Tx
	d *disk
}

// Commit implements driver.Tx.
func (t *diskTx) Commit() error { return t.d.commit(t.Tx) }

// disk is below one host's state folder.
type disk struct {
	f    *faults
	name string
	dir  string

	mu      sync.Mutex
	life    int
	commits int
	at, how int // the commit that goes wrong, and how; 0 is none
	dead    error
	image   map[string][]byte // what was on it when the process was killed
	died    func()
}

func newDisk(f *faults, name, dir string) *disk {
	d := &disk{f: f, name: name, dir: dir}
	disks.Store(dir, d)
	return d
}

// begin is the start of a process. Died is called when a kill was drawn.
func (d *disk) begin(died func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	d.commits, d.dead, d.died, d.at, d.image = 0, nil, died, 0, nil
	if r := d.f.at("disk of "+d.name, d.life); d.f.on() && r.IntN(3) > 0 {
		d.at, d.how = 1+r.IntN(60), r.IntN(diskKinds)
	}
}

func (d *disk) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *disk) commit(tx driver.Tx) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return errors.Join(d.dead, tx.Rollback())
	}
	d.commits++
	if d.commits != d.at || !d.f.on() {
		return tx.Commit()
	}
	d.f.count("host: " + diskWords[d.how])
	var err error
	if d.how == killAfter || d.how == failAfter {
		err = tx.Commit()
	} else {
		err = tx.Rollback()
	}
	switch d.how {
	case noRoom:
		return errors.Join(syscall.ENOSPC, err)
	case killBefore, killAfter:
		d.killLocked()
		d.died()
	default:
		d.dead = syscall.EIO
	}
	return errors.Join(d.dead, err)
}

// kill ends the process: from here on it keeps nothing.
func (d *disk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead == nil {
		d.killLocked()
	}
}

func (d *disk) killLocked() {
	d.dead = errKilled
	d.image = readImage(d.dir, "agent.db", "agent.db-wal")
}

// end comes when the process let go of its files: they are again as they were when
// it was killed, with what a torn write may leave behind the end of the journal.
func (d *disk) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	image := d.image
	d.image = nil
	if image == nil {
		return nil
	}
	if r := d.f.at("torn write of "+d.name, d.life); d.f.on() && r.IntN(3) == 0 && len(image["agent.db-wal"]) > 0 {
		d.f.count("host: torn write at the end of the journal")
		image["agent.db-wal"] = append(image["agent.db-wal"], garbage(r.IntN(6000))...)
	}
	return writeImage(d.dir, image)
}

// garbage is bytes that were never written whole.
func garbage(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + n)
	}
	return b
}

func readImage(dir string, names ...string) map[string][]byte {
	image := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			image[name] = b
		}
	}
	return image
}

// writeImage has a database's files be those of the image. Its index of the journal
// is made again.
func writeImage(dir string, image map[string][]byte) error {
	var errs []error
	for _, base := range []string{"agent.db", "log.db"} {
		if image[base] == nil {
			continue
		}
		for _, end := range []string{"-shm", "-wal"} {
			if err := os.Remove(filepath.Join(dir, base+end)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	for name, b := range image { // order-free: files of their own
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return errors.Join(errs...)
}
