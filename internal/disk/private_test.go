package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestPrivate: a folder that is made or taken is closed to others, and what is in it stays.
func TestPrivate(t *testing.T) {
	for _, mode := range []os.FileMode{0, 0o700, 0o755, 0o777, 0o710, 0o701, 0o770} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if mode != 0 {
			testkit.Must(t, os.MkdirAll(dir, 0o700))
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
			testkit.Must(t, os.Chmod(dir, mode))
		}
		testkit.Must(t, Private(dir))
		if got := testkit.Value(os.Stat(dir))(t).Mode().Perm(); got != 0o700 {
			t.Errorf("of %s it is %s", mode, got)
		}
		if _, err := os.Stat(filepath.Join(dir, "f")); (err == nil) != (mode != 0) {
			t.Errorf("of %s: %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if Private(file) == nil {
		t.Error("a file is taken for a folder")
	}
}
