package api_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestConnectionsAreBounded opens connections until no more are taken, each closed at
// once, and finds that an operator and a host get in as soon as there is room.
func TestConnectionsAreBounded(t *testing.T) {
	const all = 12
	w := newWorld(t, func(o *api.Options) { o.Connections = api.Connections{All: all} })
	a := enrolled(w, "h-0000")
	var open []net.Conn
	for range 2 * all {
		c := testkit.Value(net.Dial("tcp", strings.TrimPrefix(w.url(), "https://")))(t)
		open = append(open, c)
	}
	w.until("connections refused", func() bool { return w.refusedConnections() >= all })
	testkit.Must(t, open[2*all-1].SetReadDeadline(time.Now().Add(patience)))
	if _, err := open[2*all-1].Read(make([]byte, 1)); err == nil {
		t.Fatal("the last connection is answered")
	}
	for _, c := range open {
		testkit.Must(t, c.Close())
	}
	w.until("room", func() bool { _, err := w.op.Status(w.ctx()); return err == nil })
	a.append(declined("g"))
	w.until("room for a host", func() bool { return a.send() == nil })
}

func (w *world) refusedConnections() float64 {
	all := testkit.Value(w.server.Control().Metrics().Gather())(w.t)
	for _, m := range all {
		if m.GetName() == "steady_connections_refused_total" {
			return m.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatal("there is no such metric")
	return 0
}
