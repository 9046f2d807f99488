package shellsim

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this one schedule with a trace")
	seedsFlag = flag.Int("seeds", 0, "how many schedules to play")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	logFlag   = flag.Bool("log", false, "show what the processes log as well")
)

// TestMain gives the collector room: a schedule leaves nothing behind.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// seeds is how many schedules to play: the flag, STEADY_SHELL_SEEDS, or a slice
// that fits a developer's patience.
func seeds(t *testing.T) int {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	if s := os.Getenv("STEADY_SHELL_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("STEADY_SHELL_SEEDS: %v", err)
		}
		return n
	}
	return 20
}

// schedule plays one seed and returns what must not be.
func schedule(t *testing.T, seed uint64, sum *total, change ...func(*world)) (found []string) {
	dir := testkit.Value(os.MkdirTemp(memory(), "steady-shellsim-*"))(t)
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := testkit.Value(newWorld(seed, dir))(t)
		for _, f := range change {
			f(w)
		}
		w.play()
		found = w.found
		sum.add(w.faults, len(w.ledger.entries))
	})
	return found
}

// memory is a folder that no disk is behind, if there is one.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// TestReplay plays the schedule given with -seed and prints all that happens.
func TestReplay(t *testing.T) {
	testkit.Only(t, *seedFlag != 0, "give -seed N to replay a schedule")
	sum := &total{drawn: map[string]int{}}
	for _, v := range schedule(t, *seedFlag, sum, func(w *world) {
		w.tracing = true
		if *logFlag {
			w.logging = slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug})
		}
	}) {
		t.Error(v)
	}
	t.Log(sum)
}

// TestInvariants plays many schedules with the real server and agents.
func TestInvariants(t *testing.T) {
	testkit.Only(t, *seedFlag == 0, "replaying one schedule")
	n, start := seeds(t), time.Now()
	sum := &total{drawn: map[string]int{}}
	t.Run("schedules", func(t *testing.T) {
		for i := range n {
			seed := *firstFlag + uint64(i)
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				t.Parallel()
				for _, v := range schedule(t, seed, sum) {
					t.Errorf("%s\nreplay: go test ./internal/shellsim -run TestReplay -seed %d", v, seed)
				}
			})
		}
	})
	t.Logf("%.0f schedules/min, %d schedules, %d events%s", float64(sum.played)/time.Since(start).Minutes(), sum.played, sum.events, sum)
}

// TestHunt plays schedules until one violates an invariant, and prints the seed before
// and what it found after. Package mutant runs it with planted faults.
func TestHunt(t *testing.T) {
	testkit.Only(t, os.Getenv("STEADY_HUNT") != "", "package mutant runs it")
	sum := &total{drawn: map[string]int{}}
	for i := range seeds(t) {
		seed := *firstFlag + uint64(i)
		fmt.Println("playing", seed)
		var found []string
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { found = schedule(t, seed, sum) })
		if len(found) > 0 {
			fmt.Printf("found %q\n", found[0])
			return
		}
	}
}
