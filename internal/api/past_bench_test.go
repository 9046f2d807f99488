package api_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/testkit"
)

// BenchmarkPast measures how long a route takes to answer about an earlier record, with 1,000
// hosts and STEADY_PAST_EVENTS records, 100,000 if it is not set: steps of a slider of 500
// places, forwards and backwards, and jumps anywhere. Folded is how long the first one takes,
// before any state but the newest snapshots is kept. A log made in the folder STEADY_PAST_DIR stays
// there, and is measured again without being made.
func BenchmarkPast(b *testing.B) {
	const hosts, places = 1000, 500
	most, err := strconv.ParseUint(os.Getenv("STEADY_PAST_EVENTS"), 10, 64)
	if err != nil {
		most = 100_000
	}
	w := newPastWorld(b)
	if w.server.Control().Head().Seq < most {
		w.changes(hosts, most)
	}
	end := w.server.Control().Head().Seq
	secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(b)))
	ask := func(seq uint64) time.Duration {
		begun := time.Now()
		if status, body := w.request(secret, "GET", fmt.Sprint("/v1/operator/status?at=", max(seq, 1)), ""); status != 200 {
			b.Fatalf("%d %s", status, body)
		}
		return time.Since(begun)
	}
	newest, folded := ask(end-end/places), ask(end/2)
	for i := range uint64(places) { // so that states are kept all over the log
		ask(end / places * i)
	}
	for b.Loop() {
		for _, way := range []struct {
			name string
			next func(i int) uint64
		}{
			{"forwards", func(i int) uint64 { return end/2 + end/places*uint64(i) }},
			{"backwards", func(i int) uint64 { return end/2 - end/places*uint64(i) }},
			{"jump", func(int) uint64 { return rand.Uint64N(end) }},
		} {
			var took []time.Duration
			for i := range 100 {
				took = append(took, ask(way.next(i)))
			}
			slices.Sort(took)
			b.ReportMetric(took[50].Seconds()*1000, way.name+"-ms")
			b.ReportMetric(took[95].Seconds()*1000, way.name+"-p95-ms")
		}
	}
	b.ReportMetric(float64(end), "records")
	b.ReportMetric(newest.Seconds()*1000, "newest-ms")
	b.ReportMetric(folded.Seconds()*1000, "folded-ms")
}

// newPastWorld is a world in the folder STEADY_PAST_DIR, if there is one.
func newPastWorld(b *testing.B) *world {
	dir := os.Getenv("STEADY_PAST_DIR")
	if dir == "" {
		return newWorld(b)
	}
	return newWorld(b, func(o *api.Options) {
		testkit.Must(b, os.MkdirAll(dir, 0o700))
		root := filepath.Join(dir, "root.json")
		if kept, err := os.ReadFile(root); err == nil {
			o.Root = kept
		}
		testkit.Must(b, os.WriteFile(root, o.Root, 0o600))
		o.DataDir = filepath.Join(dir, "server")
	})
}

// changes takes a fleet of so many hosts through one release after the other, until the log has
// so many records.
func (w *world) changes(hosts int, records uint64) {
	w.release("r0", plan{hosts: hosts, content: "r0"})
	agents := make([]*agent, hosts)
	var wg sync.WaitGroup
	for i := range agents {
		agents[i] = newAgent(w, hostName(i))
		wg.Go(agents[i].enrol)
	}
	wg.Wait()
	defer runAgents(w.t, agents...)()
	w.until("r0", func() bool { return w.standing("stable@r0") == "done" })
	for i := 1; w.server.Control().Head().Seq < records; i++ {
		ref := "r" + strconv.Itoa(i)
		dir := w.build(ref, plan{hosts: hosts, content: ref})
		after := w.server.Control().Head().Seq
		testkit.Value(w.push(dir))(w.t)
		w.untilTerminal("stable@"+ref, after)
	}
}
