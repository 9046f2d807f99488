package dockerapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestSecretsOfSessions: each store has its own names, only its owner reads a file, and what is not kept is gone.
func TestSecretsOfSessions(t *testing.T) {
	dir := t.TempDir()
	s := SecretStores{Host: Secrets(filepath.Join(dir, "host")), Sessions: SessionSecrets(filepath.Join(dir, "sessions"))}
	const one, two = "session/lab/1/p/q/one", "session/lab/1/p/q/two"
	testkit.Must(t, s.Sessions.Sweep(nil))
	for _, ref := range []string{one, "db"} {
		if _, err := s.Get(ref); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s before it is there: %v", ref, err)
		}
	}
	testkit.Must(t, s.Sessions.Put(one, "value one"))
	testkit.Must(t, s.Sessions.Put(two, "value two"))
	if err := s.Sessions.Put(one, ""); err == nil {
		t.Error("an empty secret is kept")
	}
	if v := testkit.Value(s.Get(one))(t); string(v) != "value one" {
		t.Errorf("%s", v)
	}
	files := testkit.Value(os.ReadDir(string(s.Sessions)))(t)
	for _, f := range files {
		if info := testkit.Value(f.Info())(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
		if _, err := s.Host.Get(f.Name()); err == nil {
			t.Errorf("%s is a name of the host's own store", f.Name())
		}
	}
	testkit.Must(t, s.Sessions.Sweep(map[string]bool{two: true}))
	if _, err := s.Get(one); !errors.Is(err, fs.ErrNotExist) || len(files) != 2 {
		t.Errorf("after it was forgotten: %v", err)
	}
	testkit.Value(s.Get(two))(t)
	testkit.Must(t, os.Chmod(filepath.Join(string(s.Sessions), s.Sessions.file(two)), 0o644))
	if _, err := s.Get(two); err == nil {
		t.Error("one that others can read is taken")
	}
}
