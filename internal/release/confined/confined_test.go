package confined

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to is refused and not waited for, as is all else
// that is no regular file of the folder.
func TestFileTakesRegularFilesOfTheFolderAlone(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{filepath.Join(outside, "secret"): "x", filepath.Join(dir, "file"): "four"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inner": "file", "up": filepath.Join(outside, "secret"), "gone": "none"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"file", "inner"} {
		if b, err := File(root, name, 4); err != nil || string(b) != "four" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, words := range map[string]string{"pipe": "not a regular file", ".": "not a regular file", "up": "cannot be read", "gone": "cannot be read", "../x": "cannot be read"} {
		if b, err := File(root, name, 4); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), outside) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := File(root, "file", 3); err == nil || !strings.Contains(err.Error(), "at most 3 are taken") {
		t.Errorf("too much: %v", err)
	}
}
