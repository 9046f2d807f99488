package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Two servers never share a data folder.
func TestS31OneServerPerDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	release := testkit.Value(lockData(dir))(t)
	if _, err := lockData(dir); err == nil || !strings.Contains(err.Error(), "another server runs") {
		t.Fatalf("a second server: %v", err)
	}
	testkit.Must(t, release())
	again, err := lockData(dir)
	if err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
	testkit.Must(t, again())
}
