package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// T is the part of *testing.T that a Loop needs.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Loop is a controller over a memory store, and the world of time around it: one process after
// another. It lives in a bubble of testing/synctest, where time passes in Advance alone, and is
// for the goroutine of the test. A process that crashed is followed by the next one.
type Loop struct {
	// Options are those of the controllers, beside checks of purity. Set them before Start.
	Options []reconcile.Option

	t       T
	crasher *Crasher
	journal Journal
	kinds   []reconcile.Kind
	p       *process
}

// process is one life of a controller.
type process struct {
	store *memory.Store
	c     *reconcile.Controller
	stop  context.CancelFunc
	done  chan error
}

// NewLoop starts a loop, which ends with the test. Each process makes its kinds anew: a Kind that
// makes its reconciler when it is called shows what a reconciler loses with its process.
func NewLoop(t T, kinds ...reconcile.Kind) *Loop {
	t.Helper()
	l := &Loop{t: t, crasher: NewCrasher(-1)}
	l.Start(kinds...)
	return l
}

// Start begins the first process. NewLoop has called it.
func (l *Loop) Start(kinds ...reconcile.Kind) {
	l.t.Helper()
	if l.p != nil {
		l.t.Fatalf("start a loop twice")
	}
	l.kinds = kinds
	l.t.Cleanup(l.end)
	l.begin()
	synctest.Wait()
}

func (l *Loop) begin() {
	l.t.Helper()
	store, err := l.journal.Open()
	if err != nil {
		l.t.Fatalf("read the journal: %v", err)
	}
	p := &process{store: store, done: make(chan error, 1)}
	p.c = reconcile.New(l.crasher.Store(store), append([]reconcile.Option{reconcile.WithPurityChecks()}, l.Options...)...)
	for _, kind := range l.kinds {
		if err := kind(p.c); err != nil {
			l.t.Fatalf("%v", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	l.crasher.Begin(stop)
	go func() { p.done <- p.c.Run(ctx) }()
	l.p = p
}

// end stops the process and waits until it is over.
func (l *Loop) end() {
	l.t.Helper()
	if l.p == nil {
		return
	}
	l.p.stop()
	err := <-l.p.done
	l.p = nil
	if err != nil && !errors.Is(err, ErrCrashed) {
		l.t.Fatalf("the controller ended: %v", err)
	}
}

// Restart stops the process as a service manager does, and starts the next one.
func (l *Loop) Restart() { l.t.Helper(); l.end(); l.begin(); synctest.Wait() }

// Crash ends the process without a chance to write anything, and starts the next one.
func (l *Loop) Crash() { l.t.Helper(); l.crasher.Crash(); l.Restart() }

// Point is a place for crashes of CrashEverywhere inside of an Act that takes several steps. The
// Act must return its error at once.
func (l *Loop) Point(name string) error { return l.crasher.Point(name) }

// Advance lets time pass, and then waits until nothing can happen without more of it.
func (l *Loop) Advance(d time.Duration) {
	l.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for over := false; !over; {
		select {
		case <-timer.C:
			over = true
			synctest.Wait()
		case err := <-l.p.done:
			l.p.done <- err
		}
		if l.crasher.Crashed() {
			l.Restart()
		} else if !over {
			l.t.Fatalf("the controller ended by itself")
		}
	}
}

// retried makes a call of the controller, again after a crash, as whoever calls over a network does.
func (l *Loop) retried(what string, f func(*reconcile.Controller) error) {
	l.t.Helper()
	err := f(l.p.c)
	for errors.Is(err, ErrCrashed) {
		l.Restart()
		err = f(l.p.c)
	}
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	synctest.Wait()
}

// Apply sets what is desired of a root.
func (l *Loop) Apply(in reconcile.Intent) {
	l.t.Helper()
	l.retried("apply to "+in.Ref.String(), func(c *reconcile.Controller) error {
		_, err := c.Apply(context.Background(), in, reconcile.By("test"))
		return err
	})
}

// Deliver puts an event into the inbox of ref.
func (l *Loop) Deliver(ref reconcile.Ref, e reconcile.Event) {
	l.t.Helper()
	l.retried("deliver to "+ref.String(), func(c *reconcile.Controller) error {
		return c.Deliver(context.Background(), ref, e)
	})
}

// Controller is that of the present process, which a restart ends.
func (l *Loop) Controller() *reconcile.Controller { return l.p.c }

// Row is what is recorded of a resource; zero if there is none.
func (l *Loop) Row(ref reconcile.Ref) reconcile.Row {
	l.t.Helper()
	row, err := l.p.store.Get(context.Background(), ref)
	if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
		l.t.Fatalf("read %s: %v", ref, err)
	}
	return row
}

// Phase is where a resource stands; empty if there is none.
func (l *Loop) Phase(ref reconcile.Ref) reconcile.Phase { l.t.Helper(); return l.Row(ref).Phase }

// WantPhase ends the test if a resource stands elsewhere, and explains it.
func (l *Loop) WantPhase(ref reconcile.Ref, want reconcile.Phase) {
	l.t.Helper()
	if got := l.Phase(ref); got != want {
		e, err := l.p.c.Explain(context.Background(), ref)
		if err != nil {
			l.t.Fatalf("want phase %s: %v", want, err)
		}
		l.t.Fatalf("want phase %s; %s", want, e)
	}
}

// History has the transitions of a resource, oldest first.
func (l *Loop) History(ref reconcile.Ref) []reconcile.Transition {
	l.t.Helper()
	h, err := l.p.store.History(context.Background(), ref, 0, 0)
	if err != nil {
		l.t.Fatalf("read the history of %s: %v", ref, err)
	}
	return h
}

// State is the phase of every resource and what is desired of it, one a line in order.
func (l *Loop) State() string {
	l.t.Helper()
	rows, err := l.p.store.List(context.Background(), reconcile.Filter{})
	if err != nil {
		l.t.Fatalf("list: %v", err)
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s %s %s\n", r.Ref, r.Phase, r.Desired)
	}
	return b.String()
}
