package agentcmd

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
	o := options{state: t.TempDir(), root: root, log: Log{"error", "text"}, resync: "30s", reboot: "/bin/false", engine: "none"}
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

// TestEngineOf: the agent says at start which engine it runs containers on, or that it
// has none and which flag names one.
func TestEngineOf(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	testkit.Must(t, os.WriteFile(socket, nil, 0o600))
	for _, c := range []struct{ flag, env, engine, logs string }{
		{"auto", "unix://" + socket, "unix://" + socket, socket},
		{"auto", "unix:///nowhere/docker.sock", "", "--engine"},
		{"none", "unix://" + socket, "", "--engine none"},
		{"unix:///given", "unix://" + socket, "unix:///given", "unix:///given"},
	} {
		var log bytes.Buffer
		if got := engineOf(c.flag, c.env, slog.New(slog.NewTextHandler(&log, nil))); got != c.engine {
			t.Errorf("--engine %s with DOCKER_HOST=%s: %q, expected %q", c.flag, c.env, got, c.engine)
		}
		if !strings.Contains(log.String(), c.logs) {
			t.Errorf("--engine %s: the log has %q", c.flag, log.String())
		}
	}
}
