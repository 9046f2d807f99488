// Command hunt plays schedules until one violates an invariant of a list, and
// prints what it found as JSON. It is built with planted faults; see package
// mutant.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/sim"
)

// Found is what a hunt came to.
type Found struct {
	Seed      uint64        `json:"seed"`
	Seeds     int           `json:"seeds"`
	Took      time.Duration `json:"took"`
	Invariant string        `json:"invariant"` // empty: nothing was found
	Words     string        `json:"words"`
}

func main() {
	seeds := flag.Int("seeds", 1000, "how many schedules to play at most")
	first := flag.Uint64("first", 1, "the first seed")
	want := flag.String("want", "", "the invariants to look for, with commas; any by default")
	trust := flag.Bool("trust", false, "play only schedules with signed documents")
	restore := flag.Bool("restore", false, "play only schedules with a server that is restored from a backup")
	flag.Parse()
	began := time.Now()
	found := Found{}
	for i := range *seeds {
		cfg := sim.Config{Seed: *first + uint64(i)}
		if *trust {
			cfg.Trust = sim.Always
		}
		if *restore {
			cfg.Restore = sim.Always
		}
		if wanted(*want, "S26") {
			cfg.Model = sim.Always
		}
		found.Seed, found.Seeds = cfg.Seed, i+1
		if v := play(cfg, *want); v != nil {
			found.Invariant, found.Words = v[0], v[1]
			break
		}
	}
	found.Took = time.Since(began)
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play returns the first violation of a wanted invariant. What panics is found as
// "panic".
func play(cfg sim.Config, want string) (found []string) {
	defer func() {
		if p := recover(); p != nil && wanted(want, "panic") {
			found = []string{"panic", fmt.Sprint(p)}
		}
	}()
	for _, v := range sim.Run(cfg).Violations {
		if wanted(want, v.Invariant) {
			return []string{v.Invariant, v.Words}
		}
	}
	return nil
}

func wanted(list, invariant string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), invariant)
}
