package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
)

// TestPagesOfNodes: the pages of nodes and of what they have are the lists, filtered and cut.
func TestPagesOfNodes(t *testing.T) {
	w := newWorld(t)
	secret := w.tokenOf(operator.Viewer, 0).Secret
	for i := range 7 { // their nodes never register
		w.set(fmt.Sprintf("gw-%d", i), fmt.Sprintf("flow-%d", i), `{"input":"udp://239.0.0.1:5000"}`)
	}
	w.registered("desk-1", `{"there":{"input":"udp://239.0.0.2:5000"}}`) // it has something to adopt
	w.registered("desk-2", `{}`)

	paged(t, w, secret, "node-list?", func(n drift.NodeRow) string { return n.Name }, map[string]string{
		"":                        "9 0 desk-1 desk-2 gw-0 gw-1 gw-2 gw-3 gw-4 gw-5 gw-6",
		"limit=2&offset=1":        "9 1 desk-2 gw-0",
		"limit=2&offset=8":        "9 8 gw-6",
		"offset=90":               "9 90",
		"search=desk":             "2 0 desk-1 desk-2",
		"status=online":           "2 0 desk-1 desk-2",
		"status=not-registered":   "7 0 gw-0 gw-1 gw-2 gw-3 gw-4 gw-5 gw-6",
		"needs=true&search=desk":  "1 0 desk-1",
		"needs=false&search=desk": "2 0 desk-1 desk-2",
	})
	paged(t, w, secret, "config-list/flow?", func(o drift.ObjectRow) string { return o.Name }, map[string]string{
		"limit=2":           "8 0 flow-0 flow-1",
		"search=gw-3":       "1 0 flow-3",
		"search=flow-5":     "1 0 flow-5",
		"search=desk":       "1 0 there", // which the server does not know
		"status=extraneous": "1 0 there",
		"status=pending":    "7 0 flow-0 flow-1 flow-2 flow-3 flow-4 flow-5 flow-6",
		"status=failed":     "0 0",
	})
	paged(t, w, secret, "drift-list?", func(e drift.EpisodeRow) string { return e.ID }, map[string]string{"limit=1": "0 0"})
	paged(t, w, secret, "session-list?", func(s operator.Session) string { return s.Name }, map[string]string{"state=Running": "0 0"})
	for _, bad := range []string{"node-list?limit=0", "node-list?limit=201", "node-list?status=well", "config-list/flow?status=well", "drift-list?offset=-1", "session-list?state=running"} {
		if status, raw := w.request(secret, "GET", "/v1/operator/"+bad, ""); status != 422 {
			t.Errorf("%s: %d %s", bad, status, raw)
		}
	}
}

// paged checks pages by what is asked for: of how many, from which on, and what is in each.
func paged[T any](t *testing.T, w *world, secret, path string, name func(T) string, want map[string]string) {
	t.Helper()
	for query, want := range want { // order-free: each by itself
		status, raw := w.request(secret, "GET", "/v1/operator/"+path+query, "")
		var p operator.Page[T]
		if err := json.Unmarshal([]byte(raw), &p); status != 200 || err != nil {
			t.Fatalf("%s: %d %s, %v", path+query, status, raw, err)
		}
		got := fmt.Sprint(p.Total, " ", p.Offset)
		for i := range p.Items {
			got += " " + name(p.Items[i])
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path+query, got, want)
		}
	}
}
