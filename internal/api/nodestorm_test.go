package api_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// storm are nodes that all connect at once, and again until they are in.
type storm struct {
	nodes []*wireNode
	serve sync.WaitGroup
}

func (w *world) storm(n int) *storm {
	s := &storm{}
	for i := range n {
		s.nodes = append(s.nodes, w.wireNode(fmt.Sprintf("n-%04d", i)))
		s.nodes[i].objects = []nodesdk.Object{{Kind: "flow", ID: "a", ETag: "1", Config: []byte(`{"input":"a"}`)}}
	}
	return s
}

// connect returns when every node was welcomed and compared.
func (s *storm) connect(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var in sync.WaitGroup
	for _, n := range s.nodes {
		in.Go(func() {
			for ctx.Err() == nil {
				m, err := n.open(ctx)
				if err == nil && m.Welcome != nil {
					break
				}
				again := time.NewTimer(100 * time.Millisecond) // of a node that was asked to come later
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
			compared := make(chan struct{})
			var once sync.Once
			s.serve.Go(func() {
				n.serve(context.Background(), func(m nodesdk.Message) bool {
					if m.Request.Snapshot != nil {
						once.Do(func() { close(compared) })
					}
					return false
				})
			})
			select {
			case <-compared:
			case <-ctx.Done():
				t.Errorf("node %s was not asked for its configuration", n.name)
			}
		})
	}
	in.Wait()
}

func (s *storm) cut() {
	for _, n := range s.nodes {
		_ = n.conn.CloseNow()
	}
	s.serve.Wait()
}

// TestNodesStorm: when a server starts again, all nodes come back at once and are all compared;
// none of them is logged as disconnected for that.
func TestNodesStorm(t *testing.T) {
	t.Parallel()
	const many = 200
	w := newWorld(t)
	s := w.storm(many)
	s.connect(t)
	count := func(what string, is func(*drift.Node) bool) {
		w.until(what, func() bool {
			n := 0
			w.nodes(func(s *drift.State) {
				for _, x := range s.Nodes { // order-free: it counts
					if is(x) {
						n++
					}
				}
			})
			return n == many
		})
	}
	count("all were compared", func(n *drift.Node) bool { return n.Online && !n.Compare && n.Adoption != nil })
	w.halt()
	s.serve.Wait()
	w.start()
	s.connect(t)
	count("all are back", func(n *drift.Node) bool { return n.Online && !n.Compare && n.Session == 2 })
	records := 0
	for after := uint64(0); ; {
		page := testkit.Value(w.server.Control().Records(w.ctx(), after, 1000))(t)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			after = r.Seq
			if r.Type == (event.NodeDisconnected{}).EventType() {
				records++
			}
		}
	}
	if records != 0 {
		t.Errorf("%d disconnections of nodes that came back at once", records)
	}
	s.cut()
}

// BenchmarkNodesStorm has 2,000 nodes come back at once to a server in a process of its own,
// and says how much memory each takes there at rest.
func BenchmarkNodesStorm(b *testing.B) {
	const many = 2000
	for b.Loop() {
		w := newKeys(b)
		testkit.Must(b, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
		w.spawn()
		before := w.resident()
		s := w.storm(many)
		for _, n := range s.nodes {
			n.token = testkit.Value(w.keys.NodeToken(n.name, func(k *identity.NodeToken) { k.Expires = k.IssuedAt.Add(clock.Hour) }))(b)
		}
		start := time.Now()
		s.connect(b)
		b.ReportMetric(time.Since(start).Seconds(), "register-s")
		w.child.kill()
		s.serve.Wait()
		w.spawn()
		start = time.Now()
		s.connect(b)
		b.ReportMetric(time.Since(start).Seconds(), "reconnect-s")
		b.ReportMetric(float64(w.atRest()-before)/many, "KiB/node")
		s.cut()
		w.child.kill()
		w.child = nil
	}
}

// resident is the memory of the server's process, in KiB.
func (w *world) resident() int {
	w.t.Helper()
	raw := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", w.child.cmd.Process.Pid)))(w.t)
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	return testkit.Value(strconv.Atoi(strings.Fields(rest)[0]))(w.t)
}

// atRest is resident once it falls no more: what a burst leaves behind is given back within
// seconds.
func (w *world) atRest() int {
	least := w.resident()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for still := 0; still < 10; still++ {
		<-tick.C
		if now := w.resident(); now < least {
			least, still = now, 0
		}
	}
	return least
}
