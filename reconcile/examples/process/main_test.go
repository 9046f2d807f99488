package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

// TestProcess starts a real process, kills it, leaves it alone while no controller runs,
// changes what it is, and stops it.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	ref := reconcile.Ref{Kind: "process", ID: "sleeper"}
	t.Cleanup(func() { // also if the test fails half-way
		if is, _ := (processes{dir}).Observe(context.Background(), reconcile.Resource[process]{Ref: ref}); is.PID != 0 {
			_ = syscall.Kill(is.PID, syscall.SIGKILL)
		}
	})
	run := func(f func(*reconcile.Controller, func() process)) {
		t.Helper()
		c, db, err := open(t.Context(), dir)
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		f(c, func() process {
			t.Helper()
			testkit.Must(t, c.WaitConverged(t.Context(), ref))
			return testkit.Value(processes{dir}.Observe(t.Context(), reconcile.Resource[process]{Ref: ref}))(t)
		})
		cancel()
		testkit.Must(t, <-done)
		testkit.Must(t, db.Close())
	}
	want := func(args ...string) reconcile.Intent { return reconcile.Upsert(ref, process{Args: args}) }
	var second process
	run(func(c *reconcile.Controller, converged func() process) {
		testkit.Value(c.Apply(t.Context(), want("sleep", "1000"), reconcile.By("test")))(t)
		first := converged()
		died := make(chan os.Signal, 1)
		signal.Notify(died, syscall.SIGCHLD)
		defer signal.Stop(died)
		testkit.Must(t, syscall.Kill(first.PID, syscall.SIGKILL))
		<-died
		c.Enqueue(ref, reconcile.By("test")) // or wait for the resync
		for second = converged(); second.PID == first.PID || second.PID == 0; second = converged() {
		}
	})
	run(func(c *reconcile.Controller, converged func() process) {
		c.Enqueue(ref, reconcile.By("test"))
		if is := converged(); is.PID != second.PID {
			t.Fatalf("after a restart of the controller %d runs, not %d", is.PID, second.PID)
		}
		testkit.Value(c.Apply(t.Context(), want("sleep", "2000"), reconcile.By("test")))(t)
		if is := converged(); is.Args[1] != "2000" || is.PID == second.PID {
			t.Fatalf("%v runs", is)
		}
		testkit.Value(c.Apply(t.Context(), reconcile.Delete(ref), reconcile.By("test")))(t)
		if is := converged(); is.PID != 0 {
			t.Fatalf("%v still runs", is)
		}
		c2 := reconcile.Ref{Kind: "process", ID: "none"}
		testkit.Value(c.Apply(t.Context(), reconcile.Upsert(c2, process{Args: []string{"/no/such/program"}}), reconcile.By("test")))(t)
		if err := c.WaitConverged(t.Context(), c2); err == nil {
			t.Fatal("converged without a program")
		}
	})
}
