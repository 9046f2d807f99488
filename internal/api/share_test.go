package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// TestOneHostsShareOfTheLog: a host that reports without end gets its burst into the log
// and then 429, also for renewals; heartbeats and all other hosts go on.
func TestOneHostsShareOfTheLog(t *testing.T) {
	const burst = 64 << 10
	w := newWorld(t, func(o *api.Options) { o.Control.HostLog = server.RateLimit{Burst: burst, Tokens: 1, Per: clock.Hour} })
	a, b := enrolled(w, "h-0000"), enrolled(w, "h-0001")
	detail := string(bytes.Repeat([]byte("x"), 8<<10))
	status, sent := 200, 0
	for ; status == 200 && sent < 100; sent++ {
		a.append(event.GrantDeclined{Grant: "g", Code: "busy", Detail: detail})
		status, _ = a.post(wire.EventBatch{Incarnation: 1, Events: a.queue[sent:], Head: a.head()})
	}
	if sent--; status != http.StatusTooManyRequests || sent != burst/(9<<10) {
		t.Fatalf("after %d events: %d", sent, status)
	}
	raw := testkit.Value(json.Marshal(wire.EventBatch{Incarnation: 1, Events: a.queue[sent:], Head: a.head()}))(t)
	req := testkit.Value(http.NewRequestWithContext(w.ctx(), "POST", w.url()+wire.RouteEvents, bytes.NewReader(raw)))(t)
	req.Header.Set(wire.Protocol, wire.Version)
	res := testkit.Value(a.http.Do(req))(t)
	testkit.Must(t, res.Body.Close())
	if after, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || after < 3600 {
		t.Errorf("Retry-After is %q", res.Header.Get("Retry-After"))
	}
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	csr := testkit.Value(identity.NewCSR(key))(t)
	if status := a.do("POST", wire.RouteRenew, wire.Renew{CSR: csr}, nil); status != http.StatusTooManyRequests {
		t.Errorf("a renewal is answered %d", status)
	}
	if status := a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 1}, nil); status != 200 {
		t.Errorf("a heartbeat is answered %d", status)
	}
	b.append(declined("g"))
	testkit.Must(t, b.send())
	if n := count(w.types("h-0000"), "host.grant_declined"); n != sent {
		t.Errorf("%d events are in the log, %d were accepted", n, sent)
	}
}

// TestForksAreKeptOnce: a host that tells one history after another has the server keep
// the first of them, and no more.
func TestForksAreKeptOnce(t *testing.T) {
	w := newWorld(t)
	a := enrolled(w, "h-0000")
	a.append(declined("g"))
	testkit.Must(t, a.send())
	blobs := func() int {
		n := 0
		testkit.Must(t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.Contains(path, "/blobs/") {
				n++
			}
			return err
		}))
		return n
	}
	fork := func(i int) {
		clone := *a
		clone.chain, clone.queue = identity.Genesis(testFleet, a.name, 1), nil
		clone.append(declined("other" + strconv.Itoa(i)))
		if status, _ := clone.post(clone.batch()); status != http.StatusConflict {
			t.Fatalf("another history: %d", status)
		}
	}
	before := blobs()
	fork(0)
	kept := blobs()
	if kept <= before {
		t.Fatalf("%d files before, %d after the first", before, kept)
	}
	for i := range 20 {
		fork(1 + i)
	}
	if now := blobs(); now != kept || count(w.types("h-0000"), "host.forked") != 1 {
		t.Errorf("%d files more, events %v", now-kept, w.types("h-0000"))
	}
}
