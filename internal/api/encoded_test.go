package api_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// TestEncodedBodiesAreRefused is T20: nothing that arrives is decompressed.
func TestEncodedBodiesAreRefused(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	for _, path := range []string{wire.RouteClaim, wire.RouteEvents, wire.RouteHeartbeat} {
		req := testkit.Value(http.NewRequestWithContext(w.ctx(), "POST", w.url()+path, strings.NewReader("x")))(t)
		req.Header.Set(wire.Protocol, wire.Version)
		req.Header.Set("Content-Encoding", "gzip")
		res := testkit.Value(a.http.Do(req))(t)
		testkit.Must(t, res.Body.Close())
		if res.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%s answers %d", path, res.StatusCode)
		}
	}
	secret := testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)
	if status, body := w.request(strings.TrimSpace(string(secret)), "POST", "/v1/operator/releases", "x", "Content-Encoding", "zstd"); status != http.StatusUnsupportedMediaType {
		t.Errorf("a push answers %d %s", status, body)
	}
}
