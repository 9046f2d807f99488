package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// victim is the host that is lied to. Others hear the truth.
const victim = "web-1"

// liar stands between one agent and the real server's API. Dispatches come from
// the test alone; everything else is the real server's answer, or what the
// present lie makes of it.
type liar struct {
	t    testing.TB
	real http.Handler

	answers chan []byte // dispatches for the agent

	mu       sync.Mutex
	hint     uint64 // heartbeats are answered with this version of the managed layer, unless it is 0
	hush     bool   // nothing true is fetched between lies: see between
	beats    int    // heartbeats so far
	fetched  int    // answers to fetches of the managed layer
	reported []event.ResourceReported
	streams  map[string]*opened   // by id
	script   map[string][]byte    // what streams are sent, by id
	order    []string             // ids of streams, each time one was opened
	seen     *tls.ConnectionState // the agent's, for requests in its name
	lie      *lie
	declined map[string]string // by grant, from the agent's own events
	checks   []string          // that refused what the liar gave, in order
	claims   map[string]int    // by grant
	refuse   map[string]bool   // claims of these are refused by the liar itself
}

// lie is one thing told wrongly.
type lie struct {
	name  string
	route string // prefix of the path
	// body changes an answer of 200; nil leaves it.
	body func([]byte) []byte
	// tell, if set, answers in place of the real answer.
	tell func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder)
	// unheard keeps the request from the real server.
	unheard bool

	served int
}

func newLiar(t testing.TB) *liar {
	return &liar{t: t, answers: make(chan []byte), declined: map[string]string{},
		claims: map[string]int{}, refuse: map[string]bool{}, streams: map[string]*opened{}, script: map[string][]byte{}}
}

// between is what is told after a lie and before the next. What an agent fetches
// then, of its own or for an offer that it did not give up, it has: there is nothing
// left to lie about. So a hushed liar has no answer, and its heartbeats name no new
// documents, until the truth is told.
func (l *liar) between(now *lie) *lie {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hush || now.route == wire.RouteDispatch {
		return nil
	}
	return &lie{name: "between lies", route: now.route, unheard: true, tell: func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
		write(w, http.StatusServiceUnavailable, nil)
	}}
}

// before is for newOrigin.
func (l *liar) before(real http.Handler) http.Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.real = real
	return l
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, is := strings.CutPrefix(r.URL.Path, wire.RouteStreams); is {
		l.stream(w, r, id) // its body ends after the answer
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	name, peer := identity.PeerHost(r.TLS, fleetName)
	l.mu.Lock()
	if peer == nil && name == victim {
		l.seen = r.TLS
	}
	real := l.real
	l.mu.Unlock()
	if peer == nil && name != victim {
		real.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == wire.RouteDispatch {
		l.dispatch(w, r)
		return
	}
	l.mu.Lock()
	now := l.lie
	if now != nil && !strings.HasPrefix(r.URL.Path, now.route) {
		now = nil
	}
	l.note(r.URL.Path, body)
	refused := r.URL.Path == wire.RouteClaim && l.refused(body)
	edit := map[string]uint64{}
	if r.URL.Path == wire.RouteHeartbeat {
		edit = l.edits()
		l.beats++
	}
	l.mu.Unlock()
	if refused {
		write(w, http.StatusOK, []byte(`{"accepted":false,"reason":"held by the test"}`))
		return
	}
	if r.URL.Path == wire.RouteManaged {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.fetched++
		}()
	}
	if now == nil && len(edit) == 0 {
		real.ServeHTTP(w, r)
		return
	}
	if now == nil {
		rec := httptest.NewRecorder()
		real.ServeHTTP(rec, r)
		write(w, rec.Code, edited(l.t, rec.Body.Bytes(), edit))
		return
	}
	rec := httptest.NewRecorder()
	if !now.unheard {
		real.ServeHTTP(rec, r)
	}
	l.tell(w, r, now, rec)
}

// edits are what heartbeats are answered in place of the truth. l.mu is held.
func (l *liar) edits() map[string]uint64 {
	out := map[string]uint64{}
	if l.hint != 0 {
		out["managed"] = l.hint
	}
	if l.hush {
		out["rootVersion"], out["timestampVersion"] = 0, 0
	}
	return out
}

// tell answers with the lie, which may cut the connection.
func (l *liar) tell(w http.ResponseWriter, r *http.Request, now *lie, rec *httptest.ResponseRecorder) {
	defer func() {
		l.mu.Lock()
		now.served++
		l.mu.Unlock()
	}()
	if now.tell != nil {
		now.tell(w, r, rec)
		return
	}
	answer := rec.Body.Bytes()
	if rec.Code == http.StatusOK || now.unheard {
		answer = now.body(answer)
		rec.Code = http.StatusOK
	}
	write(w, rec.Code, answer)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the agent may have gone away
}

// note keeps what the agent says. l.mu is held.
func (l *liar) note(path string, body []byte) {
	if path == wire.RouteClaim {
		var m wire.Claim
		if json.Unmarshal(body, &m) == nil {
			l.claims[m.Grant]++
		}
	}
	var b wire.EventBatch
	if path != wire.RouteEvents || json.Unmarshal(body, &b) != nil {
		return
	}
	for _, e := range b.Events {
		var d event.GrantDeclined
		if e.Type == d.EventType() && json.Unmarshal(e.Body, &d) == nil {
			l.declined[d.Grant] = d.Code + ": " + d.Detail
		}
		var refused event.TrustRefused
		if e.Type == refused.EventType() && json.Unmarshal(e.Body, &refused) == nil {
			l.checks = append(l.checks, refused.Check)
		}
		var reported event.ResourceReported
		if e.Type == reported.EventType() && json.Unmarshal(e.Body, &reported) == nil {
			l.reported = append(l.reported, reported)
		}
	}
}

func (l *liar) refused(body []byte) bool {
	var m wire.Claim
	return json.Unmarshal(body, &m) == nil && l.refuse[m.Grant]
}

// dispatch holds the long-poll until the test has something to say.
func (l *liar) dispatch(w http.ResponseWriter, r *http.Request) {
	select {
	case body := <-l.answers:
		l.mu.Lock()
		now := l.lie
		l.mu.Unlock()
		if now == nil || now.route != wire.RouteDispatch || bytes.Contains(body, []byte(`"sync-`)) {
			write(w, http.StatusOK, body)
			return
		}
		rec := httptest.NewRecorder()
		rec.Body.Write(body)
		l.tell(w, r, now, rec)
	case <-r.Context().Done():
	}
}

func (l *liar) arm(now *lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = now
}

func (l *liar) served(now *lie) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.served
}

// say gives the agent a dispatch.
func (l *liar) say(body []byte) {
	l.t.Helper()
	select {
	case l.answers <- body:
	case <-time.After(patience):
		l.t.Fatal("the agent never came back for a dispatch")
	}
}

// saw reports what the agent declined a grant with.
func (l *liar) saw(grant string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, ok := l.declined[grant]
	return code, ok
}

// ask makes a request to the real server in the agent's name.
func (l *liar) ask(path string) (int, []byte) {
	l.t.Helper()
	testkit.Eventually(l.t, "the agent's connection", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen != nil
	})
	l.mu.Lock()
	real, state := l.real, l.seen
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.TLS = state
	r.Header.Set(wire.Protocol, wire.Version)
	rec := httptest.NewRecorder()
	real.ServeHTTP(rec, r)
	return rec.Code, rec.Body.Bytes()
}

// offer asks the real server for a dispatch of a rollout and purpose.
func (l *liar) offer(rollout string, purpose host.Purpose) []byte {
	l.t.Helper()
	limit := time.Now().Add(patience)
	for time.Now().Before(limit) {
		status, body := l.ask(wire.RouteDispatch + "?wait=5")
		var d wire.Dispatch
		if status == http.StatusOK {
			testkit.Must(l.t, json.Unmarshal(body, &d))
			if d.Rollout == rollout && d.Purpose == purpose {
				return body
			}
		}
	}
	l.t.Fatalf("the server never offered %s %s", purpose, rollout)
	return nil
}

// renamed is a dispatch under another grant.
func renamed(t testing.TB, dispatch []byte, grant string) []byte {
	t.Helper()
	n := parseJSON(t, dispatch)
	n.at("grant").set(fmt.Sprintf("%q", grant))
	return n.bytes()
}

// flush makes a dispatch that changes nothing and that the agent declines, so
// that the test hears when everything before it was handled.
func flush(grant string, term uint64) []byte {
	body, _ := json.Marshal(wire.Dispatch{ // it always encodes
		Grant: grant, Purpose: host.Rollback, Rollout: "none", Manifest: digest.Of([]byte("none")), Term: term, Reason: "flush",
	})
	return body
}
