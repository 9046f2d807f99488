//go:build mutant

package mutant

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the files of seeds in testdata again with what was found")

// hunter has a simulator, whose package has a TestHunt, find faults.
type hunter struct {
	pkg    string
	faults []Fault
	known  string // the file with the seed that found each fault last
	seeds  int    // how many schedules to play at most for a fault
	batch  int    // how many of them in one process
	// patience is how long a schedule may take: one that never comes to rest is found by
	// that. Zero is forever.
	patience time.Duration
	args     func(*Fault) []string
	bin      string
}

type found struct {
	Seed      uint64
	Seeds     int
	Took      time.Duration
	Invariant string // empty: nothing was found
	Words     string
}

// TestEveryFaultIsFound has the simulator find an invariant of each fault's own, in the
// schedule that found it last or else within STEADY_MUTANT_SEEDS schedules from seed
// 1. The nightly run hunts all from seed 1.
func TestEveryFaultIsFound(t *testing.T) {
	h := &hunter{pkg: "internal/sim", faults: Faults(), known: "testdata/seeds.txt", seeds: fromEnv(t, "STEADY_MUTANT_SEEDS", 5000)}
	h.batch = h.seeds
	h.args = func(f *Fault) []string {
		return []string{"-want", strings.Join(f.Finds, ","), "-trust=" + strconv.FormatBool(f.Trust), "-restore=" + strconv.FormatBool(f.Restore), "-liars=" + strconv.FormatBool(f.Liars)}
	}
	h.all(t, 100)
}

// TestEveryShellFaultIsFound has the server and agents as they ship find the faults of
// Shells, each within STEADY_SHELL_MUTANT_SEEDS schedules.
func TestEveryShellFaultIsFound(t *testing.T) {
	h := &hunter{pkg: "internal/shellsim", faults: Shells(), known: "testdata/shell_seeds.txt", seeds: fromEnv(t, "STEADY_SHELL_MUTANT_SEEDS", 60),
		batch: 10, patience: 2 * time.Minute, args: func(*Fault) []string { return nil }}
	h.all(t, 5)
}

// TestEveryNodeFaultIsFound has the simulation of nodes find the faults of Nodes, each within
// STEADY_NODE_MUTANT_SEEDS schedules.
func TestEveryNodeFaultIsFound(t *testing.T) {
	h := &hunter{pkg: "internal/driftsim", faults: Nodes(), known: "testdata/node_seeds.txt", seeds: fromEnv(t, "STEADY_NODE_MUTANT_SEEDS", 5000)}
	h.batch = h.seeds
	h.args = func(f *Fault) []string { return []string{"-want", strings.Join(f.Finds, ",")} }
	h.all(t, 100)
}

// TestEverySessionFaultIsFound has schedules with sessions find the faults of Labs, each within
// STEADY_SESSION_MUTANT_SEEDS schedules.
func TestEverySessionFaultIsFound(t *testing.T) {
	h := &hunter{pkg: "internal/sim", faults: Labs(), known: "testdata/session_seeds.txt", seeds: fromEnv(t, "STEADY_SESSION_MUTANT_SEEDS", 2000), patience: 10 * time.Minute}
	h.batch = h.seeds
	h.args = func(f *Fault) []string { return []string{"-labs", "-want", strings.Join(f.Finds, ",")} }
	h.all(t, 100)
}

// TestEveryDeadlineFaultIsFound has the simulation of hosts whose workspaces have an end find the faults of Deadlines,
// each within STEADY_DEADLINE_MUTANT_SEEDS of them.
func TestEveryDeadlineFaultIsFound(t *testing.T) {
	h := &hunter{pkg: "internal/docker/workspace", faults: Deadlines(), known: "testdata/deadline_seeds.txt", seeds: fromEnv(t, "STEADY_DEADLINE_MUTANT_SEEDS", 200),
		patience: 10 * time.Minute}
	h.batch = h.seeds
	h.args = func(f *Fault) []string { return []string{"-want", strings.Join(f.Finds, ",")} }
	h.all(t, 20)
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// all builds one binary with every fault and hunts each, after so many schedules in which
// none is on.
func (h *hunter) all(t *testing.T, without int) {
	dir, began := t.TempDir(), time.Now()
	overlay, err := Plant(root(t), dir, h.faults)
	if err != nil {
		t.Fatal(err)
	}
	h.bin = filepath.Join(dir, "hunt")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", h.bin, "./"+h.pkg)
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with faults: %v\n%s", err, out)
	}
	t.Logf("built with %d faults in %s", len(h.faults), time.Since(began).Round(time.Millisecond))
	if f := h.play(t, 0, &Fault{}, 1, without); f.Invariant != "" {
		t.Fatalf("without any fault seed %d violates %s: %s", f.Seed, f.Invariant, f.Words)
	}
	last := h.lastSeeds(t)
	results := make([]found, len(h.faults))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(h.faults)); i = next.Add(1) - 1 {
				results[i] = h.hunt(t, int(i)+1, last[h.faults[i].Name])
			}
		})
	}
	wg.Wait()
	h.tell(t, results, last)
	if *rewrite {
		h.writeSeeds(t, results)
	}
	t.Logf("%d faults hunted in %s", len(h.faults), time.Since(began).Round(time.Millisecond))
}

// tell prints what found each fault, in the order of the invariants.
func (h *hunter) tell(t *testing.T, results []found, last map[string]uint64) {
	by, moved := map[string]bool{}, 0
	order := make([]int, len(h.faults))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(h.faults[a].Finds[0]), rank(h.faults[b].Finds[0])) })
	t.Logf("%-10s %-8s %9s %9s %9s  %s", "planted", "found", "seed", "schedules", "time", "fault")
	for _, i := range order {
		f, r := &h.faults[i], &results[i]
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
		t.Logf("%d seeds of %s have moved; -rewrite writes them again", moved, h.known)
	}
	t.Logf("found by %s", strings.Join(slices.Sorted(maps.Keys(by)), " "))
}

// lastSeeds reads the seed that found each fault last, by the fault's name.
func (h *hunter) lastSeeds(t *testing.T) map[string]uint64 {
	raw, err := os.ReadFile(h.known)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for line := range strings.Lines(string(raw)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("%s: %q does not begin with a seed", h.known, line)
		}
		last[name] = seed
	}
	return last
}

// writeSeeds writes the seed that found each fault, in the order of the faults.
func (h *hunter) writeSeeds(t *testing.T, results []found) {
	var b strings.Builder
	for i := range h.faults {
		if results[i].Invariant != "" {
			fmt.Fprintf(&b, "%d %s\n", results[i].Seed, h.faults[i].Name)
		}
	}
	if err := os.WriteFile(h.known, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hunt plays the schedule that found the fault last, if there is one, and hunts on from
// seed 1 when it no longer does.
func (h *hunter) hunt(t *testing.T, id int, last uint64) found {
	var tried found
	f := &h.faults[id-1]
	if last > 0 && !testkit.Nightly() {
		if tried = h.play(t, id, f, last, 1); tried.Invariant != "" {
			return tried
		}
	}
	r := h.play(t, id, f, 1, h.seeds)
	r.Seeds, r.Took = r.Seeds+tried.Seeds, r.Took+tried.Took
	return r
}

var (
	playing  = regexp.MustCompile(`(?m)^playing (\d+)$`)
	violated = regexp.MustCompile(`(?m)^found "(\S+): (.*)"$`)
)

// play runs the binary with one fault on. A process that ends badly or hangs found it as
// well, in the schedule that it played last.
func (h *hunter) play(t *testing.T, id int, fault *Fault, first uint64, seeds int) (f found) {
	began := time.Now()
	for at := first; at < first+uint64(seeds); {
		cmd := exec.CommandContext(t.Context(), h.bin, append([]string{"-test.run", "^TestHunt$", "-test.timeout", h.patience.String(),
			"-first", strconv.FormatUint(at, 10), "-seeds", strconv.Itoa(min(seeds, max(h.batch, 1)))}, h.args(fault)...)...)
		cmd.Env = append(os.Environ(), "STEADY_HUNT=1", "STEADY_FAULT="+strconv.Itoa(id), "GOMAXPROCS=1")
		cmd.Dir = filepath.Join(root(t), h.pkg)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		played := playing.FindAllStringSubmatch(out.String(), -1)
		if len(played) == 0 {
			t.Errorf("hunt fault %d: %v\n%s", id, err, out.String())
			return f
		}
		f.Seed, _ = strconv.ParseUint(played[len(played)-1][1], 10, 64)
		f.Seeds, f.Took = f.Seeds+len(played), time.Since(began)
		if v := violated.FindStringSubmatch(out.String()); v != nil {
			f.Invariant, f.Words = v[1], v[2]
			return f
		}
		if err != nil && !slices.Contains(fault.Finds, "any") {
			t.Errorf("hunt fault %d: %v\n%s", id, err, out.String())
			return f
		}
		if err != nil {
			f.Invariant, f.Words = "panic", firstLine(out.String(), "panic: ", "FAIL")
			return f
		}
		at += uint64(len(played))
	}
	return f
}

// firstLine is the first line of an output that has one of the words.
func firstLine(out string, words ...string) string {
	for line := range strings.Lines(out) {
		for _, w := range words {
			if strings.Contains(line, w) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// rank is where an invariant stands in the list; those of no list come last.
func rank(invariant string) int {
	if i := slices.Index(simulated(), invariant); i >= 0 {
		return i
	}
	return len(simulated())
}
