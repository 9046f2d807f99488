package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestReplace: the file has the content and the mode that were asked for, whatever was
// there, and nothing else stays in the folder.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for i, mode := range []os.FileMode{0o600, 0o644} {
		want := string(rune('a' + i))
		testkit.Must(t, disk.Replace(path, []byte(want), mode))
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(got) != want || info.Mode() != mode {
			t.Errorf("%q, %v, %v, %v", got, err, info.Mode(), serr)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestReplaceThatFails leaves what was there, and no new file.
func TestReplaceThatFails(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "folder")
	testkit.Must(t, os.MkdirAll(filepath.Join(taken, "full"), 0o700))
	if err := disk.Replace(taken, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := disk.Replace(filepath.Join(dir, "absent", "file"), []byte("x"), 0o600); err == nil {
		t.Error("written into a folder that does not exist")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
