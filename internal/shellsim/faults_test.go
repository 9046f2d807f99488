package shellsim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// faults draws what goes wrong. Every draw has a stream of its own, made of the
// seed, the place and the number of times that it was asked there: goroutines that
// run in another order change nobody else's draws.
type faults struct {
	seed  uint64
	calm  atomic.Bool
	mu    sync.Mutex
	drawn map[string]int // by kind
}

func newFaults(seed uint64) *faults { return &faults{seed: seed, drawn: map[string]int{}} }

// on says whether faults are still injected.
func (f *faults) on() bool { return !f.calm.Load() }

func (f *faults) count(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drawn[kind]++
}

// at is the stream of the nth draw at a place.
func (f *faults) at(place string, n int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", place, n)
	return rand.New(rand.NewPCG(f.seed, h.Sum64()))
}

// Ways in which a connection ends that nobody closed.
const (
	cutReset    = iota // both ends are told
	cutHalfOpen        // nobody is told
	cutTorn            // half of a write arrives
	cutKinds
)

// connDraw is what goes wrong with one connection.
type connDraw struct {
	refused    bool
	latency    time.Duration
	cutAfter   int // writes of one end; 0 is never
	serverSide bool
	how        int
	stallEvery int
	stall      time.Duration
}

func (f *faults) conn(from string, ord int) connDraw {
	r := f.at("connection of "+from, ord)
	d := connDraw{latency: time.Duration(1+r.IntN(40)) * time.Millisecond}
	if !f.on() {
		return d
	}
	if r.IntN(12) == 0 {
		f.count("connection refused")
		d.refused = true
	}
	if r.IntN(3) == 0 {
		d.cutAfter, d.serverSide, d.how = 3+r.IntN(60), r.IntN(3) > 0, r.IntN(cutKinds)
	}
	if r.IntN(4) == 0 {
		d.stallEvery, d.stall = 5+r.IntN(40), time.Duration(1+r.IntN(20))*time.Second
	}
	return d
}

// total adds up the faults of many schedules.
type total struct {
	mu     sync.Mutex
	drawn  map[string]int
	played int
	events int
}

func (t *total) add(f *faults, events int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, n := range f.drawn { // order-free: sums
		t.drawn[k] += n
	}
	t.played++
	t.events += events
}

func (t *total) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t.drawn)) {
		fmt.Fprintf(&b, "\n%8d %s", t.drawn[k], k)
	}
	return b.String()
}
