package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/testkit"
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

	name := func(n drift.NodeRow) string { return n.Name }
	for query, want := range map[string]string{ // order-free: each by itself
		"":                        "9 0 desk-1 desk-2 gw-0 gw-1 gw-2 gw-3 gw-4 gw-5 gw-6",
		"limit=2&offset=1":        "9 1 desk-2 gw-0",
		"limit=2&offset=8":        "9 8 gw-6",
		"offset=90":               "9 90",
		"search=desk":             "2 0 desk-1 desk-2",
		"status=online":           "2 0 desk-1 desk-2",
		"status=not-registered":   "7 0 gw-0 gw-1 gw-2 gw-3 gw-4 gw-5 gw-6",
		"needs=true&search=desk":  "1 0 desk-1",
		"needs=false&search=desk": "2 0 desk-1 desk-2",
	} {
		if got := paged(t, w, secret, "node-list?"+query, name); got != want {
			t.Errorf("nodes of %q: %s, want %s", query, got, want)
		}
	}
	object := func(o drift.ObjectRow) string { return o.Name }
	for query, want := range map[string]string{ // order-free: each by itself
		"limit=2":        "7 0 flow-0 flow-1",
		"search=gw-3":    "1 0 flow-3",
		"search=flow-5":  "1 0 flow-5",
		"status=pending": "7 0 flow-0 flow-1 flow-2 flow-3 flow-4 flow-5 flow-6",
		"status=failed":  "0 0",
	} {
		if got := paged(t, w, secret, "config-list/flow?"+query, object); got != want {
			t.Errorf("flows of %q: %s, want %s", query, got, want)
		}
	}
	if got := paged(t, w, secret, "drift-list?limit=1", func(e drift.EpisodeRow) string { return e.ID }); got != "0 0" {
		t.Errorf("drift: %s", got)
	}
	if got := paged(t, w, secret, "session-list?state=Running", func(s operator.Session) string { return s.Name }); got != "0 0" {
		t.Errorf("sessions: %s", got)
	}
	for _, bad := range []string{"node-list?limit=0", "node-list?limit=201", "node-list?status=well", "config-list/none", "drift-list?offset=-1", "session-list?state=running"} {
		if status, raw := w.request(secret, "GET", "/v1/operator/"+bad, ""); status != 422 {
			t.Errorf("%s: %d %s", bad, status, raw)
		}
	}
}

// paged is a page in one line: of how many, from which on, and what is in it.
func paged[T any](t *testing.T, w *world, secret, path string, name func(T) string) string {
	t.Helper()
	status, raw := w.request(secret, "GET", "/v1/operator/"+path, "")
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, raw)
	}
	var p operator.Page[T]
	testkit.Must(t, json.Unmarshal([]byte(raw), &p))
	names := []string{fmt.Sprint(p.Total), fmt.Sprint(p.Offset)}
	for i := range p.Items {
		names = append(names, name(p.Items[i]))
	}
	return strings.Join(names, " ")
}
