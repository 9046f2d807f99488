package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

const free = "127.0.0.1:0"

var shop = reconcile.Ref{Kind: "stack", ID: "shop"}

// lab is a running controller, and what it moved.
type lab struct {
	*testing.T
	c     *reconcile.Controller
	world *servers
	moves chan reconcile.Transition
	seen  []string
}

func start(t *testing.T) *lab {
	l := &lab{T: t, world: &servers{open: map[reconcile.Ref]running{}}, moves: make(chan reconcile.Transition, 1000)}
	l.c = testkit.Value(open(l.world, reconcile.WithAfterCommit(func(ts []reconcile.Transition) {
		for _, m := range ts {
			l.moves <- m
		}
	})))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, <-done)
		for _, s := range l.world.open { // order-free: each is closed
			_ = s.http.Close()
		}
	})
	return l
}

func (l *lab) apply(in reconcile.Intent) {
	l.Helper()
	testkit.Value(l.c.Apply(l.Context(), in, reconcile.By("test")))(l)
}

// until waits for a move of one resource.
func (l *lab) until(ref reconcile.Ref, to reconcile.Phase) reconcile.Transition {
	l.Helper()
	for {
		select {
		case m := <-l.moves:
			l.seen = append(l.seen, m.Ref.ID+" "+string(m.To))
			if m.Ref == ref && m.To == to {
				return m
			}
		case <-time.After(10 * time.Second):
			l.Fatalf("%s did not become %s; %q", ref, to, l.seen)
		}
	}
}

func TestServersComeUpInOrderAndGoInTheReverse(t *testing.T) {
	l := start(t)
	l.apply(reconcile.Upsert(shop, stack{[]declared{{"db", free, false}, {"app", free, false}, {"metrics", "192.0.2.1:1", true}, {"web", free, false}}}))
	testkit.Must(t, l.c.WaitConverged(t.Context(), shop))
	e := testkit.Value(l.c.Explain(t.Context(), shop))(t)
	if e.Row.Phase != reconcile.Degraded {
		t.Fatal(e)
	}
	var address string
	testkit.Must(t, json.Unmarshal(e.Row.Report(), &address))
	if got := ask(address); got != "web > app > db" {
		t.Fatal(got)
	}
	l.apply(reconcile.Delete(shop))
	l.until(shop, reconcile.Deleted)
	l.world.mu.Lock()
	got := strings.Join(l.world.acts, ", ")
	l.world.mu.Unlock()
	if got != "listen db, listen app, listen web, close web, close app, close db" {
		t.Fatal(got)
	}
	if got := ask(address); !strings.Contains(got, "refused") {
		t.Fatal(got)
	}
}

func TestAStackEndsWithAServerItNeeds(t *testing.T) {
	l := start(t)
	l.apply(reconcile.Upsert(shop, stack{[]declared{{"db", free, false}, {"app", "192.0.2.1:1", false}}}))
	if m := l.until(shop, reconcile.Failed); !m.Alert || m.Reason.Code != "child-failed" {
		t.Fatalf("%+v", m)
	}
	l.until(serverRef(shop, declared{Name: "db"}), reconcile.Deleted)
	if rows := testkit.Value(l.c.Attention(t.Context()))(t); len(rows) != 1 || rows[0].Ref != shop {
		t.Fatalf("%+v", rows)
	}
	var failed *reconcile.NotConvergedError
	if err := l.c.WaitConverged(t.Context(), shop); !errors.As(err, &failed) {
		t.Fatal(err)
	}
}

func TestNothingOutlivesItsDeadlines(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		l := start(t)
		db := serverRef(shop, declared{Name: "db"})
		end := time.Now().Add(time.Second)
		l.apply(reconcile.Upsert(shop, stack{[]declared{{"db", free, false}}}).WithNotAfter(end).WithDeleteBy(end.Add(time.Second)))
		l.until(shop, reconcile.Converged)
		l.world.mu.Lock()
		l.world.stuck = stuck
		l.world.mu.Unlock()
		if !stuck {
			l.until(shop, reconcile.Deleted)
			continue
		}
		if m := l.until(db, reconcile.Orphaned); !m.Alert || m.At.Before(end) || m.At.After(end.Add(5*time.Second)) {
			t.Fatalf("%+v", m)
		}
		if rows := testkit.Value(l.c.Attention(t.Context()))(t); len(rows) == 0 || rows[0].Ref != db {
			t.Fatalf("%+v", rows)
		}
	}
}
