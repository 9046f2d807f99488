package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// unlucky has everything happen that chance can bring. Draws from zero never end.
type unlucky struct{}

func (unlucky) Uint64() uint64 { return 1 << 40 }

// TestL3ReleaseIsPushedUntilAServerHasIt has a restored server die at the push that
// follows: people push again.
func TestL3ReleaseIsPushedUntilAServerHasIt(t *testing.T) {
	tried := 0
	for seed := uint64(1); seed <= 200 && tried < 3; seed++ {
		w := build(Config{Seed: seed, Releases: 2, Trust: Never, Model: Never})
		steps := func(until func() bool) {
			for w.queue.Len() > 0 && len(w.found) == 0 && !until() {
				at, task := w.queue.Pop()
				w.now = at
				if task.due() {
					task.run()
				}
			}
		}
		first := uint64(0) // the release that the backup holds
		steps(func() bool {
			if w.log.whole != 0 && first == 0 {
				first = w.checks.released.Version
			}
			return w.checks.released.Version == 2 || w.now >= w.faultsEnd
		})
		if first != 1 || w.checks.released.Version != 2 || w.server.down || w.stale != nil || w.paused || w.ending {
			continue
		}
		tried++
		w.log.truncate(w.log.whole)
		w.checks.restored()
		w.server.die(clock.Second)
		steps(func() bool { return !w.server.down })
		chance := w.rand
		w.rand = rand.New(unlucky{})
		w.again()
		w.rand = chance
		if !w.server.down || len(w.found) > 0 {
			t.Fatalf("seed %d: the server took the release, %v", seed, w.found)
		}
		end := w.now.Add(10 * clock.Minute)
		has := func() bool { return !w.server.down && w.server.state.Release.Version == 2 }
		steps(func() bool { return w.now >= end || has() })
		if !has() {
			t.Errorf("seed %d: the server has release %d, 2 was pushed, %v", seed, w.server.state.Release.Version, w.found)
		}
	}
	if tried == 0 {
		t.Fatal("no schedule pushes a release after the backup")
	}
}
