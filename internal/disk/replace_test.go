package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
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

// TestReplaceOnly: an edit by somebody else is never replaced, whenever it comes.
func TestReplaceOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	refused := 0
	for i := range 300 {
		was, edited := []byte("as it was"), []byte(fmt.Sprintf("edit %d", i))
		testkit.Must(t, os.WriteFile(path, was, 0o600))
		testkit.Must(t, os.WriteFile(path+".edit", edited, 0o600))
		var editor sync.WaitGroup
		err := disk.ReplaceOnly(path, was, []byte("as it is to be"), 0o600, func(string) error {
			editor.Go(func() { testkit.Must(t, os.Rename(path+".edit", path)) })
			for range i { // a little later in each round
				runtime.Gosched()
			}
			return nil
		})
		editor.Wait()
		if err != nil && !errors.Is(err, disk.ErrChanged) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
		if now := testkit.Value(os.ReadFile(path))(t); !bytes.Equal(now, edited) {
			t.Fatalf("round %d: the file is %q, %v", i, now, err)
		}
	}
	if refused == 0 {
		t.Error("no edit came in time")
	}
	if entries := testkit.Value(os.ReadDir(filepath.Dir(path)))(t); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}
