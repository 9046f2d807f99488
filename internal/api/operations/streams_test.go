package operations

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

// idle is a server's runtime that is open and does not run.
func idle(t *testing.T) *control.Control {
	t.Helper()
	root := testkit.Value(testfleet.NewKeys("").First())(t)
	dir := t.TempDir()
	db := testkit.Value(embedded.Open(t.Context(), filepath.Join(dir, "store"), embedded.Options{}))(t)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	ca := testkit.Value(identity.CreateAuthority(identity.FileKeys{}, dir, identity.Hosts, testfleet.Name, time.Now()))(t)
	c := testkit.Value(control.Open(t.Context(), control.Config{Fleet: testfleet.Name, DataDir: dir, Store: db, HostCA: ca, Root: root}))(t)
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
	families := testkit.Value(c.Metrics().Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "steady_requests_refused_total" && len(m.GetLabel()) == 2 && m.GetLabel()[1].GetValue() == "429" {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
