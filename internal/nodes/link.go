package nodes

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/nodesdk"
)

// link is the connection of a node.
type link struct {
	h       *Hub
	conn    *websocket.Conn
	node    string
	key     ed25519.PublicKey
	session uint64
	ctx     context.Context // ends with the connection, with the reason
	cancel  context.CancelCauseFunc

	awaited   atomic.Uint64 // the number of the request whose answer has not come, or zero
	answers   chan reply    // has room for one
	changed   chan struct{} // the node says that somebody else changed something; room for one
	questions chan *question

	rates    *rates
	refusals int // of messages; of the goroutine that reads

	worker
}

// reply is an answer with what it occupies.
type reply struct {
	nodesdk.Answer
	release func()
}

// question is of an operator, before a change.
type question struct {
	nodesdk.Validate
	answer chan nodesdk.Validated // has room for one
}

func newLink(h *Hub) *link {
	l := &link{h: h, rates: &rates{}, answers: make(chan reply, 1), changed: make(chan struct{}, 1), questions: make(chan *question)}
	l.ctx, l.cancel = context.WithCancelCause(h.ctx)
	return l
}

// Rates of what a node sends, over its connections: a device with as many objects as are allowed reports the
// effect of each when it connects. What it may have logged is the server's to count.
var (
	messageRate = server.RateLimit{Burst: 6 * nodesdk.MaxObjects, Tokens: 100, Per: clock.Second}
	controlRate = server.RateLimit{Burst: 30, Tokens: 1, Per: clock.Second}
)

// rates are how much of them a node has used.
type rates struct {
	mu                      sync.Mutex
	messages, controls, own server.RateBucket
}

// spend takes one of a bucket of r, or returns how long to wait for it.
func (r *rates) spend(b *server.RateBucket, l server.RateLimit, now clock.Instant) clock.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return b.Spend(l, 1, now)
}

// ratesOf are those of a node that there is.
func (h *Hub) ratesOf(node string) *rates {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rates[node]
	if r == nil {
		r = &rates{}
		h.rates[node] = r
	}
	return r
}

const (
	// maxRefusals is how many messages of a connection are refused before it is ended.
	maxRefusals = 3
	// maxFragments bounds the frames of one message.
	maxFragments = 2048
	// leastAway is how long a node stays away that had more logged than its share.
	leastAway = 10 * time.Second
)

func (h *Hub) instant() clock.Instant { return clock.FromTime(h.now()) }

// run serves the connection until it is over.
func (l *link) run() {
	if !l.h.add(l) {
		l.cancel(errReplaced)
	}
	l.h.log.Info("a node connected", "node", l.node, "session", l.session)
	var group sync.WaitGroup
	for _, f := range []func(context.Context) error{l.ping, l.work} {
		group.Go(func() { l.cancel(f(l.ctx)) })
	}
	told := make(chan struct{})
	context.AfterFunc(l.ctx, func() {
		defer close(told)
		l.refuse(context.Cause(l.ctx))
		_ = l.conn.CloseNow() // which ends a read
	})
	l.cancel(l.read())
	<-told
	group.Wait()
	select {
	case a := <-l.answers: // of a request that nobody waits for any more
		a.release()
	default:
	}
	l.h.drop(l)
	l.end(context.Cause(l.ctx))
}

// end has the server know that the connection is over.
func (l *link) end(cause error) {
	l.h.log.Info("the connection of a node ended", "node", l.node, "session", l.session, "reason", line(cause.Error()))
	if errors.Is(cause, errReplaced) || errors.Is(cause, errEnded) || errors.Is(cause, errStopping) {
		return // it knows, or will know at its next start
	}
	in, ok := l.h.disconnected(drift.Disconnected{Node: l.node, Session: l.session, Reason: reason(cause)})
	if !ok {
		return
	}
	if err := l.h.retry(l.h.ctx, func(ctx context.Context) error { return l.h.server.ReportNode(ctx, in) }); err != nil {
		l.h.log.Info("that a node disconnected is not in the log", "node", l.node, "err", err)
	}
}

// reason words the end of a connection for the log.
func reason(cause error) string {
	if errors.Is(cause, errLost) {
		return errLost.Error()
	}
	return line(cause.Error())
}

// retry tries until it succeeds, is refused for good, or ctx ends.
func (h *Hub) retry(ctx context.Context, f func(context.Context) error) error {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := f(ctx)
		if no, wait := limited(err); wait {
			pause = max(time.Second, no.After.Std())
		} else if _, final := errors.AsType[*drift.Refusal](err); err == nil || final {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// control counts a ping or pong, and reports whether it is answered.
func (l *link) control() bool {
	if l.rates.spend(&l.rates.controls, controlRate, l.h.instant()) > 0 {
		l.cancel(errTooMuch)
		return false
	}
	return true
}

// ping ends a connection whose other side is silent.
func (l *link) ping(ctx context.Context) error {
	t := time.NewTicker(l.h.limits.Ping)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		within, cancel := context.WithTimeout(ctx, l.h.limits.Ping)
		err := l.conn.Ping(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			return errSilent
		}
	}
}

// read takes messages until the connection ends, and returns why.
func (l *link) read() error {
	for {
		raw, release, err := l.frame()
		if err == nil {
			err = context.Cause(l.ctx)
		}
		if err != nil {
			release()
			return err
		}
		if l.rates.spend(&l.rates.messages, messageRate, l.h.instant()) > 0 {
			release()
			return errTooMuch
		}
		m, err := decode(raw)
		if err != nil {
			release()
			if err := l.bad(malformed, err); err != nil {
				return err
			}
			continue
		}
		if m.Answer != nil && m.Type == nodesdk.TypeAnswer {
			if m.ID != 0 && l.awaited.CompareAndSwap(m.ID, 0) {
				l.answers <- reply{*m.Answer, release}
				continue
			}
			release()
			err = l.bad(unsolicited, errors.New("an answer to nothing that was asked"))
		} else {
			release()
			err = l.news(m)
		}
		if err != nil {
			return err
		}
	}
}

// bad counts a message that is refused, and ends the connection after a few.
func (l *link) bad(why string, err error) error {
	l.h.metrics.frames.WithLabelValues(why).Inc()
	l.refusals++
	l.h.log.Warn("a message of a node was refused", "node", l.node, "reason", why, "err", line(err.Error()))
	if l.refusals < maxRefusals {
		return nil
	}
	return later(nodesdk.CodeMalformed, fmt.Sprintf("%d messages were refused, the last one %s: %s", l.refusals, why, line(err.Error())))
}

// news takes what a node was not asked for.
func (l *link) news(m *nodesdk.Message) error {
	var in drift.Input
	switch {
	case m.Type == nodesdk.TypeChanged && m.Changed != nil:
		select {
		case l.changed <- struct{}{}:
		default: // it is not answered yet
		}
		return nil
	case m.Type == nodesdk.TypeEffect && m.Effect != nil:
		e := m.Effect
		if nodeconfig.CheckKind(e.Kind) != nil || nodeconfig.CheckID(e.ID) != nil || !isEffect(e.Effect) {
			return l.bad(malformed, errors.New("an effect of no object, or of no known kind"))
		}
		in = drift.Effect{Node: l.node, Session: l.session, Kind: e.Kind, ID: e.ID, Effect: e.Effect, Detail: line(e.Detail)}
	case m.Type == nodesdk.TypeNextKey && m.NextKey != nil:
		k := m.NextKey
		if len(k.Key) != ed25519.PublicKeySize || !ed25519.Verify(k.Key, nodesdk.SignedNextKey(l.node, l.key, k.Key), k.Proof) {
			return l.bad(malformed, errors.New("a next key without its proof"))
		}
		in = drift.NextKey{Node: l.node, Session: l.session, Key: k.Key}
	default:
		return l.bad(unsolicited, fmt.Errorf("a message of type %.40q", m.Type))
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.h.limits.Ping/2)
	defer cancel()
	err := l.h.server.ReportNode(ctx, in)
	if no, ok := limited(err); ok {
		return after(nodesdk.CodeTooMuch, no.Message, max(no.After.Std(), leastAway))
	}
	if err != nil && l.ctx.Err() == nil {
		return fmt.Errorf("the server could not take in what it reported: %w", err)
	}
	return nil
}

// limited is the refusal of what is above the share of a node.
func limited(err error) (*drift.Refusal, bool) {
	no, ok := errors.AsType[*drift.Refusal](err)
	return no, ok && no.Code == drift.CodeTooMuch
}

func isEffect(s string) bool { return s == nodesdk.InEffect || s == nodesdk.NotInEffect }

// decode reads a message.
func decode(raw []byte) (*nodesdk.Message, error) {
	m := new(nodesdk.Message)
	if err := wire.Decode(raw, m); err != nil {
		return nil, err
	}
	return m, nil
}

// errFragments is a message in too many parts.
var errFragments = errors.New("a message in too many fragments")

// frame reads a message. What is larger than a small one has to be the answer to a request,
// takes a place among the large ones, and frees it with release, which must be called.
func (l *link) frame() (raw []byte, release func(), err error) {
	release = func() {}
	kind, r, err := l.conn.Reader(context.Background()) // the connection is closed when l.ctx ends
	if err != nil {
		return nil, release, l.readError(err)
	}
	late := time.AfterFunc(l.h.limits.Frame, func() { l.cancel(fmt.Errorf("a message did not arrive within %s", l.h.limits.Frame)) })
	defer late.Stop()
	raw = make([]byte, 0, 1024)
	small, large := l.h.limits.SmallFrame, false
	for fragments := 0; ; {
		if len(raw) == cap(raw) {
			raw = append(raw, 0)[:len(raw)]
		}
		free := raw[len(raw):cap(raw)]
		n, err := r.Read(free)
		raw = raw[:len(raw)+n]
		if n < len(free) {
			fragments++
		}
		switch {
		case errors.Is(err, io.EOF):
			if kind != websocket.MessageText {
				raw = nil // it is malformed
			}
			return raw, release, nil
		case err != nil:
			return nil, release, l.readError(err)
		case fragments > maxFragments:
			l.h.metrics.frames.WithLabelValues(malformed).Inc()
			return nil, release, later(nodesdk.CodeMalformed, errFragments.Error())
		case len(raw) <= small || large:
			continue
		case l.awaited.Load() == 0:
			l.h.metrics.frames.WithLabelValues(unsolicited).Inc()
			return nil, release, later(nodesdk.CodeMalformed, fmt.Sprintf("a message of more than %d bytes that answers nothing", small))
		}
		select {
		case l.h.large <- struct{}{}:
			large, release = true, sync.OnceFunc(func() { <-l.h.large })
		case <-l.ctx.Done():
			return nil, release, context.Cause(l.ctx)
		}
		late.Reset(l.h.limits.Frame) // it had to wait
	}
}

func (l *link) readError(err error) error {
	switch {
	case l.ctx.Err() != nil:
		return context.Cause(l.ctx)
	case errors.Is(err, websocket.ErrMessageTooBig):
		l.h.metrics.frames.WithLabelValues(tooLarge).Inc()
		return later(nodesdk.CodeMalformed, fmt.Sprintf("a message of more than %d bytes", nodesdk.MaxFromNode))
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// write sends a message. A node that does not read it is disconnected.
func (l *link) write(ctx context.Context, m *nodesdk.Message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.h.limits.Write)
	defer cancel()
	if err := l.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("it did not read a message within %s", l.h.limits.Write)
		}
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}
