package api_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// BenchmarkConverge measures a change from its push until every host has
// converged: agents with connections of their own over mutual TLS, in this
// process, so that their cost is part of it.
func BenchmarkConverge(b *testing.B) {
	for _, hosts := range []int{100, 1000} {
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			w := newWorld(b)
			w.release("r0", plan{hosts: hosts, content: "zero"})
			begun := time.Now()
			agents := make([]*agent, hosts)
			var wg sync.WaitGroup
			for i := range agents {
				agents[i] = newAgent(w, hostName(i))
				wg.Go(agents[i].enrol)
			}
			wg.Wait()
			enrolments := float64(hosts) / time.Since(begun).Seconds()
			stop := runAgents(b, agents...)
			defer stop()
			w.until("r0", func() bool { return w.standing("stable@r0") == "done" })
			round := 0
			b.ResetTimer()
			cpu := processorTime()
			for b.Loop() {
				b.StopTimer()
				round++
				ref := "r" + strconv.Itoa(round)
				dir := w.build(ref, plan{hosts: hosts, content: ref})
				b.StartTimer()
				after := w.server.Control().Head().Seq
				testkit.Value(w.push(dir))(b)
				w.untilTerminal("stable@"+ref, after)
			}
			b.ReportMetric(enrolments, "enrolments/s")
			b.ReportMetric((processorTime()-cpu).Seconds()*1000/float64(round*hosts), "cpu-ms/host")
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// untilTerminal waits for a rollout without asking after every event.
func (w *world) untilTerminal(rollout string, after uint64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := w.op.Follow(ctx, operator.EventQuery{After: after}, func(e operator.Event) error {
		if e.Type == "rollout.moved" && w.standing(rollout) == "done" {
			return errDone
		}
		return nil
	})
	if err != errDone {
		w.t.Fatal(err)
	}
}

// BenchmarkIdle measures the memory of the process with so many open long-polls;
// the clients' half of each connection is part of it.
func BenchmarkIdle(b *testing.B) {
	for _, hosts := range []int{1000} {
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			w := newWorld(b)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			agents := make([]*agent, hosts)
			var wg sync.WaitGroup
			for i := range agents {
				agents[i] = newAgent(w, hostName(i))
				wg.Go(agents[i].enrol)
			}
			wg.Wait()
			stop := runAgents(b, agents...)
			defer stop()
			w.until("every host to be back", func() bool {
				s, err := w.op.Status(w.ctx())
				return err == nil && s.Hosts.Online == hosts
			})
			for b.Loop() {
				runtime.GC()
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(hosts)/1024, "KiB/host")
		})
	}
}
