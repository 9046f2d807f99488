//go:build mutant

package mutant

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

	"github.com/steadyfleet/steady/internal/need"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/seeds.txt again with what was found")

// known names the file with the seed that found each fault last.
const known = "testdata/seeds.txt"

type found struct {
	Seed      uint64        `json:"seed"`
	Seeds     int           `json:"seeds"`
	Took      time.Duration `json:"took"`
	Invariant string        `json:"invariant"`
	Words     string        `json:"words"`
}

// TestEveryFaultIsFound builds one binary with every fault and has the simulator
// hunt each: it has to find an invariant of the fault's own, in the schedule that
// found it last or else within STEADY_MUTANT_SEEDS schedules from seed 1. The
// nightly run hunts all from seed 1.
func TestEveryFaultIsFound(t *testing.T) {
	seeds := 5000
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
	if f := hunt(t, bin, 0, &Fault{}, 1, 100); f.Invariant != "" {
		t.Fatalf("without any fault seed %d violates %s: %s", f.Seed, f.Invariant, f.Words)
	}
	last := lastSeeds(t)
	results := make([]found, len(faults))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(faults)); i = next.Add(1) - 1 {
				results[i] = lastOrHunt(t, bin, int(i)+1, &faults[i], last[faults[i].Name], seeds)
			}
		})
	}
	wg.Wait()
	by, moved := map[string]bool{}, 0
	order := slices.SortedFunc(span(len(faults)), func(a, b int) int { return cmp.Compare(rank(faults[a].Finds[0]), rank(faults[b].Finds[0])) })
	t.Logf("%-10s %-8s %9s %9s %9s  %s", "planted", "found", "seed", "schedules", "time", "fault")
	for _, i := range order {
		f, r := &faults[i], &results[i]
		if r.Invariant == "" {
			t.Errorf("%q survives %d schedules; %s should have found it", f.Name, r.Seeds, strings.Join(f.Finds, " or "))
			continue
		}
		by[r.Invariant] = true
		note := ""
		if was := last[f.Name]; was != r.Seed {
			moved++
			note = fmt.Sprintf(" (was seed %d; 0 is none)", was)
		}
		t.Logf("%-10s %-8s %9d %9d %9s  %s%s", f.Finds[0], r.Invariant, r.Seed, r.Seeds, r.Took.Round(time.Millisecond), f.Name, note)
	}
	if moved > 0 {
		t.Logf("%d seeds of %s have moved; -rewrite writes them again", moved, known)
	}
	if *rewrite {
		writeSeeds(t, faults, results)
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

// lastSeeds reads the seed that found each fault last, by the fault's name.
func lastSeeds(t *testing.T) map[string]uint64 {
	raw, err := os.ReadFile(known)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for line := range strings.Lines(string(raw)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("%s: %q does not begin with a seed", known, line)
		}
		last[name] = seed
	}
	return last
}

// writeSeeds writes the seed that found each fault, in the order of the faults.
func writeSeeds(t *testing.T, faults []Fault, results []found) {
	var b strings.Builder
	for i := range faults {
		if results[i].Invariant != "" {
			fmt.Fprintf(&b, "%d %s\n", results[i].Seed, faults[i].Name)
		}
	}
	if err := os.MkdirAll(filepath.Dir(known), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(known, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lastOrHunt plays the schedule that found the fault last, if there is one, and hunts on
// from seed 1 when it no longer does.
func lastOrHunt(t *testing.T, bin string, id int, f *Fault, last uint64, seeds int) found {
	var tried found
	if last > 0 && !need.Nightly() {
		if tried = hunt(t, bin, id, f, last, 1); tried.Invariant != "" {
			return tried
		}
	}
	r := hunt(t, bin, id, f, 1, seeds)
	r.Seeds, r.Took = r.Seeds+tried.Seeds, r.Took+tried.Took
	return r
}

// hunt runs the binary with one fault on.
func hunt(t *testing.T, bin string, id int, fault *Fault, first uint64, seeds int) (f found) {
	cmd := exec.Command(bin, "-seeds", strconv.Itoa(seeds), "-want", strings.Join(fault.Finds, ","), "-trust="+strconv.FormatBool(fault.Trust), "-restore="+strconv.FormatBool(fault.Restore),
		"-first", strconv.FormatUint(first, 10))
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
