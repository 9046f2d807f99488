package operations

import (
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store/sqlite"
	"github.com/steadyfleet/steady/internal/trust"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// idle is a server's runtime that is open and does not run.
func idle(t *testing.T) *control.Control {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	s, err := trust.NewSigner(key)
	must(t, err)
	spec := map[trust.Role]trust.RoleSpec{}
	for _, role := range trust.Roles() {
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	now := clock.FromTime(time.Now())
	r, err := trust.NewRoot(fleet.Document{Fleet: "acme", Epoch: 1, Version: 1, IssuedAt: now}, now.Add(clock.Day), spec)
	must(t, err)
	root, err := trust.SignRoot(r, s)
	must(t, err)
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "store"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	ca, err := identity.CreateAuthority(dir, identity.Hosts, "acme", time.Now())
	must(t, err)
	c, err := control.Open(t.Context(), control.Config{Fleet: "acme", DataDir: dir, Store: db, HostCA: ca, Root: root})
	must(t, err)
	return c
}

// One viewer must not use up the server's memory with streams, and who is refused
// is counted.
func TestStreamsAreBounded(t *testing.T) {
	c := idle(t)
	h := New(c, nil, slog.New(slog.DiscardHandler))
	for range maxStreams {
		h.streams <- struct{}{}
	}
	w := httptest.NewRecorder()
	h.stream(w, httptest.NewRequest(http.MethodGet, "/?after=1", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many is answered %d", w.Code)
	}
	if len(h.streams) != maxStreams {
		t.Errorf("%d places are taken", len(h.streams))
	}
	if n := refused429(t, c); n != 1 {
		t.Errorf("%v refusals of that kind are counted", n)
	}
}

func refused429(t *testing.T, c *control.Control) float64 {
	t.Helper()
	families, err := c.Metrics().Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "steady_requests_refused_total" && len(m.GetLabel()) == 2 && m.GetLabel()[1].GetValue() == "429" {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
