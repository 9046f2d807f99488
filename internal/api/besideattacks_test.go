package api_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// bench is what is measured: hosts, a node and an operator of a server in a process of its own.
type bench struct {
	*world
	good   *wireNode
	events chan operator.Event
	round  int
	took   map[string]map[bool][]float64 // milliseconds by what was done, beside the attack or alone
}

// BenchmarkBesideAttacks is how long an edit takes until it is pushed, a rollout to three hosts until they converged, and a
// session until its first phase runs: alone and beside each attack, in turn. The attackers are a process that gets what others
// leave of the processors, so that what is measured is the server. cpu is what the server itself uses, by edit.
func BenchmarkBesideAttacks(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			h := newBench(b)
			job := attackJob{Attack: name, Viewer: h.tokenOf(operator.Viewer, 0).Secret}
			h.recruit(&job, "bad-0", "bad-1", "bad-2")
			h.edit("bad-0", "undone")
			h.rounds(false)
			clear(h.took)
			for b.Loop() {
				h.rounds(false)
				end := h.attackers(job)
				h.rounds(true)
				end()
			}
			for _, what := range slices.Sorted(maps.Keys(h.took)) {
				alone, beside := h.took[what][false], h.took[what][true]
				b.ReportMetric(quantile(beside, 0.5), what+"-ms")
				b.ReportMetric(quantile(beside, 0.5)/quantile(alone, 0.5), what+"-ratio")
				if what == "edit" {
					b.ReportMetric(quantile(beside, 0.9)/quantile(alone, 0.9), what+"-p90-ratio")
				}
			}
		})
	}
}

func quantile(of []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func newBench(b *testing.B) *bench {
	w := newKeys(b)
	testkit.Must(b, os.WriteFile(filepath.Join(w.dir, "root.json"), w.root, 0o600))
	w.spawn()
	b.Cleanup(func() { w.child.kill() })
	secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(filepath.Join(w.dir, "server", control.AdminTokenFile)))(b)))
	w.op = testkit.Value(operator.NewClient(operator.Options{URL: w.url(), Token: secret, ServerCA: w.ca()}))(b)
	b.Cleanup(w.op.Close)
	h := &bench{world: w, good: w.wireNode("good"), events: make(chan operator.Event, 1<<16), took: map[string]map[bool][]float64{}}
	h.good.from = "127.0.0.2"
	h.good.join()
	ctx, stop := context.WithCancel(context.Background())
	b.Cleanup(stop)
	go h.good.serve(ctx, func(nodesdk.Message) bool { return false })
	go func() {
		// Its error is the end of ctx, or shows in what is waited for.
		_ = w.op.Follow(ctx, operator.EventQuery{}, func(e operator.Event) error { h.events <- e; return nil })
	}()
	w.release("r0", plan{hosts: 3, content: "zero"})
	runAgents(b, w.agents(3)...)
	h.await("r0", func(operator.Event) bool { return w.standing("stable@r0") == "done" })
	return h
}

// await waits for a condition, which is asked after every event, and again soon: what is shown may follow the event by a moment.
func (h *bench) await(what string, done func(operator.Event) bool) {
	h.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		var e operator.Event
		select {
		case e = <-h.events:
		case <-again.C:
		case <-late.C:
			h.t.Fatalf("waited in vain for %s", what)
		}
		if done(e) {
			return
		}
	}
}

// edit has a flow be on a node, by the API.
func (h *bench) edit(node, name string) {
	h.t.Helper()
	h.round++
	set := operator.SetObject{Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: node, Config: fmt.Appendf(nil, `{"input":"%d"}`, h.round)}}}, Reason: "test"}
	testkit.Value(h.op.SetObject(h.ctx(), nodeconfig.Flow, name, set))(h.t)
}

// measure notes how long something takes, in time and in processor time of the server, over so many times.
func (h *bench) measure(what string, beside bool, do func()) {
	for len(h.events) > 0 {
		<-h.events
	}
	begun := time.Now()
	do()
	h.note(what, beside, float64(time.Since(begun).Microseconds())/1000)
}

func (h *bench) note(what string, beside bool, value float64) {
	if h.took[what] == nil {
		h.took[what] = map[bool][]float64{}
	}
	h.took[what][beside] = append(h.took[what][beside], value)
}

// rounds does each thing a few times.
func (h *bench) rounds(beside bool) {
	const edits, others = 20, 3
	cpu := h.serverCPU()
	for range edits {
		h.measure("edit", beside, func() {
			h.edit("good", "news")
			h.await("the push", func(e operator.Event) bool {
				return e.Type == (event.PushSucceeded{}).EventType() && strings.Contains(string(e.Body), `"good"`)
			})
		})
	}
	h.note("cpu", beside, (h.serverCPU()-cpu)/edits)
	for range others {
		h.round++
		ref := "r" + strconv.Itoa(h.round)
		dir := h.build(ref, plan{hosts: 3, content: ref})
		h.measure("rollout", beside, func() {
			testkit.Value(h.push(dir))(h.t)
			h.await(ref, func(e operator.Event) bool {
				return (e.Type == "" || e.Type == "rollout.moved") && h.standing("stable@"+ref) == "done"
			})
		})
		name := "s" + strconv.Itoa(h.round)
		h.measure("session", beside, func() {
			testkit.Value(h.op.CreateSession(h.ctx(), name, awaiting()))(h.t)
			h.await("the phase", func(e operator.Event) bool {
				return (e.Type == "" || strings.HasPrefix(e.Type, "session.")) && h.phase(name, 0).State == session.PhaseRunning
			})
		})
		testkit.Must(h.t, h.op.StopSession(h.ctx(), name))
	}
}

// serverCPU is the processor time of the server, in milliseconds: the fields 14 and 15 of proc_pid_stat(5), of 10 ms each.
func (h *bench) serverCPU() float64 {
	h.t.Helper()
	raw := string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.child.cmd.Process.Pid)))(h.t))
	fields := strings.Fields(raw[strings.LastIndexByte(raw, ')')+1:])
	user, system := testkit.Value(strconv.Atoi(fields[11]))(h.t), testkit.Value(strconv.Atoi(fields[12]))(h.t)
	return float64(user+system) * 10
}
