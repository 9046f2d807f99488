package nodesdk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Times of a session.
const (
	handshakeTimeout = 20 * time.Second
	writeTimeout     = 30 * time.Second
	pingInterval     = 20 * time.Second
	pongTimeout      = 10 * time.Second
	rotateInterval   = 2 * time.Second
)

// Bounds of what waits for the device.
const (
	maxQueued      = 1024 // requests
	maxQueuedBytes = 8 << 20
)

// refusedError is a refusal of the server.
type refusedError struct{ Refused }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the server refused the node (%s): %s", e.Code, e.Message)
}

// errTerm means that the server is one that was superseded.
var errTerm = errors.New("the server is of an older term than the node has seen: it is not the fleet's server any more")

// session is one connection.
type session struct {
	n     *node
	conn  *websocket.Conn
	queue chan Message
	bytes chan int // free for requests that wait
}

// connect dials, proves the node's identity and serves until the connection ends.
func (n *node) connect(ctx context.Context) (welcomed bool, err error) {
	target, err := n.cfg.url()
	if err != nil {
		return false, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext:     n.cfg.Dial,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: n.cfg.RootCAs, NextProtos: []string{"http/1.1"}, ClientSessionCache: n.resume},
	}
	defer transport.CloseIdleConnections()
	conn, resp, err := websocket.Dial(dialCtx, target, &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Subprotocols: []string{Subprotocol},
	})
	if err != nil {
		return false, cmp.Or(busy(resp), fmt.Errorf("connect: %w", err))
	}
	defer conn.CloseNow() //nolint:errcheck // nothing is lost: what counts was answered
	conn.SetReadLimit(MaxFromServer)
	if conn.Subprotocol() != Subprotocol {
		return false, fmt.Errorf("connect: the server does not speak %s", Subprotocol)
	}
	exporter, err := resp.TLS.ExportKeyingMaterial(ExporterLabel, nil, 32)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	s := &session{n: n, conn: conn, queue: make(chan Message, maxQueued), bytes: make(chan int, 1)}
	foreign := n.device.foreign()
	if err := s.handshake(dialCtx, exporter); err != nil {
		return false, err
	}
	return true, s.serve(ctx, foreign)
}

// maxBusy bounds what a server says of why it is busy, in bytes.
const maxBusy = 200

// busy is the answer of a server that has the node come later (RFC 9110 section 10.2.3), or nil.
func busy(resp *http.Response) error {
	if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(resp.Body, maxBusy)) // without it there is still the time
	return &refusedError{Refused{Code: CodeUnavailable, Message: strings.TrimSpace(string(why)), RetryAfter: int64(seconds) * 1000}}
}

// handshake answers the challenge and awaits the welcome.
func (s *session) handshake(ctx context.Context, exporter []byte) error {
	m, err := s.read(ctx)
	if err != nil {
		return err
	}
	c := m.Challenge
	if m.Type != TypeChallenge || c == nil || len(c.Nonce) < 16 {
		return fmt.Errorf("expected a challenge, got %q", m.Type)
	}
	if !slices.Contains(c.Versions, Version) {
		return fmt.Errorf("the server speaks version %v of the protocol, the node %d: update one of them", c.Versions, Version)
	}
	d := s.n.device
	d.mu.Lock()
	stale := c.Term < d.st.ops.Term
	hello := s.n.hello(c, exporter)
	d.mu.Unlock()
	if stale {
		return errTerm
	}
	if err := s.write(ctx, Message{Type: TypeHello, Hello: hello}); err != nil {
		return err
	}
	if m, err = s.read(ctx); err != nil {
		return err
	}
	if m.Type != TypeWelcome || m.Welcome == nil {
		return fmt.Errorf("expected a welcome, got %q", m.Type)
	}
	if m.Welcome.Term < c.Term {
		return errTerm
	}
	return s.n.welcomed(m.Welcome)
}

// hello is called with the device's lock.
func (n *node) hello(c *Challenge, exporter []byte) *Hello {
	id := &n.device.st.id
	n.offered = id.Key
	if id.Next != nil && !n.nextRefused {
		n.offered = id.Next
	}
	key := ed25519.NewKeyFromSeed(n.offered)
	public := []byte(key.Public().(ed25519.PublicKey))
	h := &Hello{
		Version: Version, Node: n.cfg.Name, Key: public, Instance: n.device.instance(), Machine: n.cfg.Machine,
		Driver: n.cfg.DriverName, Program: n.cfg.Program, Op: n.device.st.ops.Op, Collections: n.cfg.Collections,
		Signature: ed25519.Sign(key, SignedHello(*c, n.cfg.Name, public, exporter)),
	}
	if !id.Registered {
		h.Token = n.cfg.Token
	}
	return h
}

// welcomed makes durable what a welcome says: the node is registered, with the key that it
// offered.
func (n *node) welcomed(w *Welcome) error {
	n.reconnectWithin = min(time.Duration(max(w.ReconnectWithin, 0))*time.Millisecond, reconnectMost)
	d := n.device
	d.mu.Lock()
	defer d.mu.Unlock()
	id := &d.st.id
	switched := bytes.Equal(n.offered, id.Next)
	if switched {
		id.Key, id.Next = id.Next, nil
		n.switchAfter = 0
	}
	if switched || !id.Registered {
		id.Registered = true
		if err := d.st.saveIdentity(); err != nil {
			return err
		}
	}
	if w.Term > d.st.ops.Term {
		d.st.ops.Term = w.Term
		return d.st.saveOps()
	}
	return nil
}

// serve answers requests one after another until the connection ends.
func (s *session) serve(ctx context.Context, foreign uint64) error {
	s.n.log.Info("connected to the server", "node", s.n.cfg.Name, "server", s.n.cfg.Server)
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	run := func(f func(context.Context) error) {
		group.Go(func() { cancel(f(ctx)) })
	}
	s.bytes <- maxQueuedBytes
	run(s.receive)
	run(s.ping)
	run(func(ctx context.Context) error { return s.notify(ctx, foreign) })
	err := s.work(ctx)
	cancel(err)
	_ = s.conn.CloseNow()
	group.Wait()
	return context.Cause(ctx)
}

// receive reads frames; what it does not know it passes over.
func (s *session) receive(ctx context.Context) error {
	for {
		m, err := s.read(ctx)
		if err != nil {
			return err
		}
		if m.Type != TypeRequest || m.Request == nil {
			s.n.log.Info("a message of an unknown type is passed over", "type", s.n.device.clean(fmt.Sprintf("%.40q", m.Type)))
			continue
		}
		size := sizeOf(m)
		free := <-s.bytes
		s.bytes <- free - size
		if free < size || len(s.queue) == cap(s.queue) {
			return errors.New("the server sent more requests than the node lets wait")
		}
		s.queue <- m
	}
}

func sizeOf(m Message) int {
	n := 256
	if a := m.Request.Apply; a != nil {
		n += len(a.Config)
	}
	if v := m.Request.Validate; v != nil {
		n += len(v.Config)
	}
	return n
}

// work does what is requested, in order.
func (s *session) work(ctx context.Context) error {
	for {
		var m Message
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m = <-s.queue:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.bytes <- <-s.bytes + sizeOf(m)
		a := s.n.answer(ctx, m.Request)
		if a == nil {
			s.n.log.Info("a request of an unknown kind is answered with nothing", "id", m.ID)
			a = &Answer{}
		}
		if err := s.write(ctx, Message{Type: TypeAnswer, ID: m.ID, Answer: a}); err != nil {
			return err
		}
	}
}

func (n *node) answer(ctx context.Context, r *Request) *Answer {
	switch {
	case r.Snapshot != nil:
		return &Answer{Snapshot: n.device.snapshot(ctx)}
	case r.Apply != nil:
		return &Answer{Applied: n.device.apply(ctx, r.Apply)}
	case r.Validate != nil:
		return &Answer{Validated: n.device.validate(ctx, r.Validate)}
	}
	return nil
}

// notify sends what the server did not ask for.
func (s *session) notify(ctx context.Context, foreign uint64) error {
	d, sent := s.n.device, map[string]Effect{}
	tick := time.NewTicker(rotateInterval)
	defer tick.Stop()
	var switchAt <-chan time.Time // to the next key, once it was announced
	for {
		if now := d.foreign(); now != foreign {
			foreign = now
			d.mu.Lock()
			generation := d.st.ops.Generation
			d.mu.Unlock()
			if err := s.write(ctx, Message{Type: TypeChanged, Changed: &Changed{Generation: generation}}); err != nil {
				return err
			}
		}
		for _, e := range d.unsent(sent) {
			if err := s.write(ctx, Message{Type: TypeEffect, Effect: &e}); err != nil {
				return err
			}
			sent[keyOf(e.Kind, e.ID)] = e
		}
		if switchAt == nil {
			next, err := s.n.announcement()
			if err != nil {
				return err
			}
			if next != nil {
				if err := s.write(ctx, Message{Type: TypeNextKey, NextKey: next}); err != nil {
					return err
				}
				switchAt = time.After(s.n.switchDelay())
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.events.wake:
		case <-tick.C: // for a key that somebody wants
		case <-switchAt:
			return errSwitch
		}
	}
}

func (d *device) foreign() uint64 {
	d.events.Lock()
	defer d.events.Unlock()
	return d.events.foreign
}

// unsent lists effects other than those that were sent, and forgets those of objects that
// are gone.
func (d *device) unsent(sent map[string]Effect) (out []Effect) {
	d.events.Lock()
	defer d.events.Unlock()
	for key := range sent {
		if _, there := d.events.effects[key]; !there {
			delete(sent, key)
		}
	}
	for key, e := range d.events.effects {
		if was, there := sent[key]; !there || was.Effect != e.Effect {
			out = append(out, e)
		}
	}
	return out
}

// ping ends a session whose other side is silent.
func (s *session) ping(ctx context.Context) error {
	for wait(ctx, pingInterval) {
		pingCtx, cancel := context.WithTimeout(ctx, pongTimeout)
		err := s.conn.Ping(pingCtx)
		cancel()
		if err != nil {
			return fmt.Errorf("the server does not answer a ping: %w", err)
		}
	}
	return context.Cause(ctx)
}

func (s *session) read(ctx context.Context) (Message, error) {
	kind, raw, err := s.conn.Read(ctx)
	if err != nil {
		return Message{}, fmt.Errorf("the connection ended: %w", err)
	}
	if kind != websocket.MessageText {
		return Message{}, errors.New("the server sent a binary frame")
	}
	m, err := DecodeMessage(raw)
	if err != nil {
		return Message{}, err
	}
	if m.Type == TypeRefused && m.Refused != nil {
		return Message{}, &refusedError{*m.Refused}
	}
	return m, nil
}

func (s *session) write(ctx context.Context, m Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		return fmt.Errorf("the connection ended: %w", err)
	}
	return nil
}
