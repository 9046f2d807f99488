package api_test

import (
	"context"
	"crypto/x509"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/api"
	coreclock "github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// lanes reads how many inputs wait in each of the server's queues.
func lanes(t *testing.T, of *prometheus.Registry) map[string]int {
	t.Helper()
	families := testkit.Value(of.Gather())(t)
	n := map[string]int{}
	for _, f := range families {
		if f.GetName() == "steady_queue_length" {
			for _, m := range f.GetMetric() {
				n[m.GetLabel()[0].GetValue()] = int(m.GetGauge().GetValue())
			}
		}
	}
	return n
}

// TestL4HaltGoesBeforeFullQueues is L4: while every queue of the server is full,
// claims of what is offered among what waits, a halt is the next thing that is
// decided, and nothing is granted or claimed after it.
func TestL4HaltGoesBeforeFullQueues(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	w := newWorld(t, func(o *api.Options) { o.Control.Metrics = metrics })
	w.release("r1", plan{hosts: 4, content: "one"})
	agents := w.agents(4)
	offers := make([]*wire.Dispatch, 3) // nobody heard from the fourth yet: nothing is granted to it
	for i := range offers {
		offers[i] = agents[i].offered()
	}
	c := w.server.Control()

	var all sync.WaitGroup
	defer all.Wait()
	busy, free := make(chan struct{}), make(chan struct{})
	all.Go(func() {
		testkit.Must(t, c.View(context.Background(), func(*coreplan.State) { close(busy); <-free }))
	})
	<-busy // the reducer takes nothing from its queues now
	freed := sync.OnceFunc(func() { close(free) })
	defer freed()
	var claims sync.WaitGroup
	for i, d := range offers {
		claims.Go(func() {
			var ans wire.ClaimAnswer
			agents[i].do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &ans)
			if ans.Accepted {
				t.Errorf("the claim of %s was taken after the halt", d.Grant)
			}
		})
	}
	all.Go(func() { _, _ = agents[3].poll("0") }) // news of a host that could be granted something
	queued := func(lane string, n int) {
		t.Helper()
		for ctx := w.ctx(); lanes(t, metrics)[lane] != n; runtime.Gosched() {
			if ctx.Err() != nil {
				t.Fatalf("waited in vain for %d inputs in lane %s: %v", n, lane, lanes(t, metrics))
			}
		}
	}
	queued("urgent", 3)
	for range 256 {
		all.Go(func() { testkit.Must(t, c.View(context.Background(), func(*coreplan.State) {})) })
	}
	queued("queries", 256)

	// A caller that is gone leaves its input behind: so the queues fill without one
	// goroutine for each.
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fill := func(lane string, most int, put func()) {
		for lanes(t, metrics)[lane] < most {
			for range 200 {
				put()
			}
		}
	}
	leaf := testkit.Value(x509.ParseCertificate(agents[0].cert.Certificate[0]))(t)
	peer := testkit.Value(c.Identify(gone, leaf))(t)
	fill("normal", 4096, func() { _, _, _ = c.AddOperator(gone, "load", "viewer", coreclock.Hour, "test") })
	fill("urgent", 4096, func() { _, _ = c.Claim(gone, peer, wire.Claim{Grant: "none", Term: offers[0].Term}) })
	head := c.Head().Seq
	paused := make(chan error, 1)
	go func() { paused <- w.op.Operate(w.ctx(), coreplan.Pause, "stable@r1", "overload") }()
	queued("operations", 1)
	queued("normal", 4096)
	queued("urgent", 4096)
	freed()
	testkit.Must(t, <-paused)
	claims.Wait()
	queued("normal", 0)
	testkit.Must(t, w.op.Reconcile(w.ctx())) // after the turn that took the last of it
	entries := testkit.Value(c.Records(w.ctx(), head, 10_000))(t)
	if len(entries) <= 4000 || entries[0].Type != (event.RolloutPaused{}).EventType() {
		t.Fatalf("%d things were decided, the first is %s", len(entries), entries[0].Type)
	}
	for i := range entries {
		if typ := entries[i].Type; typ == (event.Granted{}).EventType() || typ == (event.GrantClaimed{}).EventType() {
			t.Errorf("event %d after the halt is %s of %s", i, typ, entries[i].Host())
		}
	}
}
