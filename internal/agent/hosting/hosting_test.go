package hosting

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHostKeyIsMadeOnce: digests of one host stay comparable over restarts.
func TestHostKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := hostKey(path)
	if err != nil || len(first) != 32 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	again, err := hostKey(path)
	if err != nil || string(again) != string(first) {
		t.Fatalf("another key: %v", err)
	}
}
