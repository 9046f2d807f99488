package nodes

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"time"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/nodesdk"
)

// Bounds of a hello.
const (
	maxHello = 128 << 10
	maxText  = 200 // of a field
)

// refusedError is a connection that is refused, or ended, with its code.
type refusedError struct{ nodesdk.Refused }

func (e *refusedError) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) *refusedError {
	return &refusedError{nodesdk.Refused{Code: code, Message: fmt.Sprintf(format, args...), Final: true}}
}

// later asks a node to try again, each at another time.
func later(code, message string) *refusedError { return after(code, message, time.Second) }

// after is later that is not before a time is over.
func after(code, message string, least time.Duration) *refusedError {
	return &refusedError{nodesdk.Refused{Code: code, Message: message, RetryAfter: least.Milliseconds() + int64(mathrand.IntN(9000))}}
}

// introduce has whoever is there say hello within a time, and prove the key.
func (h *Hub) introduce(l *link, exporter []byte, within time.Duration) (in drift.Connected, token []byte, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, within)
	defer cancel()
	if l.conn.Subprotocol() != nodesdk.Subprotocol {
		return in, nil, refuse(nodesdk.CodeVersion, "the server speaks %s", nodesdk.Subprotocol)
	}
	l.conn.SetReadLimit(maxHello)
	c := nodesdk.Challenge{Versions: []int{nodesdk.Version}, Fleet: h.server.Fleet(), Nonce: make([]byte, 32), Term: h.server.Term()}
	rand.Read(c.Nonce)
	if err := l.write(ctx, &nodesdk.Message{Type: nodesdk.TypeChallenge, Challenge: &c}); err != nil {
		return in, nil, err
	}
	_, raw, err := l.conn.Read(ctx)
	if err != nil {
		return in, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	m, err := decode(raw)
	if err != nil || m.Hello == nil || m.Type != nodesdk.TypeHello {
		return in, nil, refuse(nodesdk.CodeMalformed, "expected a hello")
	}
	in, err = connected(m.Hello, c, exporter)
	return in, m.Hello.Token, err
}

// welcome begins the session of a node when its turn comes.
func (h *Hub) welcome(l *link, from netip.Addr, in drift.Connected, token []byte) error {
	if !h.begins.take(l.ctx, from) {
		return after(nodesdk.CodeUnavailable, "too many nodes connect at a time", h.retries.within(h.limits.Pace, comeWithin))
	}
	ctx, cancel := context.WithTimeout(l.ctx, h.limits.Handshake)
	defer cancel()
	if err := h.begin(ctx, l, in, token); err != nil {
		return err
	}
	l.conn.SetReadLimit(nodesdk.MaxFromNode)
	w := nodesdk.Welcome{Session: l.session, Term: h.server.Term(), ReconnectWithin: h.limits.reconnectWithin(h.server.Nodes()).Milliseconds()}
	if err := l.write(ctx, &nodesdk.Message{Type: nodesdk.TypeWelcome, Welcome: &w}); err != nil {
		l.end(err)
		return err
	}
	return nil
}

// begin has the server admit the node. That it was refused is an event of the node where the key was its own.
func (h *Hub) begin(ctx context.Context, l *link, in drift.Connected, token []byte) (err error) {
	if len(token) > 0 {
		err = h.server.RegisterNode(ctx, in.Node, in.Key, token)
	}
	if err == nil {
		l.node, l.key = in.Node, in.Key
		l.session, err = h.server.ConnectNode(ctx, in)
	}
	if err == nil {
		l.rates = h.ratesOf(in.Node)
		return nil
	}
	no := h.refused(in.Node, err)
	if decided, ok := errors.AsType[*drift.Refusal](err); ok && decided.Code != drift.CodeForbidden {
		err := h.server.ReportNode(ctx, drift.Refused{Node: in.Node, Code: no.Code, Detail: line(no.Message)})
		if _, often := limited(err); err != nil && !often {
			h.log.Warn("that a node was refused is not in the log", "node", in.Node, "err", err)
		}
	}
	return no
}

// codes are those of the protocol for refusals of the server; any other is forbidden.
var codes = map[string]string{drift.CodeInvalid: nodesdk.CodeCollection, drift.CodeNumber: nodesdk.CodeMalformed}

// refused words an error of the server for a node, and has some of them in the server's log.
func (h *Hub) refused(node string, err error) *refusedError {
	cause, no := "", later(nodesdk.CodeUnavailable, "the server cannot do it now")
	if decided, ok := errors.AsType[*drift.Refusal](err); ok {
		cause = decided.Cause
		if no = refuse(cmp.Or(codes[decided.Code], nodesdk.CodeForbidden), "%s", decided.Message); decided.Code == drift.CodeTooMuch {
			no = after(nodesdk.CodeTooMuch, decided.Message, decided.After.Std())
		}
	} else if put, ok := errors.AsType[*wire.Refusal](err); ok {
		no = later(nodesdk.CodeUnavailable, put.Message)
	}
	h.mu.Lock()
	noted, left := h.refusals.Note(h.instant())
	h.mu.Unlock()
	if noted {
		h.log.Warn("a node was refused, or is asked to come later", "node", node, "code", no.Code, "err", err, "cause", cause, "unlogged", left)
	}
	return no
}

// connected checks all of a hello that needs no state.
func connected(hello *nodesdk.Hello, c nodesdk.Challenge, exporter []byte) (in drift.Connected, err error) {
	switch {
	case hello.Version != nodesdk.Version:
		return in, refuse(nodesdk.CodeVersion, "the node speaks version %d of the protocol, the server %d: update one of them", hello.Version, nodesdk.Version)
	case len(hello.Key) != ed25519.PublicKeySize, fleet.CheckName(hello.Node) != nil:
		return in, refuse(nodesdk.CodeMalformed, "the node has no proper name or key")
	case !ed25519.Verify(hello.Key, nodesdk.SignedHello(c, hello.Node, hello.Key, exporter), hello.Signature):
		return in, refuse(nodesdk.CodeForbidden, "the signature is not that of the key, for this connection: something stands between node and server")
	}
	for _, text := range []string{hello.Instance, hello.Machine, hello.Driver, hello.Program} {
		if len(text) > maxText {
			return in, refuse(nodesdk.CodeMalformed, "a field of the hello has %d bytes, at most %d are allowed", len(text), maxText)
		}
	}
	in = drift.Connected{Node: hello.Node, Key: hello.Key, Op: hello.Op,
		Instance: line(hello.Instance), Machine: line(hello.Machine), Driver: line(hello.Driver), Version: line(hello.Program)}
	for _, of := range hello.Collections[:min(len(hello.Collections), nodeconfig.MaxKinds+1)] {
		in.Collections = append(in.Collections, collection(of))
	}
	if err := drift.CheckCollections(in.Collections); err != nil {
		return in, refuse(nodesdk.CodeCollection, "%v", err)
	}
	return in, nil
}

// collection is one as the log has it: what is empty is left out there.
func collection(c nodesdk.Collection) event.NodeCollection {
	some := func(list []string) []string {
		if len(list) == 0 {
			return nil
		}
		return list
	}
	out := event.NodeCollection{Kind: c.Kind, Rules: nodeconfig.Rules{Secrets: some(c.Secrets), Ignored: some(c.Ignored), Ports: some(c.Ports)}}
	if len(c.Sets) > 0 {
		out.Sets = c.Sets
	}
	return out
}

// line cleans and bounds a text of a node.
func line(s string) string { return prose.Line(s[:min(len(s), maxDetail)]) }

// maxDetail bounds what a node says for people, in bytes.
const maxDetail = 1000

// refuse tells the node why its connection ends, where it is not gone.
func (l *link) refuse(err error) {
	no, ok := errors.AsType[*refusedError](err)
	switch {
	case ok:
	case errors.Is(err, errStopping):
		no = later(nodesdk.CodeUnavailable, err.Error())
	case errors.Is(err, errReplaced):
		no = later(nodesdk.CodeReplaced, err.Error())
	case errors.Is(err, errTooMuch):
		no = later(nodesdk.CodeTooMuch, err.Error())
	default:
		return
	}
	l.h.metrics.refused.WithLabelValues(no.Code).Inc()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = l.write(ctx, &nodesdk.Message{Type: nodesdk.TypeRefused, Refused: &no.Refused}) // it may be gone
	_ = l.conn.CloseNow()
}

// farewell is how long the last message of a connection may take.
const farewell = 2 * time.Second
