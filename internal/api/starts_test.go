package api_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A first start that ends before the admin token is on disk must not leave a
// token that nobody knows: the next start makes one that works.
func TestFirstAdminTokenIsNotLost(t *testing.T) {
	w := newWorld(t)
	o := w.opts
	o.DataDir = filepath.Join(t.TempDir(), "data")
	inTheWay := filepath.Join(o.DataDir, "admin.token", "x")
	testkit.Must(t, os.MkdirAll(inTheWay, 0o700))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := api.Start(ctx, o); err == nil {
		t.Fatal("the server started without a place for its token")
	}
	testkit.Must(t, os.RemoveAll(filepath.Dir(inTheWay)))
	w.halt()
	w.opts = o
	w.start()
	if _, err := w.op.Status(w.ctx()); err != nil {
		t.Errorf("the token of the second start: %v", err)
	}
}

// A server whose authorities are gone would make others, which no agent trusts.
func TestLostAuthoritiesAreNotReplaced(t *testing.T) {
	w := newWorld(t)
	w.halt()
	pki := filepath.Join(w.opts.DataDir, "pki")
	away := pki + "-away"
	for _, lost := range []string{"", "hosts-ca.pem", "servers-ca.pem", "servers-ca.key"} {
		for _, root := range [][]byte{w.root, nil} {
			testkit.Must(t, os.Rename(filepath.Join(pki, lost), away))
			o := w.opts
			o.Root = root
			_, err := api.Start(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), "is gone") || !strings.Contains(err.Error(), "restore "+pki) || !strings.Contains(err.Error(), "init-ca") {
				t.Fatalf("without pki/%s: %v", lost, err)
			}
			testkit.Must(t, os.Rename(away, filepath.Join(pki, lost)))
		}
	}
	w.start()
}

// A first start says that it is one: a folder whose disk is not mounted looks the same.
func TestFirstStartIsTold(t *testing.T) {
	var log bytes.Buffer // read while the server is stopped
	w := newWorld(t, func(o *api.Options) { o.Control.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	const told = "this is a new server"
	w.halt()
	if n := strings.Count(log.String(), told); n != 1 {
		t.Errorf("the first start says %d times that it is one:\n%s", n, log.String())
	}
	w.start()
	w.halt()
	if n := strings.Count(log.String(), told); n != 1 {
		t.Errorf("the second start says it too:\n%s", log.String())
	}
}

// What a kill left of a push is gone after the next start.
func TestUnfinishedPushIsDropped(t *testing.T) {
	w := newWorld(t)
	w.halt()
	left := filepath.Join(w.opts.DataDir, "push-123")
	testkit.Must(t, os.MkdirAll(filepath.Join(left, "blobs"), 0o700))
	testkit.Must(t, os.WriteFile(filepath.Join(left, "blobs", "x"), []byte("half"), 0o600))
	w.start()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

// T8: a token from before a revocation may have been stolen with the host.
func TestTokenOlderThanARevocation(t *testing.T) {
	w := newWorld(t)
	a := newAgent(w, "h-0000")
	at := w.server.Control().Now().Add(clock.Millisecond) // past when the release arrives
	w.release("r1", plan{hosts: 1, content: "x", more: "revoked: {h-0000: {notBefore: \"" + at.String() + "\", reason: lost}}\n"})
	status, raw, err := a.call(w.ctx(), "POST", "/v1/enroll", a.enrolRequest())
	if err != nil || status != 403 || !strings.Contains(string(raw), "older than the revocation") {
		t.Fatalf("the old token: %d %s %v", status, raw, err)
	}
	a.token = w.token("h-0000")
	a.enrol()
}

// F8: a push that the server's disk cannot take is for later, and no fault of
// the release.
func TestF8PushWithoutRoom(t *testing.T) {
	w := newWorld(t)
	dir := w.build("r1", plan{hosts: 1, content: "x"})
	away := w.opts.DataDir + "-away"
	testkit.Must(t, os.Rename(w.opts.DataDir, away))
	_, err := w.push(dir)
	testkit.Must(t, os.Rename(away, w.opts.DataDir))
	if err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Fatalf("the push ended with %v", err)
	}
	if _, err := w.push(dir); err != nil {
		t.Errorf("and later: %v", err)
	}
}
