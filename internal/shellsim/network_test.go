package shellsim

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// network joins the hosts and the operator with whichever server listens. It is
// memory and the bubble's clock alone.
type network struct {
	f        *faults
	mu       sync.Mutex
	listener *listener
	links    map[string]*link
	flood    func(name string) // a machine dials again and again without a pause
}

func newNetwork(f *faults, flood func(string)) *network {
	return &network{f: f, links: map[string]*link{}, flood: flood}
}

// link is one machine's way to the server.
type link struct {
	n    *network
	name string
	addr *net.TCPAddr
	ord  int // connections so far

	mu     sync.Mutex
	second time.Time // since when dials are counted
	dials  int
	cut    bool // nothing passes, and nobody says so
	conns  map[*conn]struct{}
}

func (n *network) link(name string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[name]
	if l == nil {
		l = &link{n: n, name: name, addr: &net.TCPAddr{IP: net.IPv4(10, 0, byte(len(n.links)>>8), byte(len(n.links)+1)), Port: 40000}, conns: map[*conn]struct{}{}}
		n.links[name] = l
	}
	return l
}

var serverAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}

// listener is a server's end. Accept gives what was dialled.
type listener struct {
	n      *network
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// listen makes a new listener, which takes over from the one before.
func (n *network) listen() *listener {
	l := &listener{n: n, queue: make(chan net.Conn, 64), closed: make(chan struct{}), conns: map[*conn]struct{}{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return serverAddr }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// die cuts every connection of a server whose machine is gone.
func (l *listener) die() {
	_ = l.Close() // it has no error
	l.mu.Lock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns { // order-free: each is cut
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

// dial connects a machine with the server.
func (l *link) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	cut := l.cut
	l.ord++
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.dials = now, 0
	}
	if l.dials++; l.dials == 100 {
		l.n.flood(l.name)
	}
	if l.dials >= 100 {
		l.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ord := l.ord
	l.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d := l.n.f.conn(l.name, ord)
	if d.refused {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: syscall.ECONNREFUSED}
	}
	l.n.mu.Lock()
	to := l.n.listener
	l.n.mu.Unlock()
	if to == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: syscall.ECONNREFUSED}
	}
	select {
	case <-to.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: syscall.ECONNREFUSED}
	default:
	}
	up, down := newHalf(), newHalf()
	near := &conn{in: down, out: up, local: l.addr, remote: serverAddr, draw: d, faults: l.n.f}
	far := &conn{in: up, out: down, local: serverAddr, remote: l.addr, draw: d, faults: l.n.f, server: true}
	near.peer, far.peer = far, near
	near.closed = func() { l.mu.Lock(); delete(l.conns, near); l.mu.Unlock() }
	far.closed = func() { to.mu.Lock(); delete(to.conns, far); to.mu.Unlock() }
	to.mu.Lock()
	to.conns[far] = struct{}{}
	to.mu.Unlock()
	l.mu.Lock()
	l.conns[near] = struct{}{}
	l.mu.Unlock()
	select {
	case to.queue <- far:
		return near, nil
	case <-to.closed:
	case <-ctx.Done():
	}
	near.reset()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: syscall.ECONNREFUSED}
}

// partition has nothing pass between a machine and the server, until heal. What
// was open before ends with a time-out, or with a reset once it is healed.
func (l *link) partition() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns { // order-free: each is muted
		c.mute()
	}
}

func (l *link) heal() {
	l.mu.Lock()
	l.cut = false
	l.mu.Unlock()
}

// close ends every connection that is left.
func (n *network) close() {
	n.mu.Lock()
	links := slices.Collect(maps.Values(n.links))
	n.mu.Unlock()
	for _, l := range links { // order-free: each is closed
		l.die()
	}
}

// die resets what a machine has open.
func (l *link) die() {
	l.mu.Lock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns { // order-free: each is cut
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

// segment is bytes on their way.
type segment struct {
	at time.Time
	b  []byte
}

// half is one direction of a connection. Its buffer has no bound: a writer never
// waits, so that nobody holds a lock over time.
type half struct {
	mu    sync.Mutex
	wake  chan struct{}
	segs  []segment
	end   error // what a reader finds behind the last segment
	muted bool
}

func newHalf() *half { return &half{wake: make(chan struct{})} }

func (h *half) notify() {
	close(h.wake)
	h.wake = make(chan struct{})
}

// finish ends a direction; at once drops what is on its way.
func (h *half) finish(err error, atOnce bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.muted && !atOnce {
		return
	}
	if atOnce {
		h.segs = nil
	}
	if h.end == nil || atOnce {
		h.end = err
	}
	h.notify()
}

func (h *half) put(b []byte, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.muted || h.end != nil {
		return
	}
	if n := len(h.segs); n > 0 && h.segs[n-1].at.After(at) {
		at = h.segs[n-1].at
	}
	h.segs = append(h.segs, segment{at, append([]byte(nil), b...)})
	h.notify()
}

// conn is one end of a connection in memory.
type conn struct {
	in, out       *half
	local, remote net.Addr
	peer          *conn
	draw          connDraw
	faults        *faults
	server        bool
	closed        func()

	mu     sync.Mutex
	writes int
	done   bool
	limit  time.Time
	moved  chan struct{} // the deadline for reading moved
}

func (c *conn) reset() {
	c.in.finish(syscall.ECONNRESET, true)
	c.out.finish(syscall.ECONNRESET, true)
}

func (c *conn) mute() {
	for _, h := range []*half{c.in, c.out} {
		h.mu.Lock()
		h.muted = true
		h.segs = nil
		h.mu.Unlock()
	}
}

// Write implements net.Conn. TLS writes one record at a time, so that a cut falls
// between two frames, or within one that takes several records.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.writes++
	n := c.writes
	cut := c.draw.serverSide == c.server && c.draw.cutAfter > 0 && n > c.draw.cutAfter && c.faults.on()
	if cut {
		c.draw.cutAfter = 0
	}
	c.mu.Unlock()
	if cut {
		switch c.draw.how {
		case cutReset:
			c.faults.count("connection reset between two writes")
			c.reset()
		case cutHalfOpen:
			c.faults.count("connection half open")
			c.mute()
		case cutTorn:
			c.faults.count("connection cut within a write")
			c.out.put(b[:len(b)/2], time.Now())
			c.out.finish(io.ErrUnexpectedEOF, false)
			c.in.finish(syscall.ECONNRESET, true)
		}
		return len(b), nil
	}
	c.out.mu.Lock()
	end := c.out.end
	c.out.mu.Unlock()
	if errors.Is(end, syscall.ECONNRESET) {
		return 0, &net.OpError{Op: "write", Net: "tcp", Addr: c.remote, Err: syscall.EPIPE}
	}
	delay := c.draw.latency
	if c.draw.stallEvery > 0 && n%c.draw.stallEvery == 0 && c.faults.on() {
		c.faults.count("write delayed by seconds")
		delay += c.draw.stall
	}
	c.out.put(b, time.Now().Add(delay))
	return len(b), nil
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		done, limit := c.done, c.limit
		if c.moved == nil {
			c.moved = make(chan struct{})
		}
		moved := c.moved
		c.mu.Unlock()
		if done {
			return 0, net.ErrClosed
		}
		now := time.Now()
		if !limit.IsZero() && !now.Before(limit) {
			return 0, os.ErrDeadlineExceeded
		}
		h := c.in
		h.mu.Lock()
		var next time.Time
		if len(h.segs) > 0 {
			if s := &h.segs[0]; !s.at.After(now) {
				n := copy(b, s.b)
				if s.b = s.b[n:]; len(s.b) == 0 {
					h.segs = h.segs[1:]
				}
				h.mu.Unlock()
				return n, nil
			}
			next = h.segs[0].at
		} else if h.end != nil {
			err := h.end
			h.mu.Unlock()
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return 0, err
			}
			return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.remote, Err: err}
		}
		wake := h.wake
		h.mu.Unlock()
		if !limit.IsZero() && (next.IsZero() || limit.Before(next)) {
			next = limit
		}
		if next.IsZero() {
			select {
			case <-wake:
			case <-moved:
			}
			continue
		}
		t := time.NewTimer(next.Sub(now))
		select {
		case <-wake:
		case <-moved:
		case <-t.C:
		}
		t.Stop()
	}
}

// Close implements net.Conn. What was written before arrives, then the end.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.done = true
	c.nudge()
	c.mu.Unlock()
	c.out.mu.Lock()
	if n := len(c.out.segs); n == 0 || !c.out.muted {
		if c.out.end == nil && !c.out.muted {
			c.out.end = io.EOF
			c.out.notify()
		}
	}
	c.out.mu.Unlock()
	c.closed()
	return nil
}

func (c *conn) nudge() {
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	c.nudge()
	return nil
}

// SetWriteDeadline implements net.Conn: no write waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
