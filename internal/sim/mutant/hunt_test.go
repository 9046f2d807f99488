//go:build mutant

package mutant

import (
	"cmp"
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type found struct {
	Seed      uint64        `json:"seed"`
	Seeds     int           `json:"seeds"`
	Took      time.Duration `json:"took"`
	Invariant string        `json:"invariant"`
	Words     string        `json:"words"`
}

// TestEveryFaultIsFound builds one binary with every fault and has the simulator
// hunt each: it has to find an invariant of the fault's own within
// STEADY_MUTANT_SEEDS schedules.
func TestEveryFaultIsFound(t *testing.T) {
	seeds := 400
	if s := os.Getenv("STEADY_MUTANT_SEEDS"); s != "" {
		var err error
		if seeds, err = strconv.Atoi(s); err != nil {
			t.Fatalf("STEADY_MUTANT_SEEDS: %v", err)
		}
	}
	dir, began := t.TempDir(), time.Now()
	faults := Faults()
	overlay, err := Plant(root(t), dir, faults)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "hunt")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./internal/sim/hunt")
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with faults: %v\n%s", err, out)
	}
	t.Logf("built with %d faults in %s", len(faults), time.Since(began).Round(time.Millisecond))
	if f := hunt(t, bin, 0, &Fault{}, 100); f.Invariant != "" {
		t.Fatalf("without any fault seed %d violates %s: %s", f.Seed, f.Invariant, f.Words)
	}
	results := make([]found, len(faults))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(faults)); i = next.Add(1) - 1 {
				f := &faults[i]
				results[i] = hunt(t, bin, int(i)+1, f, seeds)
			}
		})
	}
	wg.Wait()
	by := map[string]bool{}
	order := slices.SortedFunc(span(len(faults)), func(a, b int) int { return cmp.Compare(rank(faults[a].Finds[0]), rank(faults[b].Finds[0])) })
	t.Logf("%-10s %-8s %9s %9s  %s", "planted", "found", "schedules", "time", "fault")
	for _, i := range order {
		f, r := &faults[i], &results[i]
		if r.Invariant == "" {
			t.Errorf("%q survives %d schedules; %s should have found it", f.Name, r.Seeds, strings.Join(f.Finds, " or "))
			continue
		}
		by[r.Invariant] = true
		t.Logf("%-10s %-8s %9d %9s  %s", f.Finds[0], r.Invariant, r.Seeds, r.Took.Round(time.Millisecond), f.Name)
	}
	t.Logf("%d faults hunted in %s by %s", len(faults), time.Since(began).Round(time.Millisecond), strings.Join(slices.Sorted(keys(by)), " "))
}

// span gives the numbers from 0 on.
func span(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m { // order-free: the caller sorts
			if !yield(k) {
				return
			}
		}
	}
}

// hunt runs the binary with one fault on.
func hunt(t *testing.T, bin string, id int, fault *Fault, seeds int) (f found) {
	cmd := exec.Command(bin, "-seeds", strconv.Itoa(seeds), "-want", strings.Join(fault.Finds, ","), "-trust="+strconv.FormatBool(fault.Trust), "-restore="+strconv.FormatBool(fault.Restore),
		"-first", strconv.FormatUint(max(1, fault.First), 10))
	cmd.Env = append(os.Environ(), "STEADY_FAULT="+strconv.Itoa(id), "GOMAXPROCS=1", "GOGC=800")
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	if err != nil {
		t.Errorf("hunt fault %d: %v\n%s", id, err, out)
	}
	return f
}

// rank is where an invariant stands in the list; those of no list come last.
func rank(invariant string) int {
	if i := slices.Index(simulated(), invariant); i >= 0 {
		return i
	}
	return len(simulated())
}
