package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

// origin is a real server in this process: the runtime on its log, and the agent
// API over TLS. between, if set, stands in front of the API.
type origin struct {
	t        testing.TB
	estate   *estate
	dir      string
	maxBytes int64
	serverCA *identity.Authority
	hostCA   *identity.Authority
	http     *httptest.Server

	mu      sync.Mutex
	handler http.Handler // of the runtime that runs now
	between func(http.Handler) http.Handler

	store   *embedded.Store
	control *control.Control
	cancel  context.CancelFunc
	done    chan error
	down    bool
}

func newOrigin(t testing.TB, e *estate, between func(http.Handler) http.Handler) *origin {
	return newOriginIn(t, e, between, t.TempDir())
}

// newOriginIn is newOrigin with its data in a folder.
func newOriginIn(t testing.TB, e *estate, between func(http.Handler) http.Handler, dir string) *origin {
	o := &origin{t: t, estate: e, dir: dir, between: between}
	pki := filepath.Join(o.dir, "pki")
	testkit.Must(t, os.Mkdir(pki, 0o700))
	o.serverCA = testkit.Value(identity.CreateAuthority(identity.FileKeys{}, pki, identity.Servers, fleetName, time.Now()))(t)
	o.hostCA = testkit.Value(identity.CreateAuthority(identity.FileKeys{}, pki, identity.Hosts, fleetName, time.Now()))(t)
	o.http = o.listen(http.HandlerFunc(o.serve))
	t.Cleanup(o.stop)
	return o
}

// listen serves a handler with a certificate of the servers' authority.
func (o *origin) listen(h http.Handler) *httptest.Server {
	t := o.t
	key := testkit.Value(identity.NewKey())(t)
	certPEM := testkit.Value(o.serverCA.IssueServer([]string{"127.0.0.1"}, key.Public(), time.Now(), 0))(t)
	pair := testkit.Value(identity.Pair(certPEM, key))(t)
	s := httptest.NewUnstartedServer(h)
	s.TLS = testkit.Value(identity.ServerTLS(identity.ServerOptions{
		Fleet: fleetName, HostCA: o.hostCA.Pool(),
		Certificate: func() (*tls.Certificate, error) { return pair, nil },
		Revoked:     func(string, *x509.Certificate) error { return nil },
	}))(t)
	s.TLS.Certificates = []tls.Certificate{*pair} // httptest would put its own first
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// start runs the server on what its folder holds.
func (o *origin) start() *origin {
	o.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o.store = testkit.Value(embedded.Open(ctx, filepath.Join(o.dir, "store"), embedded.Options{MaxBytes: o.maxBytes}))(o.t)
	o.control = testkit.Value(control.Open(ctx, control.Config{
		Fleet: fleetName, DataDir: o.dir, Store: o.store, HostCA: o.hostCA, Root: o.estate.roots[0], Log: loud(),
		Config: server.Config{Heartbeat: 10 * clock.Minute, ReconcileInterval: clock.Second, MaxTickGap: 20 * clock.Millisecond},
	}))(o.t)
	h := http.Handler(api.NewAgentRoutes(o.control, loud()))
	if o.between != nil {
		h = o.between(h)
	}
	o.cancel, o.done = cancel, make(chan error, 1)
	go func(c *control.Control) { o.done <- c.Run(ctx) }(o.control)
	o.mu.Lock()
	o.handler, o.down = h, false
	o.mu.Unlock()
	return o
}

// stop ends the server; its folder stays.
func (o *origin) stop() {
	o.mu.Lock()
	running := o.handler != nil && !o.down
	o.down = true
	o.mu.Unlock()
	if !running {
		return
	}
	o.cancel()
	if err := <-o.done; err != nil && !errors.Is(err, context.Canceled) {
		o.t.Errorf("the server ended: %v", err)
	}
	testkit.Must(o.t, o.store.Close())
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	h, down := o.handler, o.down
	o.mu.Unlock()
	if down || h == nil {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	h.ServeHTTP(w, r)
}

func (o *origin) token(host string) string {
	o.t.Helper()
	return o.estate.token(host, o.http.URL, o.serverCA.PEM())
}

// push makes a release the newest.
func (o *origin) push(m made) {
	o.t.Helper()
	packed := m.packed()
	defer packed.Close()
	testkit.Value(o.control.PushRelease(context.Background(), packed, documents.FollowsNewest, "test"))(o.t)
}

// ended waits until a rollout ends in a phase.
func (o *origin) ended(name string, phase rollout.Phase) {
	o.t.Helper()
	testkit.Eventually(o.t, "rollout "+name+" "+string(phase), func() bool { return o.phase(name) == phase })
}

// phase is where a rollout stands; empty if there is none.
func (o *origin) phase(name string) (now rollout.Phase) {
	o.t.Helper()
	testkit.Must(o.t, o.control.View(context.Background(), func(s *plan.State) {
		if r := s.Find(name); r != nil {
			now = r.Phase
		}
	}))
	return now
}

// ledger reads the log of a server that was stopped.
func (o *origin) ledger() *ledger {
	o.t.Helper()
	return readLedger(o.t, filepath.Join(o.dir, "store"))
}

// replay reads the log as it is, whole.
func (o *origin) head() store.Head {
	o.t.Helper()
	return testkit.Value(o.store.Head(context.Background()))(o.t)
}

// wallClock is the machine's clock with a wall that a test can move.
type wallClock struct {
	mu    sync.Mutex
	since time.Time
	ahead clock.Duration
}

func newWallClock() *wallClock { return &wallClock{since: time.Now()} }

func (c *wallClock) Boot() (string, clock.Duration, error) {
	return "boot-1", clock.FromStd(time.Since(c.since)), nil
}

func (c *wallClock) Wall() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return testfleet.Now().Add(c.ahead)
}

func (c *wallClock) move(d clock.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = d
}

// box is one host: a real agent with its folders.
type box struct {
	t     testing.TB
	name  string
	clock *wallClock
	state string
	root  string
	dial  uplink.Dialer
	// hosting is where containers run; none by default.
	hosting hosting.Config
	log     *slog.Logger

	agent  *daemon.Agent
	cancel context.CancelFunc
	done   chan error
}

func newBox(t testing.TB, o *origin, name string) *box {
	t.Helper()
	b := &box{t: t, name: name, clock: newWallClock(), state: filepath.Join(t.TempDir(), "state"), root: t.TempDir(), log: loud()}
	b.enrol(o.token(name))
	return b
}

func (b *box) enrol(token string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	testkit.Value(daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: b.state, Token: token, Clock: b.clock, Light: true, Log: b.log}))(b.t)
}

func (b *box) start() *box {
	b.t.Helper()
	b.agent = testkit.Value(daemon.Open(daemon.Config{
		StateDir: b.state, Root: b.root, Clock: b.clock, Light: b.hosting.Engine == "", Version: "e2e", Dial: b.dial, Log: b.log, Hosting: b.hosting,
	}))(b.t)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan error, 1)
	go func(a *daemon.Agent) { b.done <- a.Run(ctx) }(b.agent)
	b.t.Cleanup(b.stop)
	return b
}

func (b *box) stop() {
	if b.agent == nil {
		return
	}
	if b.t.Failed() {
		st := b.agent.Status()
		b.t.Logf("agent %s was in %+v; refused %q, the server's error %q, %d of %d events acknowledged", b.name, st.Machine, st.Refused, st.Server, st.AckedSeq, st.LastSeq)
	}
	b.cancel()
	if err := <-b.done; err != nil {
		b.t.Errorf("agent %s ended: %v", b.name, err)
	}
	testkit.Must(b.t, b.agent.Close())
	b.agent = nil
}

// loud is a log on stderr if STEADY_LOUD is set.
func loud() *slog.Logger {
	if os.Getenv("STEADY_LOUD") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
