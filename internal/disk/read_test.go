package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A pipe that nobody writes to is refused and not waited for, as is all else
// that is no regular file of the folder.
func TestReadFileReadsRegularFilesOfTheFolderAlone(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{filepath.Join(outside, "secret"): "x", filepath.Join(dir, "file"): "four"} {
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for name, target := range map[string]string{"inner": "file", "up": filepath.Join(outside, "secret"), "gone": "none"} {
		testkit.Must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	testkit.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root := testkit.Value(os.OpenRoot(dir))(t)
	defer root.Close()
	for _, name := range []string{"file", "inner"} {
		if b, err := disk.ReadFile(root, name, 4); err != nil || string(b) != "four" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, words := range map[string]string{"pipe": "not a regular file", ".": "not a regular file", "up": "cannot be read", "gone": "cannot be read", "../x": "cannot be read"} {
		if b, err := disk.ReadFile(root, name, 4); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), outside) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := disk.ReadFile(root, "file", 3); err == nil || !strings.Contains(err.Error(), "at most 3 are allowed") {
		t.Errorf("too much: %v", err)
	}
}
