package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
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
	labsFlag  = flag.Bool("labs", false, "have sessions come and go in every schedule")
	liarsFlag = flag.Bool("liars", false, "have hosts taken over in every schedule")
)

// TestMain gives the collector room: a schedule leaves nothing behind.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// seeds is how many schedules to play: the flag, STEADY_SIM_SEEDS, or a slice
// that fits a developer's patience.
func seeds(t *testing.T) int {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	if s := os.Getenv("STEADY_SIM_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("STEADY_SIM_SEEDS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 200
	}
	return 400
}

// played is a schedule as the flags ask for it, and STEADY_MODEL, which holds every one
// against the specification.
func played(seed uint64) Config {
	if *labsFlag {
		return withLabs(seed)
	}
	share := func(always bool) Share {
		if always {
			return Always
		}
		return Some
	}
	return Config{Seed: seed, Model: share(os.Getenv("STEADY_MODEL") != ""), Liars: share(*liarsFlag), Restore: share(*restoreFlag), Trust: share(*trustFlag)}
}

// flags are what a replay of a schedule needs beside its seed.
func (c *Config) flags() (words string) {
	if c.Labs > 0 {
		words += " -labs"
	}
	if c.Liars == Always {
		words += " -liars"
	}
	if c.Restore == Always {
		words += " -restore"
	}
	if c.Trust == Always {
		words += " -trust"
	}
	return words
}

// TestReplay plays the schedule given with -seed and prints all that happens.
func TestReplay(t *testing.T) {
	testkit.Only(t, *seedFlag != 0, "give -seed N to replay a schedule")
	cfg := played(*seedFlag)
	cfg.Trace = func(at clock.Instant, words string) { fmt.Printf("%s %s\n", at, words) }
	r := Run(cfg)
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Invariant, v.Message)
	}
}

// TestInvariants plays many schedules and checks every invariant after every
// event: S1 S2 S7 to S12 S14 S16 to S20 S22 to S27 S29 L1 and L3 among them; the
// list is audit's.
func TestInvariants(t *testing.T) {
	testkit.Only(t, *seedFlag == 0, "replaying one schedule")
	play(t, seeds(t), played)
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
					t.Errorf("seed %d: %s: %s\nreplay: go test ./internal/sim -run TestReplay -seed %d%s",
						r.Seed, r.Violations[0].Invariant, r.Violations[0].Message, r.Seed, cfg.flags())
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%.0f schedules/min, %d schedules, %d events", float64(played.Load())/time.Since(start).Minutes(), played.Load(), events.Load())
}

// TestSameSeedSameHistory is P12: one seed is one history.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(20) {
		var a, b []string
		Run(Config{Seed: seed, Trace: func(at clock.Instant, words string) { a = append(a, at.String()+words) }})
		Run(Config{Seed: seed, Trace: func(at clock.Instant, words string) { b = append(b, at.String()+words) }})
		if len(a) == 0 || len(a) != len(b) {
			t.Fatalf("seed %d: %d things happened, then %d", seed, len(a), len(b))
		}
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("seed %d: step %d was %q, then %q", seed, i, a[i], b[i])
			}
		}
	}
}
