package nodes

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// TestRoomKeepsPlaces: however connections come and go, no more are open than allowed, in all and of one address, and an
// address that has fewer than another by two always gets in.
func TestRoomKeepsPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRoom(rapid.IntRange(4, 20).Draw(t, "most"))
		open := map[*visitor]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			from := addr(rapid.IntRange(0, 4).Draw(t, "address"))
			if rapid.IntRange(0, 4).Draw(t, "leaves") == 0 {
				for v := range open { // order-free: any of them
					r.exit(v)
					r.exit(v)
					delete(open, v)
					break
				}
				continue
			}
			mine, most := len(r.by[from]), len(r.largest())
			var v *visitor
			v, _, ok := r.enter(from, func() {
				for other := range open { // order-free: those that lost their place
					if other.from != from && len(r.by[other.from]) == 0 || !has(r, other) {
						delete(open, other)
					}
				}
			})
			if ok {
				open[v] = true
			}
			if !ok && (mine+1 < most && mine < r.perAddress || r.open < r.most && mine < r.perAddress) {
				t.Fatalf("an address with %d is kept out beside one with %d, of %d", mine, most, r.open)
			}
			if count := len(r.by[from]); r.open > r.most || count > r.perAddress || r.open != len(open) {
				t.Fatalf("%d are open, %d of one address, expected %d", r.open, count, len(open))
			}
		}
	})
}

func has(r *room, v *visitor) bool {
	for _, x := range r.by[v.from] {
		if x == v {
			return true
		}
	}
	return false
}

// TestRoomOfOneAddress: beside any number that are silent, one of the same address gets in, once the oldest had its time.
func TestRoomOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ended := newRoom(512), 0
		for range 256 {
			if _, _, ok := r.enter(addr(1), func() { ended++ }); !ok {
				t.Fatal("there is a place, and it is not let in")
			}
		}
		if _, crowded, ok := r.enter(addr(1), nil); ok || !crowded {
			t.Error("it takes the place of one that had no time to say hello")
		}
		if _, crowded, ok := r.enter(addr(2), nil); !ok || crowded == (r.open <= r.most/2) {
			t.Errorf("another address: let in %v, crowded %v of %d", ok, crowded, r.open)
		}
		time.Sleep(old)
		if _, _, ok := r.enter(addr(1), nil); !ok || ended != 1 {
			t.Errorf("let in: %v, in the place of %d", ok, ended)
		}
	})
}

// TestAddressesTakeTurns: one address with as many as it can have does not keep the others waiting, and no more begin than the
// pace allows.
func TestAddressesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flood, others = 2000, 20
		s := newTurns(100, turnWithin)
		begun := time.Now()
		var mu sync.Mutex
		got, refused, longest := 0, 0, time.Duration(0)
		var all sync.WaitGroup
		take := func(from netip.Addr, honest bool) {
			all.Go(func() {
				at := time.Now()
				ok := s.take(t.Context(), from)
				mu.Lock()
				defer mu.Unlock()
				if wait := time.Since(at); ok {
					if got++; honest {
						longest = max(longest, wait)
					}
				} else if refused++; honest || wait > turnWithin {
					t.Errorf("%s is refused after %s", from, wait)
				}
			})
		}
		for range flood {
			take(addr(1), false)
		}
		time.Sleep(time.Second)
		for i := range others {
			take(addr(2+i), true)
		}
		all.Wait()
		if longest > others*3*time.Second/100 {
			t.Errorf("others wait for %s", longest)
		}
		if took := time.Since(begun); got > atOnce+2+int(took*100/time.Second) {
			t.Errorf("%d begin in %s", got, took)
		}
		if refused == 0 || s.waiting.Addresses() > 0 {
			t.Errorf("%d are refused, %v wait", refused, s.waiting)
		}
	})
}
