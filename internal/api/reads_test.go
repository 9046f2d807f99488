package api_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/testkit"
)

// reads are how many reads the reducer has served, and how many seconds they took.
func (w *world) reads(t testing.TB) (n, seconds float64) {
	for line := range strings.Lines(w.scrape()) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "steady_read_seconds_count "); is {
			n = testkit.Value(strconv.ParseFloat(text, 64))(t)
		}
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "steady_read_seconds_sum "); is {
			seconds = testkit.Value(strconv.ParseFloat(text, 64))(t)
		}
	}
	return n, seconds
}

// readsOf gets a route, and says how many reads it took and the mean of each in seconds; less is what a scrape alone takes.
func (w *world) readsOf(t testing.TB, route string) (n, seconds float64) {
	n0, s0 := w.reads(t)
	n1, s1 := w.reads(t)
	if status, body := w.request(w.adminSecret(), "GET", operator.Prefix+"/"+route, ""); status != 200 {
		t.Fatalf("%s: %d %.200s", route, status, body)
	}
	n2, s2 := w.reads(t)
	return n2 - n1 - (n1 - n0), s2 - s1 - (s1 - s0)
}

// TestListsOfHostsAreReadInPages checks that what is made of all hosts keeps the reducer for some at a time, and that no
// list takes much longer there than another, as one does that compares each host with each.
func TestListsOfHostsAreReadInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const hosts, rounds = 10*control.HostsAtOnce + 1, 5
	w.release("r1", plan{hosts: hosts, content: "one"})
	least := map[string]float64{}
	for _, route := range []string{"hosts", "resource-list"} {
		least[route] = 1e9
		for range rounds {
			n, took := w.readsOf(t, route)
			if n < 11 {
				t.Errorf("%s of %d hosts is made of %v reads", route, hosts, n)
			}
			least[route] = min(least[route], took)
		}
	}
	if a, b := least["hosts"], least["resource-list"]; b > 8*a || a > 8*b {
		t.Errorf("hosts take %v s in the reducer, and their resources %v s", a, b)
	}
}

// BenchmarkReads is how long the reducer is kept by a request of each route that reads all hosts or sessions.
func BenchmarkReads(b *testing.B) {
	for _, hosts := range []int{1000, 10_000} {
		w := newWorld(b)
		w.release("r1", plan{hosts: hosts, content: "one"})
		for i := range 20 {
			testkit.Value(w.op.CreateSession(w.ctx(), fmt.Sprintf("lab%d", i), manyParts()))(b)
		}
		for _, route := range []string{"status", "fleet", "hosts", "host-list", "hosts/h-0000", "hosts/h-0000/why", "resource-list", "rollouts", "rollouts/stable@r1", "attention", "safe-mode", "sessions", "session-list",
			"session-templates", "nodes", "drift", "quarantine", "overrides", "tokens", "session-quotas"} {
			b.Run(strings.ReplaceAll(fmt.Sprintf("%s of %d", route, hosts), "/", "-"), func(b *testing.B) {
				n, seconds, least := 0.0, 0.0, 1e9
				for b.Loop() {
					reads, took := w.readsOf(b, route)
					n, seconds = n+reads, seconds+took
					least = min(least, took/max(1, reads))
				}
				b.ReportMetric(n/float64(b.N), "reads")
				b.ReportMetric(1000*seconds/float64(b.N), "ms-in-reducer")
				b.ReportMetric(1000*least, "ms-a-read")
			})
		}
	}
}
