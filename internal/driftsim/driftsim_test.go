package driftsim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this one schedule with a trace")
	seedsFlag = flag.Int("seeds", 0, "how many schedules to play")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	nodesFlag = flag.Int("nodes", 0, "how many nodes each has; 1 to 4 drawn by default")
)

// TestMain gives the collector room: a schedule leaves nothing behind.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// seeds is how many schedules to play: the flag, STEADY_DRIFT_SEEDS, or a slice that fits a
// developer's patience.
func seeds(t *testing.T) int {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	if s := os.Getenv("STEADY_DRIFT_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("STEADY_DRIFT_SEEDS: %v", err)
		}
		return n
	}
	return 600
}

// TestReplay plays the schedule given with -seed and prints all that happens.
func TestReplay(t *testing.T) {
	testkit.Only(t, *seedFlag != 0, "give -seed N to replay a schedule")
	for _, v := range Run(Config{Seed: *seedFlag, Nodes: *nodesFlag, Trace: func(at clock.Instant, words string) { fmt.Printf("%d %s\n", at, words) }}).Violations {
		t.Errorf("%s: %s", v.Invariant, v.Message)
	}
}

// TestNodesHoldTheirInvariants plays many schedules and judges S44 to S53 after every event.
func TestNodesHoldTheirInvariants(t *testing.T) {
	testkit.Only(t, *seedFlag == 0, "replaying one schedule")
	play(t, seeds(t), func(seed uint64) Config { return Config{Seed: seed, Nodes: *nodesFlag} })
}

// TestFiftyNodesHoldTheirInvariants is the same with many nodes and long schedules.
func TestFiftyNodesHoldTheirInvariants(t *testing.T) {
	testkit.Only(t, *seedFlag == 0, "replaying one schedule")
	play(t, max(2, seeds(t)/600), func(seed uint64) Config { return Config{Seed: seed, Nodes: 50, Steps: 3000} })
}

// TestS53SameSeedSameHistory: one seed is one history, to the byte.
func TestS53SameSeedSameHistory(t *testing.T) {
	for seed := range uint64(30) {
		var histories [2]string
		for i := range histories {
			var b strings.Builder
			Run(Config{Seed: seed, Trace: func(at clock.Instant, words string) { fmt.Fprintln(&b, at, words) }})
			histories[i] = b.String()
		}
		if histories[0] == "" || histories[0] != histories[1] {
			t.Fatalf("seed %d has two histories", seed)
		}
	}
}

// play plays n schedules and reports each that violates something.
func play(t *testing.T, n int, config func(seed uint64) Config) {
	t.Helper()
	var next, played, events, failed atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed.Load() < 5; i = next.Add(1) {
				cfg := config(*firstFlag + uint64(i) - 1)
				r := Run(cfg)
				played.Add(1)
				events.Add(int64(r.Events))
				if len(r.Violations) > 0 {
					failed.Add(1)
					t.Errorf("seed %d: %s: %s\nreplay: go test ./internal/driftsim -run TestReplay -seed %d -nodes %d",
						r.Seed, r.Violations[0].Invariant, r.Violations[0].Message, r.Seed, cfg.Nodes)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%.0f schedules/min, %d schedules, %d events", float64(played.Load())/time.Since(start).Minutes(), played.Load(), events.Load())
}
