package lockfile

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
)

func TestOneHolderAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		first, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Take(path); !errors.Is(err, ErrHeld) {
			t.Fatalf("a second holder: %v", err)
		}
		taken := make(chan error)
		go func() {
			second, err := Take(path)
			if err == nil {
				err = second.Release()
			}
			taken <- err
		}()
		synctest.Wait() // it was refused and tries again
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		if err := <-taken; err != nil {
			t.Fatalf("after the first let go: %v", err)
		}
	})
}
