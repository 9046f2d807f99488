package api_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

const (
	paceAgents = 1000
	paceTicks  = 100 // in each, 100 ms, a hundredth of the agents goes through a change
	rounds     = 1
	views      = 7
)

// filtered is how long it takes from a key in the search field until only hosts that it finds
// are shown, in milliseconds.
const filtered = `new Promise((done) => {
	const field = document.querySelector("input[type=search]"), begun = performance.now();
	const seen = new MutationObserver(() => {
		const rows = [...document.querySelectorAll("tbody th")];
		if (rows.length === 0 || !rows.every((r) => r.textContent.includes("%[1]s"))) return;
		seen.disconnect();
		requestAnimationFrame(() => done(performance.now() - begun));
	});
	seen.observe(document.body, { subtree: true, childList: true, characterData: true });
	field.value = "%[1]s";
	field.dispatchEvent(new Event("input", { bubbles: true }));
})`

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// BenchmarkPage measures the page in a browser with 10,000 hosts, of which 1,000 go through a
// change one after the other, at a steady pace. The server and the agents are one process.
func BenchmarkPage(b *testing.B) {
	w := newWorld(b)
	testkit.Value(w.push(w.many("r0")))(b)
	agents := make([]*agent, paceAgents)
	var wg sync.WaitGroup
	for i := range agents {
		agents[i] = newAgent(w, hostName(i))
		wg.Go(agents[i].enrol)
	}
	wg.Wait()
	stop := runAgents(b, agents...)
	for b.Loop() {
		p := w.opened(b)
		first := p.Metrics()
		b.ReportMetric(browse.Eval[float64](p, "window.drawn"), "first-ms")
		b.ReportMetric(float64(first.Requests), "requests")
		b.ReportMetric(float64(first.Bytes)/1024, "KiB")
		var again, filters, busy, cpu, pace []float64
		for range views {
			p.Go(w.server.OperatorURL() + "/")
			p.Until("the cells to be drawn", "window.drawn")
			again = append(again, browse.Eval[float64](p, "window.drawn"))
		}
		b.ReportMetric(median(again), "paint-ms")
		for i := range rounds {
			stop()
			stop = w.paced(fmt.Sprint("r", i+1), agents, func(change func() float64) {
				before, begun := p.Metrics(), time.Now()
				records := change()
				took, after := time.Since(begun).Seconds(), p.Metrics()
				pace = append(pace, records/took)
				busy = append(busy, 100*(after.Busy-before.Busy).Seconds()/took)
				cpu = append(cpu, 100*(after.CPU-before.CPU).Seconds()/took)
			})
		}
		b.ReportMetric(median(pace), "records/s")
		b.ReportMetric(median(busy), "main-thread-%")
		b.ReportMetric(median(cpu), "browser-%")
		b.ReportMetric(float64(p.Metrics().Heap)/(1<<20), "heap-MiB")
		p.Go(w.server.OperatorURL() + "/hosts")
		p.WaitText("of 10000")
		b.ReportMetric(browse.Eval[float64](p, rows), "rows")
		for i := range views {
			filters = append(filters, browse.Eval[float64](p, fmt.Sprintf(filtered, fmt.Sprintf("%d%d", 9-i%9, i%9))))
		}
		b.ReportMetric(median(filters), "filter-ms")
	}
	stop()
}

// paced takes agents through a release at a steady pace while look measures; change returns how
// many records the log has more afterwards. The agents live on until they are stopped.
func (w *world) paced(ref string, agents []*agent, look func(change func() float64)) (stop func()) {
	w.t.Helper()
	testkit.Value(w.push(w.many(ref)))(w.t)
	var stops []func()
	look(func() float64 {
		before := w.server.Control().Head().Seq
		tick := time.NewTicker(100 * time.Millisecond) // the load, not a wait
		defer tick.Stop()
		for some := range slices.Chunk(agents, len(agents)/paceTicks) {
			stops = append(stops, liveAgents(some...))
			<-tick.C
		}
		return float64(w.server.Control().Head().Seq - before)
	})
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
