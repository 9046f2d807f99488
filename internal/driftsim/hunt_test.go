package driftsim

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

var wantFlag = flag.String("want", "", "the invariants that a hunt looks for, with commas; any by default")

// TestHunt plays schedules until one violates an invariant of a list, and prints the seed
// before and what it found after. Package mutant runs it with planted faults.
func TestHunt(t *testing.T) {
	testkit.Only(t, os.Getenv("STEADY_HUNT") != "", "package mutant runs it")
	for i := range seeds(t) {
		seed := *firstFlag + uint64(i)
		fmt.Println("playing", seed)
		for _, v := range Run(Config{Seed: seed}).Violations {
			if *wantFlag == "" || slices.Contains(strings.Split(*wantFlag, ","), v.Invariant) {
				fmt.Printf("found %q\n", v.Invariant+": "+v.Message)
				return
			}
		}
	}
}
