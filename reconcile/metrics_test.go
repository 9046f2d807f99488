package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
)

// heard keeps what a controller says of itself, as Metrics and as Tracer.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) Turn(kind, decision string, took time.Duration) {
	h.add("turn %s %q %s", kind, decision, took)
}
func (h *heard) Act(kind, action string, took time.Duration, err error) {
	h.add("act %s %s %s %v", kind, action, took, err)
}
func (h *heard) Move(kind string, from, to engine.Phase) { h.add("move %s %s-%s", kind, from, to) }
func (h *heard) Queue(waiting, running int)              { h.add("queue %d %d", waiting, running) }
func (h *heard) StoreFailed(err error)                   { h.add("store %v", err) }

type spanKey struct{}

func (h *heard) Start(ctx context.Context, span string, ref engine.Ref) (context.Context, func(error)) {
	h.add("begin %s %s", span, ref)
	return context.WithValue(ctx, spanKey{}, span), func(err error) { h.add("end %s %v", span, err) }
}

func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.lines, "\n")
	h.lines = nil
	return out
}

// broken is a store that fails when told to.
type broken struct {
	reconcile.Store
	err error
}

func (b *broken) Commit(ctx context.Context, rec engine.Record) (reconcile.Committed, error) {
	if err := b.err; err != nil {
		b.err = nil
		return reconcile.Committed{}, err
	}
	return b.Store.Commit(ctx, rec)
}

func TestMetricsAndTracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &reconciletest.Journal{}
		store, err := journal.Open()
		if err != nil {
			t.Fatal(err)
		}
		w, h, b := newWorld(), &heard{}, &broken{Store: store}
		c := reconcile.New(b, reconcile.WithMetrics(h), reconcile.WithTracer(h))
		traced := tracedLeaves{leaves{w}, h}
		if err := reconcile.Register(c, "leaf", traced, leafPolicy); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		want := func(lines ...string) {
			t.Helper()
			if got := h.take(); got != strings.Join(lines, "\n") {
				t.Errorf("heard\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
			}
		}
		apply := func(content string) {
			t.Helper()
			if _, err := c.Apply(ctx, engine.Upsert(leafRef("a"), leaf{content}), hand); err != nil {
				t.Fatal(err)
			}
			pass(30 * time.Second)
		}
		w.breakLeaf("a", fails)
		apply("x")
		observe := []string{"queue 0 1", "begin observe leaf/a", "sees observe", "end observe <nil>"}
		act := func(end string, took time.Duration, to string) []string {
			return []string{"move leaf %s-acting", "begin act write leaf/a", "sees act write", "end act write " + end, fmt.Sprintf("act leaf write %s %s", took, end), "move leaf acting-" + to, fmt.Sprintf("turn leaf \"do\" %s", took)}
		}
		lines := append([]string{"move leaf -pending"}, observe...)
		lines = append(lines, act("broken", 0, "retrying")...)
		lines = append(append(lines, observe...), act("<nil>", time.Millisecond, "verifying")...)
		lines = append(append(lines, observe...), "move leaf verifying-converged", `turn leaf "converged" 0s`)
		lines[5] = "move leaf pending-acting"
		lines[16] = "move leaf retrying-acting"
		want(lines...)

		b.err = errors.New("disk full")
		apply("y")
		if got := h.take(); strings.Count(got, "store disk full") != 1 || !strings.Contains(got, "move leaf verifying-converged") {
			t.Errorf("heard\n%s", got)
		}

		w.breakLeaf("a", hangs)
		if _, err := c.Apply(ctx, engine.Upsert(leafRef("a"), leaf{"old"}), hand); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		h.take()
		apply("new")
		if got := h.take(); !strings.Contains(got, "act leaf write 1s "+reconcile.ErrSuperseded.Error()) {
			t.Errorf("an act that was cancelled: heard\n%s", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// tracedLeaves say which span they run in.
type tracedLeaves struct {
	leaves
	h *heard
}

func (l tracedLeaves) Observe(ctx context.Context, r engine.Resource[leaf]) (leafSeen, error) {
	l.h.add("sees %v", ctx.Value(spanKey{}))
	return l.leaves.Observe(ctx, r)
}

func (l tracedLeaves) Act(ctx context.Context, r engine.Resource[leaf], a engine.Action) error {
	l.h.add("sees %v", ctx.Value(spanKey{}))
	return l.leaves.Act(ctx, r, a)
}
