package api_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	corestatus "github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// probe asks a server for its health or readiness, as a stranger.
func (w *world) probe(s *api.Server, route string) (status int, checks []string) {
	w.t.Helper()
	var raw bytes.Buffer
	status = w.get(s, route, &raw)
	var h operator.Health
	testkit.Must(w.t, json.Unmarshal(raw.Bytes(), &h))
	for _, reason := range h.Reasons {
		if reason.Message == "" || reason.Next == "" {
			w.t.Errorf("%s: %+v", route, reason)
		}
		checks = append(checks, reason.Check)
	}
	if (h.Status == "ok") != (status == http.StatusOK) || (len(checks) == 0) != (status == http.StatusOK) {
		w.t.Errorf("%s: %d %+v", route, status, h)
	}
	return status, checks
}

// get reads a route as a stranger on the same machine.
func (w *world) get(s *api.Server, route string, into io.Writer) (status int) {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.ServerCA())
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	r := testkit.Value((&http.Client{Transport: tr}).Get(s.OperatorURL() + route))(w.t)
	defer r.Body.Close()
	testkit.Value(io.Copy(into, r.Body))(w.t)
	return r.StatusCode
}

// expectProbes compares both answers of a server with what is expected.
func (w *world) expectProbes(s *api.Server, alive, ready int, checks ...string) {
	w.t.Helper()
	if got, why := w.probe(s, operator.RouteHealth); got != alive {
		w.t.Errorf("health %d %v, want %d", got, why, alive)
	}
	if got, why := w.probe(s, operator.RouteReady); got != ready || !slices.Equal(why, checks) {
		w.t.Errorf("readiness %d %v, want %d %v", got, why, ready, checks)
	}
}

func TestAServerThatIsWellIsReady(t *testing.T) {
	w := newWorld(t)
	w.expectProbes(w.server, 200, 200)
}

// TestDamagedLogEndsTheServer: the first read of a record that is not what was written ends
// the server, which names the file, the record and what to do.
func TestDamagedLogEndsTheServer(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.opts.DataDir, "store", "log.db")
	db := testkit.Value(sql.Open("sqlite", file))(t)
	testkit.Value(db.Exec(`UPDATE events SET body = x'00' WHERE seq = 1`))(t)
	testkit.Must(t, db.Close())
	if page, err := w.op.Events(w.ctx(), operatorAll); err == nil {
		t.Errorf("%d events were handed out", len(page.Events))
	}
	err := w.server.Wait()
	for _, words := range []string{"must stop", file, "sequence 1", "restore the store from a backup", "steady doctor --data " + w.opts.DataDir} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the server ended with %v, without %q", err, words)
		}
	}
	dead := w.server.Control().Dead()
	if !slices.ContainsFunc(dead, func(p health.ServerProblem) bool { return p.Check == "store" && strings.Contains(p.Message, file) }) {
		t.Errorf("its health: %+v", dead)
	}
	w.op.Close()
	w.stop()
	w.server = nil
}

// TestExpiredTimestampIsTold: a timestamp that runs out is one event when it comes
// near, one when nothing is granted any more, stands in the status meanwhile, and is
// over with the next one that is signed.
func TestExpiredTimestampIsTold(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, func(o *api.Options) {
		o.Control.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		o.Control.ReconcileInterval = 50 * clock.Millisecond
	})
	dir := w.build("r1", plan{hosts: 1, content: "one"})
	testkit.Value(w.push(dir))(t)
	stands := func(level warning.Level, words ...string) func() bool {
		return func() bool {
			s := testkit.Value(w.op.Status(w.ctx()))(t)
			i := slices.IndexFunc(s.Expiries, func(i warning.Item) bool { return i.Kind == warning.Timestamp })
			if s.Expiries[i].Name != "stable" || s.Expiries[i].Ends == 0 || s.Expiries[i].Level != level {
				return false
			}
			return len(words) == 0 || slices.ContainsFunc(s.Inbox.Items, func(i corestatus.InboxItem) bool {
				return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(i.Reason, word) })
			})
		}
	}
	warned := func() (out []string) {
		page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t)
		for _, e := range page.Events {
			switch e.Type {
			case event.ExpiryWarned{}.EventType():
				var ev event.ExpiryWarned
				testkit.Must(t, json.Unmarshal(e.Body, &ev))
				if ev.Kind == string(warning.Timestamp) {
					out = append(out, ev.Level)
				}
			case event.ExpiryCleared{}.EventType():
				if strings.Contains(string(e.Body), string(warning.Timestamp)) {
					out = append(out, "cleared")
				}
			}
		}
		return out
	}
	w.until("all is well", stands(warning.OK))
	ahead.Store(int64(19 * time.Hour))
	w.until("a warning", stands(warning.Warning, "the timestamp of channel stable expires in 4 h 59 min", "steady release refresh"))
	w.until("an event", func() bool { return slices.Equal(warned(), []string{"warning"}) })
	ahead.Store(int64(25 * time.Hour))
	w.until("the end", stands(warning.Critical, "nothing is granted on the channel since then", "steady release refresh"))
	w.until("an event", func() bool { return slices.Equal(warned(), []string{"warning", "critical"}) })
	w.expectProbes(w.server, 200, 200) // it is the fleet's keys that are late, not the server

	s := testkit.Value(trust.Begin(testFleet, w.root, ""))(t)
	testkit.Value(release.Refresh(dir, release.RefreshOptions{State: s, Now: w.server.Control().Now(), Signers: []trust.Signer{w.keys[trust.RoleTimestamp]}}))(t)
	testkit.Value(w.push(dir))(t)
	w.until("a new timestamp", stands(warning.OK))
	w.until("an event", func() bool { return slices.Equal(warned(), []string{"warning", "critical", "cleared"}) })
}
