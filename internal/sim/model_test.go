package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestModelAgrees is S25 and S26 by a second planner: on every tick of every
// schedule the set of decisions is the one that the specification makes of the whole log.
func TestModelAgrees(t *testing.T) {
	n, first := int64(240), *firstFlag
	if *seedsFlag > 0 {
		n = int64(*seedsFlag)
	}
	if testing.Short() {
		n = 60
	}
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= n && failed.Load() < 5; i = next.Add(1) {
				if err := modelled(first + uint64(i) - 1); err != nil {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func modelled(seed uint64) (err error) {
	r := Run(Config{Seed: seed, Trust: Never, Model: Always})
	for _, v := range r.Violations {
		return fmt.Errorf("seed %d: %s: %s\nreplay: STEADY_MODEL=1 go test ./internal/sim -run TestReplay -seed %d", seed, v.Invariant, v.Message, seed)
	}
	return nil
}
