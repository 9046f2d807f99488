package workspace_test

import (
	"fmt"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// BenchmarkIdleCycle is one look at 100 workspaces with nothing to do: a decision
// on each, beside the engine's listing alone.
func BenchmarkIdleCycle(b *testing.B) {
	w := newWorld(b)
	const many = 100
	var rows []engine.Resource[workspace.Desired]
	for i := range many {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Name = fmt.Sprint("w", i)
			d.Spec.Workspace.State = spec.Stopped
		})
		w.r.Ref.ID, w.r.Generation = fmt.Sprint("w", i), 1
		w.converge("create")
		w.r.Status.ConvergedGeneration = 1
		rows = append(rows, w.r)
	}
	testkit.Value(w.m.ObserveAll(b.Context()))(b)
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			testkit.Value(w.api.ContainerList(b.Context(), client.ContainerListOptions{All: true}))(b)
		}
	})
	b.Run("cycle", func(b *testing.B) {
		before := w.e.Calls().Writes
		for b.Loop() {
			all := testkit.Value(w.m.ObserveAll(b.Context()))(b)
			for _, r := range rows {
				d := w.m.Decide(engine.View[workspace.Desired, workspace.Observed]{Resource: r, Observed: all[r.Ref], Now: w.now.Time()})
				if d.Name() != "converged" {
					b.Fatalf("%s: %s %s", r.Ref, d.Name(), d.Reason())
				}
			}
		}
		if n := w.e.Calls().Writes - before; n != 0 {
			b.Fatalf("%d writes", n)
		}
	})
}

// BenchmarkReplace is one replacement of a container by the next version, until the one before is gone, with a restart
// policy, which a container has only while it is to run, and without.
func BenchmarkReplace(b *testing.B) {
	for _, policy := range []string{"always", "no"} {
		b.Run("restart "+policy, func(b *testing.B) {
			w := newWorld(b)
			w.want(func(d *workspace.Desired) {
				none := clock.Duration(0)
				d.Spec.Workspace.StopGrace, d.Spec.Workspace.StopSignal = &none, "KILL"
				d.Spec.Workspace.Restart.Policy, d.Spec.Workspace.Update.Monitor = policy, 1
			})
			w.converge("create")
			calls, version := w.e.Calls().Writes, 0
			for b.Loop() {
				version++
				w.want(func(d *workspace.Desired) { d.Spec.Workspace.Env[0].Value = fmt.Sprint("v", version) })
				w.converge()
			}
			b.ReportMetric(float64(w.e.Calls().Writes-calls)/float64(version), "writes/op")
			w.one()
		})
	}
}
