package api

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/access"
)

// crowd is a listener that holds its connections to a bound.
type crowd struct {
	net.Listener
	most    Connections
	refused prometheus.Counter
	log     *slog.Logger

	mu     sync.Mutex
	open   int
	byAddr map[netip.Addr]int
	saidAt time.Time
}

// Accept implements net.Listener. A connection too many is closed at once.
func (l *crowd) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := access.Network(c.RemoteAddr().String())
		if l.enter(from) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		_ = c.Close() // it was not wanted
	}
}

func (l *crowd) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most.Admit(l.open, l.byAddr[from], from.IsLoopback()) {
		l.open++
		l.byAddr[from]++
		return true
	}
	l.refused.Inc()
	if now := time.Now(); now.Sub(l.saidAt) > time.Hour {
		l.saidAt = now
		l.log.Warn("too many connections are open; more are closed at once", "from", from, "open", l.open, "fromThere", l.byAddr[from],
			"maxConnections", l.most.All, "maxConnectionsPerAddress", l.most.PerAddress)
	}
	return false
}

func (l *crowd) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byAddr[from]--; l.byAddr[from] == 0 {
		delete(l.byAddr, from)
	}
}

// counted is a connection that leaves the crowd as it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
