package disk

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestOneHolderAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		first := testkit.Value(TryLock(path))(t)
		if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
			t.Fatalf("a second holder: %v", err)
		}
		taken := make(chan error)
		go func() {
			second, err := TryLock(path)
			if err == nil {
				err = second.Release()
			}
			taken <- err
		}()
		synctest.Wait() // it was refused and tries again
		testkit.Must(t, first.Release())
		if err := <-taken; err != nil {
			t.Fatalf("after the first let go: %v", err)
		}
	})
}
