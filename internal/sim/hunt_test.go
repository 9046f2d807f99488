package sim

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	wantFlag    = flag.String("want", "", "the invariants that a hunt looks for, with commas; any by default")
	trustFlag   = flag.Bool("trust", false, "have hosts verify signed documents in every schedule")
	restoreFlag = flag.Bool("restore", false, "restore the server from a backup in every schedule")
)

// TestHunt plays schedules until one violates an invariant of a list, and prints the seed
// before and what it found after. Package mutant runs it with planted faults.
func TestHunt(t *testing.T) {
	testkit.Only(t, os.Getenv("STEADY_HUNT") != "", "package mutant runs it")
	for i := range seeds(t) {
		cfg := played(*firstFlag + uint64(i))
		if wanted("S25") || wanted("S26") {
			cfg.Model = Always
		}
		fmt.Println("playing", cfg.Seed)
		if found := firstWanted(cfg); found != "" {
			fmt.Printf("found %q\n", found)
			return
		}
	}
}

// firstWanted returns the first violation of a wanted invariant, or "". What panics is
// found as "panic".
func firstWanted(cfg Config) (found string) {
	defer func() {
		if p := recover(); p != nil && wanted("panic") {
			found = fmt.Sprint("panic: ", p)
		}
	}()
	for _, v := range Run(cfg).Violations {
		if wanted(v.Invariant) {
			return v.Invariant + ": " + v.Message
		}
	}
	return ""
}

func wanted(invariant string) bool {
	return *wantFlag == "" || slices.Contains(strings.Split(*wantFlag, ","), invariant)
}
