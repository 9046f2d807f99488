package hosting

import (
	"os"
	"path/filepath"
	"testing"
)

func TestParseExport(t *testing.T) {
	for in, ok := range map[string]bool{
		"json:/tmp/routes.json": true, "traefik:/etc/traefik/steady.yml": true, "caddy:x": true,
		"": false, "json": false, "json:": false, "nginx:/x": false, ":x": false,
	} {
		if _, _, err := parseExport(in); (err == nil) != ok {
			t.Errorf("%q: %v", in, err)
		}
	}
}

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
