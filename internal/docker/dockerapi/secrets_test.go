package dockerapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	put := func(name, value string, mode fs.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		testkit.Must(t, errors.Join(os.WriteFile(p, []byte(value), 0o600), os.Chmod(p, mode)))
	}
	put("db", "hunter2\n", 0o600)
	put("open", "x", 0o640)
	put("big", strings.Repeat("x", MaxSecret+1), 0o400)
	testkit.Must(t, errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink("/etc/hostname", filepath.Join(dir, "link"))))
	if v, err := Secrets(dir).Get("db"); err != nil || string(v) != "hunter2\n" {
		t.Fatalf("%q %v", v, err)
	}
	if _, err := Secrets(dir).Get("none"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir+"/none") {
		t.Errorf("a missing one: %v", err)
	}
	if _, err := Secrets(filepath.Join(dir, "nowhere")).Get("db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing store: %v", err)
	}
	for name, words := range map[string]string{
		"open": "chmod 600", "big": "at most", "folder": "not a file", "link": "escapes", "../db": "not a name", "": "not a name",
	} {
		if _, err := Secrets(dir).Get(name); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
