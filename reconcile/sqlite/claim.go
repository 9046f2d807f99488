package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/reconcile"
)

var _ reconcile.Claimer = (*Store)(nil)

// claimSuffix is what the lock file next to a database is called by.
const claimSuffix = "-controller"

// inMemory has the databases without a file that a controller of this process runs on.
var inMemory sync.Map // of *sql.DB

// Claim implements reconcile.Claimer, with a lock on a file next to the database, named as it is
// with "-controller" behind. The system frees it when the process ends, however it ends; the file
// stays, and says which process had it. A database in memory is claimed within the process. On
// systems without flock every database is.
func (s *Store) Claim() (release func(), err error) {
	path, err := s.file()
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the file of the database: %w", err)
	case path == "":
		return claimWithin(s.db)
	}
	release, err = lockFile(path + claimSuffix)
	if errors.Is(err, reconcile.ErrStoreInUse) {
		holder, _ := os.ReadFile(path + claimSuffix) // for the message
		return nil, fmt.Errorf("%s, process %s: %w", path, strings.TrimSpace(string(holder)), err)
	}
	return release, err
}

// file is the path of the database; empty for one in memory.
func (s *Store) file() (path string, err error) {
	row := s.db.QueryRowContext(context.Background(), `SELECT file FROM pragma_database_list WHERE name = 'main'`)
	var name sql.NullString
	if err := row.Scan(&name); err != nil || name.String == "" {
		return "", err
	}
	return filepath.EvalSymlinks(name.String)
}

func claimWithin(key any) (release func(), err error) {
	if _, taken := inMemory.LoadOrStore(key, true); taken {
		return nil, reconcile.ErrStoreInUse
	}
	return func() { inMemory.Delete(key) }, nil
}
