package daemon

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// server is the agent API over real TLS with real documents. It checks chains
// and heads as a real one would; what it grants, the test says.
type server struct {
	t        testing.TB
	keys     signers
	root     []byte
	serverCA *identity.Authority
	hostCA   *identity.Authority
	http     *httptest.Server

	mu       sync.Mutex
	release  release
	packs    map[digest.Digest][]byte // bundles and blobs
	offer    *wire.Dispatch
	term     uint64 // of offers
	claimed  map[string]bool
	down     bool
	renamed  string // what tokens say that their host was called
	tamper   func(path string, body []byte) []byte
	chains   map[uint64]*hostChain // by incarnation
	beats    int
	parked   string         // the code in the latest heartbeat
	damaged  bool           // hosts may sign with a key that is not theirs
	interval clock.Duration // of heartbeats, 0 is the agent's own
	life     time.Duration  // of certificates
	serials  map[string]bool
	stamp    uint64 // hinted by heartbeats
	facts    bool   // heartbeats ask for them
	reports  []wire.BootstrapReport
	only     string        // the host that is offered something; empty is any
	offered  int           // how often
	held     int           // polls
	wait     time.Duration // of polls
	root2    []byte        // the root that follows, if any
	nars     *narServer    // archives of store paths, if any
}

type hostChain struct {
	key    ed25519.PublicKey
	host   string
	chain  identity.Chain
	events []wire.Event
	hashes [][32]byte // after each event; hashes[i] belongs to events[i]

	signature []byte // of the last head
}

func (c *hostChain) head() *wire.Head {
	return &wire.Head{Seq: c.chain.Seq, Hash: c.chain.Hash[:], Signature: c.signature}
}

func newServer(t testing.TB) *server {
	s := &server{
		t: t, term: 1, keys: newSigners(), packs: map[digest.Digest][]byte{}, claimed: map[string]bool{},
		chains: map[uint64]*hostChain{}, serials: map[string]bool{}, wait: 2 * time.Second,
	}
	s.root = testkit.Value(s.keys.First())(t)
	dir := t.TempDir()
	s.serverCA = testkit.Value(identity.CreateAuthority(identity.FileKeys{}, dir, identity.Servers, testFleet, time.Now()))(t)
	s.hostCA = testkit.Value(identity.CreateAuthority(identity.FileKeys{}, dir, identity.Hosts, testFleet, time.Now()))(t)
	key := testkit.Value(identity.NewKey())(t)
	certPEM := testkit.Value(s.serverCA.IssueServer([]string{"127.0.0.1"}, key.Public(), time.Now(), 0))(t)
	pair := testkit.Value(identity.Pair(certPEM, key))(t)
	conf := testkit.Value(identity.ServerTLS(identity.ServerOptions{
		Fleet: testFleet, HostCA: s.hostCA.Pool(),
		Certificate: func() (*tls.Certificate, error) { return pair, nil },
		Revoked:     func(string, *x509.Certificate) error { return nil },
	}))(t)
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	conf.Certificates = []tls.Certificate{*pair} // else httptest adds its own
	s.http.TLS = conf
	s.http.EnableHTTP2 = true
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.StartTLS()
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

func (s *server) token(host string) string {
	return identity.TokenText{
		Envelope: testkit.Value(s.keys.Token(host, s.root, func(t *identity.Token) { t.RenamedFrom = s.renamed }))(s.t), Server: s.http.URL, ServerCA: s.serverCA.PEM(), Root: s.root,
	}.String()
}

// publish makes a release the newest, with the packs it names.
func (s *server) publish(r release, packs ...pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release = r
	for _, p := range packs {
		s.packs[p.digest] = p.raw
		for d, b := range p.blobs {
			s.packs[d] = b
		}
	}
}

// grant offers one host to act under the present release.
func (s *server) grant(id string, purpose host.Purpose, failures ...wire.FailureProof) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer = &wire.Dispatch{
		Grant: id, Purpose: purpose, Rollout: s.release.manifest.Rollout(), Manifest: s.release.digest,
		Term: s.term, TTL: 10 * clock.Minute, Reason: "test", Failures: failures,
	}
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 2<<20))
	if err != nil {
		return
	}
	p := r.URL.Path
	switch p {
	case wire.RouteEnrol:
		s.enrol(w, body)
		return
	case wire.RouteBootstrapReport:
		var m wire.BootstrapReport
		if json.Unmarshal(body, &m) == nil {
			s.set(func() { s.reports = append(s.reports, m) })
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	name, err := identity.PeerHost(r.TLS, testFleet)
	if err != nil {
		problem(w, http.StatusForbidden, err.Error())
		return
	}
	s.set(func() { s.serials[r.TLS.PeerCertificates[0].SerialNumber.String()] = true })
	switch {
	case p == wire.RouteDispatch:
		s.dispatch(w, r, name)
	case p == wire.RouteClaim:
		s.claim(w, body)
	case p == wire.RouteEvents:
		s.events(w, name, body)
	case p == wire.RouteHeartbeat:
		s.heartbeat(w, body)
	case p == wire.RouteRenew:
		var m wire.Renew
		if json.Unmarshal(body, &m) != nil {
			problem(w, http.StatusBadRequest, "not a request")
			return
		}
		cert, err := s.hostCA.IssueHost(m.CSR, name, 1, time.Now(), 0)
		if err != nil {
			problem(w, http.StatusBadRequest, err.Error())
			return
		}
		s.answer(w, p, wire.Certificate{Chain: cert, Incarnation: 1})
	default:
		s.document(w, r, p, name)
	}
}

func (s *server) document(w http.ResponseWriter, r *http.Request, p, name string) {
	s.mu.Lock()
	rel := s.release
	content := s.packs[digest.Digest(path.Base(p))]
	if p == wire.RouteTrust+"2.root.json" {
		content = s.root2
	}
	s.mu.Unlock()
	switch {
	case p == wire.RouteTrust+wire.TrustTimestamp && rel.stamp != nil:
		s.raw(w, p, rel.stamp)
	case p == wire.RouteTrust+wire.TrustResolved && rel.resolved != nil:
		s.raw(w, p, rel.resolved)
	case strings.HasPrefix(p, wire.RouteRollouts) && path.Base(p) == rel.manifest.Rollout():
		s.answer(w, p, wire.HostManifest{Envelope: rel.envelope, Leaf: rel.leaf(s.t, name)})
	case strings.HasPrefix(p, wire.RouteNars) && s.nars != nil:
		s.nars.serve(w, r)
	case (strings.HasPrefix(p, wire.RouteBundles) || strings.HasPrefix(p, wire.RouteBlobs) || strings.HasSuffix(p, ".root.json")) && content != nil:
		s.raw(w, p, content)
	default:
		problem(w, http.StatusNotFound, "there is no "+p)
	}
}

func (s *server) raw(w http.ResponseWriter, p string, b []byte) {
	s.mu.Lock()
	tamper := s.tamper
	s.mu.Unlock()
	if tamper != nil {
		b = tamper(p, b)
	}
	_, _ = w.Write(b)
}

func (s *server) answer(w http.ResponseWriter, p string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		problem(w, 500, err.Error())
		return
	}
	s.raw(w, p, b)
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(wire.Problem{Title: http.StatusText(status), Status: status, Detail: detail})
}

func (s *server) enrol(w http.ResponseWriter, body []byte) {
	var m wire.Enrol
	if err := json.Unmarshal(body, &m); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	var env struct {
		Payload []byte `json:"payload"`
	}
	var tok identity.Token
	if json.Unmarshal(m.Token, &env) != nil || json.Unmarshal(env.Payload, &tok) != nil {
		problem(w, http.StatusForbidden, "no token")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	inc := uint64(len(s.chains) + 1)
	cert, err := s.hostCA.IssueHost(m.CSR, tok.Host, inc, time.Now(), s.life)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	s.chains[inc] = &hostChain{key: m.EventKey, host: tok.Host, chain: identity.Genesis(testFleet, tok.Host, inc)}
	_ = json.NewEncoder(w).Encode(wire.Certificate{Chain: cert, Incarnation: inc})
}

// dispatch answers with the offer while it is not claimed, or holds the request.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request, name string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := s.hold()
	defer s.set(func() { s.held-- })
	defer limit.Stop()
	for {
		s.mu.Lock()
		o, down := s.offer, s.down
		if s.only != "" && s.only != name {
			o = nil
		}
		if o != nil {
			s.offered++
		}
		s.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		if o != nil {
			s.answer(w, wire.RouteDispatch, o)
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// hold begins a poll.
func (s *server) hold() *time.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	return time.NewTimer(s.wait)
}

func (s *server) claim(w http.ResponseWriter, body []byte) {
	var m wire.Claim
	if json.Unmarshal(body, &m) != nil {
		problem(w, http.StatusBadRequest, "not a claim")
		return
	}
	s.mu.Lock()
	ok := s.claimed[m.Grant] || (s.offer != nil && s.offer.Grant == m.Grant)
	if ok {
		s.claimed[m.Grant] = true
		s.offer = nil
	}
	s.mu.Unlock()
	s.answer(w, wire.RouteClaim, wire.ClaimAnswer{Accepted: ok, Reason: "the grant is over"})
}

func (s *server) events(w http.ResponseWriter, name string, body []byte) {
	var m wire.EventBatch
	if err := json.Unmarshal(body, &m); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chains[m.Incarnation]
	if c == nil || c.host != name || len(m.Events) == 0 {
		problem(w, http.StatusForbidden, "no such chain")
		return
	}
	refuse := func(why string) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(wire.EventAck{Acked: c.chain.Seq, Reason: why, Head: c.head()})
	}
	if at := m.Head.Seq; at <= uint64(len(c.hashes)) && (at == 0 || string(c.hashes[at-1][:]) != string(m.Head.Hash)) {
		refuse("the host reported other events before")
		return
	}
	if m.Events[0].Seq > c.chain.Seq+1 {
		refuse("there is a gap")
		return
	}
	next := c.chain
	var fresh []wire.Event
	var hashes [][32]byte
	for _, e := range m.Events {
		if e.Seq <= c.chain.Seq { // sent again: must be the same
			continue
		}
		if e.Seq != next.Seq+1 {
			refuse("events are not consecutive")
			return
		}
		next = next.Next(e.At, e.Type, e.Body)
		fresh, hashes = append(fresh, e), append(hashes, next.Hash)
	}
	if next.Seq == m.Head.Seq {
		if string(next.Hash[:]) != string(m.Head.Hash) {
			s.t.Errorf("host %s: the events do not lead to the head at %d", name, m.Head.Seq)
		}
		err := identity.VerifyHead(c.key, testFleet, name, m.Incarnation, next, m.Head.Signature)
		if err != nil && s.damaged {
			refuse(err.Error())
			return
		}
		if err != nil {
			s.t.Errorf("host %s: %v", name, err)
		}
	}
	c.signature = m.Head.Signature
	c.chain, c.events, c.hashes = next, append(c.events, fresh...), append(c.hashes, hashes...)
	_ = json.NewEncoder(w).Encode(wire.EventAck{Acked: c.chain.Seq})
}

func (s *server) heartbeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats
}

func (s *server) heartbeat(w http.ResponseWriter, body []byte) {
	var m wire.Heartbeat
	if json.Unmarshal(body, &m) != nil {
		problem(w, http.StatusBadRequest, "not a heartbeat")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	s.parked = m.Parked
	reply := wire.HeartbeatReply{TimestampVersion: s.stamp, Interval: s.interval, Facts: s.facts}
	if c := s.chains[m.Incarnation]; c != nil {
		reply.Acked = c.chain.Seq
		if m.LastSeq < c.chain.Seq {
			reply.Head = c.head()
		}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// reported returns the events of a type, in order.
func reported[E event.Event](s *server) []E {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []E
	for inc := uint64(1); inc <= uint64(len(s.chains)); inc++ {
		for _, e := range s.chains[inc].events {
			v, err := event.DecodeBody(e.Type, e.Body)
			if err != nil {
				s.t.Error(err)
			}
			if typed, ok := v.(E); ok {
				out = append(out, typed)
			}
		}
	}
	return out
}
