package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
)

func embeddedEngine(t *testing.T) engine {
	root := t.TempDir()
	return engine{
		open: func(name string) (store.Store, error) {
			o := embedded.Options{FlushEvery: 20} // so that flushes happen in every state
			st, err := embedded.Open(t.Context(), filepath.Join(root, name), o)
			if err != nil {
				return nil, err // not a typed nil
			}
			return st, nil
		},
		damageBlob: func(name string) error { return flip(filepath.Join(root, name, "blobs", "*", "*")) },
		damageSnapshot: func(name string, seq uint64) error {
			return flip(filepath.Join(root, name, "snapshots", fmt.Sprintf("%020d-*", seq)))
		},
		damageIndex: damages(root,
			`UPDATE about SET rest = x'ff' WHERE kind = 'host' AND name = 'a'`,
			`UPDATE about SET rest = x'01'`,
			`UPDATE about SET name = 'c' WHERE name = 'b'`,
			`DELETE FROM about WHERE kind = 'rollout'`,
			`DELETE FROM about`, `DELETE FROM derived`, `DROP TABLE about`, `DROP TABLE derived`,
			`UPDATE derived SET mark = mark + 7`, `UPDATE derived SET mark = 10`,
		),
	}
}

// damages are ways to damage a store by a statement each.
func damages(root string, statements ...string) (out []func(string) error) {
	for _, statement := range statements {
		out = append(out, func(name string) error {
			db, err := sql.Open("sqlite", filepath.Join(root, name, "log.db"))
			if err != nil {
				return err
			}
			_, err = db.Exec(statement)
			return errors.Join(err, db.Close())
		})
	}
	return out
}

// flip changes one bit of the one file that matches.
func flip(pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		return fmt.Errorf("%s matches %v, %w", pattern, paths, err)
	}
	b, err := os.ReadFile(paths[0])
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 0x10
	return os.WriteFile(paths[0], b, 0o600)
}
