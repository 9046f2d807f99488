package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/sqlite"
	"github.com/steadyfleet/steady/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	root := t.TempDir()
	storetest.Run(t, storetest.Engine{
		Open: func(name string) (store.Store, error) {
			st, err := sqlite.Open(t.Context(), filepath.Join(root, name), sqlite.Options{})
			if err != nil {
				return nil, err // not a typed nil
			}
			sqlite.FlushEvery(st, 20) // so that flushes happen in every state
			return st, nil
		},
		DamageBlob: func(name string) error { return flip(filepath.Join(root, name, "blobs", "*", "*")) },
		DamageSnapshot: func(name string, seq uint64) error {
			return flip(filepath.Join(root, name, "snapshots", fmt.Sprintf("%020d-*", seq)))
		},
	})
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
