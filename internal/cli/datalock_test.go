package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// Two servers never share a data folder.
func TestS31OneServerPerDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	release, err := lockData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockData(dir); err == nil || !strings.Contains(err.Error(), "another server runs") {
		t.Fatalf("a second server: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockData(dir)
	if err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}
