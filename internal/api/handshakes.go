package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/access"
)

// handshakeTimeout is how long a TLS handshake may take, its waits for a turn included.
const handshakeTimeout = 10 * time.Second

// handshakes is a listener of TLS connections whose handshakes are over. So many at once compute that half of the
// processors are left to requests, and addresses take turns, however many connections strangers begin.
type handshakes struct {
	net.Listener
	conf  *tls.Config
	log   *slog.Logger
	turns *computing

	ready chan accepted
	ctx   context.Context // ends with Close
	close context.CancelFunc
}

type accepted struct {
	net.Conn
	err error
}

func newHandshakes(l net.Listener, conf *tls.Config, log *slog.Logger, turns *computing) *handshakes {
	h := &handshakes{Listener: l, conf: conf, log: log, turns: turns, ready: make(chan accepted)}
	h.ctx, h.close = context.WithCancel(context.Background())
	go h.accept()
	return h
}

// Accept implements net.Listener.
func (h *handshakes) Accept() (net.Conn, error) {
	select {
	case a := <-h.ready:
		return a.Conn, a.err
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Handshakes that are not over are ended.
func (h *handshakes) Close() error {
	h.close()
	return h.Listener.Close()
}

func (h *handshakes) accept() {
	for h.ctx.Err() == nil {
		if c, err := h.Listener.Accept(); err == nil {
			go h.shake(c)
		} else {
			h.hand(accepted{err: err}) // the next one is accepted once Accept is called again
		}
	}
}

// hand reports whether Accept returned it.
func (h *handshakes) hand(a accepted) bool {
	select {
	case h.ready <- a:
		return true
	case <-h.ctx.Done():
		return false
	}
}

// shake hands the connection on once its handshake is over.
func (h *handshakes) shake(c net.Conn) {
	ctx, cancel := context.WithTimeout(h.ctx, handshakeTimeout)
	defer cancel()
	polite := &yielding{Conn: c, turns: h.turns, from: access.Network(c.RemoteAddr().String())}
	secure := tls.Server(polite, h.conf)
	err := survived(func() error { return secure.HandshakeContext(ctx) })
	polite.done()
	if err != nil {
		h.log.Debug("a TLS handshake failed", "from", c.RemoteAddr(), "err", err)
		answerPlain(err)
	}
	if err != nil || !h.hand(accepted{Conn: secure}) {
		_ = c.Close() // nothing was agreed on
	}
}

// survived has a panic of one connection's handshake be its error, as net/http does.
func survived(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return do()
}

// answerPlain tells who sent a request without TLS what is wrong, as net/http does.
func answerPlain(err error) {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && spokeHTTP(plain.RecordHeader) {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}

func spokeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// yielding is a connection in its handshake, which has a place to compute but while it waits for bytes.
type yielding struct {
	net.Conn
	turns *computing
	from  netip.Addr
	over  bool
	has   bool // a place
}

// Read implements net.Conn.
func (c *yielding) Read(p []byte) (int, error) {
	if c.over {
		return c.Conn.Read(p)
	}
	c.leave()
	n, err := c.Conn.Read(p)
	if err == nil {
		c.turns.take(c.from)
		c.has = true
	}
	return n, err
}

func (c *yielding) leave() {
	if c.has {
		c.has = false
		c.turns.leave()
	}
}

// done ends the handshake. It is called before anything else reads.
func (c *yielding) done() {
	c.leave()
	c.over = true
}

// computing has places for handshakes that compute.
type computing struct {
	mu      sync.Mutex
	free    int
	waiting access.Turns[chan struct{}] // a channel is closed when it has a place
}

func newComputing() *computing { return &computing{free: max(1, runtime.GOMAXPROCS(0)/2)} }

// take waits for a place. Whoever has one leaves it after a bounded computation, so that the wait needs no end.
func (p *computing) take(from netip.Addr) {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	p.waiting.Add(from, mine)
	p.mu.Unlock()
	<-mine
}

// leave passes the place on.
func (p *computing) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next, some := p.waiting.Next(); some {
		close(next)
		return
	}
	p.free++
}
