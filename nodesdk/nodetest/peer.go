package nodetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/nodesdk"
)

// Peer is the server's end of the protocol, for tests: real TLS 1.3 and WebSockets on
// 127.0.0.1. It accepts the first key that a node offers and any that the node announced,
// and does what a test has it do.
type Peer struct {
	// Address is where nodes dial, RootCAs verify it.
	Address string
	RootCAs *x509.CertPool

	server   *http.Server
	sessions chan *Session

	mu     sync.Mutex
	term   uint64
	keys   []ed25519.PublicKey
	frames [][]byte // all that nodes sent
	refuse *nodesdk.Refused
	number uint64
}

// Session is one connection of a node that was welcomed.
type Session struct {
	Hello nodesdk.Hello

	peer    *Peer
	conn    *websocket.Conn
	ended   chan struct{}
	answers map[uint64]chan nodesdk.Answer
	mu      sync.Mutex
	next    uint64
	// Events are what the node sent by itself.
	Events chan nodesdk.Message
}

const peerFleet = "nodetest"

// NewPeer starts one. Close ends it.
func NewPeer() (*Peer, error) {
	cert, pool, err := certificate()
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
	})
	if err != nil {
		return nil, err
	}
	p := &Peer{Address: listener.Addr().String(), RootCAs: pool, sessions: make(chan *Session, 64), term: 1}
	mux := http.NewServeMux()
	mux.HandleFunc(nodesdk.Path, p.accept)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Close ends the peer and its connections.
func (p *Peer) Close() error { return p.server.Close() }

// SetTerm sets the term of which the server is from the next connection on.
func (p *Peer) SetTerm(term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = term
}

// Refuse has the next connections refused; nil ends that.
func (p *Peer) Refuse(with *nodesdk.Refused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = with
}

// Forget takes back that keys were announced, as a server does that crashed before it made
// that durable. The first one stays.
func (p *Peer) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = p.keys[:min(1, len(p.keys))]
}

// Frames returns all that nodes sent, as it came.
func (p *Peer) Frames() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.frames)
}

// Session returns the next connection that was welcomed.
func (p *Peer) Session(ctx context.Context) (*Session, error) {
	select {
	case s := <-p.sessions:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("no node connected: %w", ctx.Err())
	}
}

func (p *Peer) accept(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{nodesdk.Subprotocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow() //nolint:errcheck // it is a test's
	conn.SetReadLimit(nodesdk.MaxFromNode)
	hello, refused, err := p.handshake(r, conn)
	if err != nil {
		return
	}
	if refused != nil {
		_ = write(r.Context(), conn, nodesdk.Message{Type: nodesdk.TypeRefused, Refused: refused})
		_ = conn.Close(websocket.StatusPolicyViolation, refused.Code)
		return
	}
	p.mu.Lock()
	p.number++
	welcome := nodesdk.Welcome{Session: p.number, Term: p.term}
	p.mu.Unlock()
	s := &Session{Hello: *hello, peer: p, conn: conn, ended: make(chan struct{}), answers: map[uint64]chan nodesdk.Answer{}, Events: make(chan nodesdk.Message, 4096)}
	if write(r.Context(), conn, nodesdk.Message{Type: nodesdk.TypeWelcome, Welcome: &welcome}) != nil {
		return
	}
	p.sessions <- s
	s.receive(r.Context())
}

func (p *Peer) handshake(r *http.Request, conn *websocket.Conn) (*nodesdk.Hello, *nodesdk.Refused, error) {
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce)
	p.mu.Lock()
	c := nodesdk.Challenge{Versions: []int{nodesdk.Version}, Fleet: peerFleet, Nonce: nonce, Term: p.term}
	refuse := p.refuse
	p.mu.Unlock()
	if err := write(r.Context(), conn, nodesdk.Message{Type: nodesdk.TypeChallenge, Challenge: &c}); err != nil {
		return nil, nil, err
	}
	m, err := p.read(r.Context(), conn)
	if err != nil {
		return nil, nil, err
	}
	if refuse != nil {
		return nil, refuse, nil
	}
	h := m.Hello
	exporter, err := r.TLS.ExportKeyingMaterial(nodesdk.ExporterLabel, nil, 32)
	if err != nil || h == nil || len(h.Key) != ed25519.PublicKeySize ||
		!ed25519.Verify(h.Key, nodesdk.SignedHello(c, h.Node, h.Key, exporter), h.Signature) {
		return nil, &nodesdk.Refused{Code: nodesdk.CodeForbidden, Message: "the signature is wrong"}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.keys) == 0 {
		p.keys = append(p.keys, h.Key)
	}
	if !slices.ContainsFunc(p.keys, func(k ed25519.PublicKey) bool { return k.Equal(ed25519.PublicKey(h.Key)) }) {
		return nil, &nodesdk.Refused{Code: nodesdk.CodeForbidden, Message: "the key is unknown"}, nil
	}
	return h, nil, nil
}

func (p *Peer) read(ctx context.Context, conn *websocket.Conn) (nodesdk.Message, error) {
	_, raw, err := conn.Read(ctx)
	if err != nil {
		return nodesdk.Message{}, err
	}
	p.mu.Lock()
	p.frames = append(p.frames, raw)
	p.mu.Unlock()
	return nodesdk.DecodeMessage(raw)
}

func write(ctx context.Context, conn *websocket.Conn, m nodesdk.Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, raw)
}

// receive hands answers to those who wait, until the connection ends.
func (s *Session) receive(ctx context.Context) {
	defer close(s.ended)
	for {
		m, err := s.peer.read(ctx, s.conn)
		if err != nil {
			return
		}
		switch m.Type {
		case nodesdk.TypeAnswer:
			s.mu.Lock()
			to := s.answers[m.ID]
			delete(s.answers, m.ID)
			s.mu.Unlock()
			if to != nil && m.Answer != nil {
				to <- *m.Answer
			}
			continue
		case nodesdk.TypeNextKey:
			s.peer.announced(&s.Hello, m.NextKey)
		}
		s.Events <- m
	}
}

func (p *Peer) announced(h *nodesdk.Hello, next *nodesdk.NextKey) {
	if next == nil || len(next.Key) != ed25519.PublicKeySize || !ed25519.Verify(next.Key, nodesdk.SignedNextKey(h.Node, h.Key, next.Key), next.Proof) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, next.Key)
}

// errEnded means that the connection ended before the answer.
var errEnded = errors.New("the connection ended")

// Send sends a request, and returns where its answer comes. It does not wait for that of
// the one before.
func (s *Session) Send(ctx context.Context, r nodesdk.Request) (<-chan nodesdk.Answer, error) {
	s.mu.Lock()
	s.next++
	id, to := s.next, make(chan nodesdk.Answer, 1)
	s.answers[id] = to
	s.mu.Unlock()
	return to, write(ctx, s.conn, nodesdk.Message{Type: nodesdk.TypeRequest, ID: id, Request: &r})
}

// Request sends a request and returns the answer.
func (s *Session) Request(ctx context.Context, r nodesdk.Request) (nodesdk.Answer, error) {
	to, err := s.Send(ctx, r)
	if err != nil {
		return nodesdk.Answer{}, err
	}
	select {
	case a := <-to:
		return a, nil
	case <-s.ended:
		return nodesdk.Answer{}, errEnded
	case <-ctx.Done():
		return nodesdk.Answer{}, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// Cut ends the connection without a word.
func (s *Session) Cut() { _ = s.conn.CloseNow() }

// Ended is closed when the connection ended.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// certificate makes one for 127.0.0.1 and the pool that verifies it.
func certificate() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: peerFleet},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool, nil
}
