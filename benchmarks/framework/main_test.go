// Package framework puts the reconcile loop beside controller-runtime and client-go's
// work queue, on the same keys, with the same reconciler that does nothing, in one run.
package framework

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// keys is how many resources there are in every benchmark.
const keys = 100_000

// refs are the keys; all programs share their text.
var refs = sync.OnceValue(func() []engine.Ref {
	out := make([]engine.Ref, keys)
	for i := range out {
		out[i] = engine.Ref{Kind: "bench", ID: fmt.Sprint(i)}
	}
	return out
})

func TestMain(m *testing.M) {
	fmt.Printf("versions: %s; %d workers each, %d keys\n", strings.Join(versions(), ", "), workers(), keys)
	os.Exit(m.Run())
}

// versions are those of Go and of the peers.
func versions() []string {
	out := []string{runtime.Version()}
	for _, path := range []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"} {
		raw, err := exec.Command("go", "list", "-m", path).Output()
		if err != nil {
			raw = []byte(path + " of go.mod")
		}
		out = append(out, strings.TrimSpace(string(raw)))
	}
	return out
}

// workers is how many turns run at once, in all programs.
func workers() int { return runtime.GOMAXPROCS(0) }

// heap is what is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what had a finalizer or lay in a pool
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// reportLatency reports quantiles.
func reportLatency(b *testing.B, all []time.Duration) {
	b.Helper()
	if len(all) == 0 {
		b.Fatal("nothing was measured")
	}
	slices.Sort(all)
	ms := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(float64(len(all)), "triggers")
}
