package agentcmd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

// A host that is not enrolled gets no folder.
func TestRootIsMadeOnceEnrolled(t *testing.T) {
	root := filepath.Join(t.TempDir(), "odd", "root")
	o := options{state: t.TempDir(), root: root, logLevel: "error", resync: "30s", reboot: "/bin/false", engine: "none"}
	o.token = filepath.Join(t.TempDir(), "absent")
	if err := run(t.Context(), o, io.Discard, io.Discard); err == nil {
		t.Fatal("a host without a token runs")
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its root folder: %v", err)
	}
}

// A token of another host than the folder's is a mix-up of folders; one of the
// same host, or one that is gone, is how a service starts again and again.
func TestTokenOfAnotherHost(t *testing.T) {
	keys := testfleet.NewKeys("")
	root := testkit.Value(keys.First())(t)
	env := testkit.Value(keys.Token("web-1", root))(t)
	ca := testkit.Value(identity.CreateAuthority(identity.FileKeys{}, t.TempDir(), identity.Servers, "acme", time.Now()))(t)
	text := identity.TokenText{Envelope: env, Server: "https://127.0.0.1:1", ServerCA: ca.PEM(), Root: root}.String()
	for _, c := range []struct {
		fleet, host, token string
		ok                 bool
	}{
		{"acme", "web-1", text, true},
		{"acme", "web-1", "/nonexistent/token", true},
		{"acme", "web-2", text, false},
		{"other", "web-1", text, false},
	} {
		if err := sameHost(daemon.Status{Fleet: c.fleet, Host: c.host}, c.token); (err == nil) != c.ok {
			t.Errorf("%s of %s: %v", c.host, c.fleet, err)
		}
	}
}
