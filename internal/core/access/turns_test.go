package access

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTurns: nothing that waits is lost or comes twice, of one address it comes in order, and between two of one
// address every other that waited all the time has one.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns Turns[int]
		waiting := map[netip.Addr][]int{} // by address, in order
		others := map[netip.Addr]map[netip.Addr]bool{}
		address := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 4).Draw(t, "address"))})
		})
		total := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				from := address.Draw(t, "from")
				total++
				turns.Add(from, total)
				waiting[from] = append(waiting[from], total)
			},
			"remove": func(t *rapid.T) {
				from, v := address.Draw(t, "from"), rapid.IntRange(1, total+1).Draw(t, "v")
				i := slices.Index(waiting[from], v)
				if got := turns.Remove(from, v); got != (i >= 0) {
					t.Fatalf("Remove(%s, %d) is %t", from, v, got)
				}
				if i >= 0 {
					waiting[from] = slices.Delete(waiting[from], i, i+1)
				}
			},
			"next": func(t *rapid.T) {
				v, ok := turns.Next()
				var from netip.Addr
				for a, of := range waiting {
					if len(of) > 0 && of[0] == v {
						from = a
					}
				}
				if ok != from.IsValid() {
					t.Fatalf("Next is %d, %t of %v", v, ok, waiting)
				}
				if !ok {
					return
				}
				for a := range others[from] {
					if len(waiting[a]) > 0 && a != from {
						t.Fatalf("%s had a turn, and has another before %s", from, a)
					}
				}
				waiting[from] = waiting[from][1:]
				others[from] = map[netip.Addr]bool{}
				for a, of := range waiting {
					if len(of) > 0 {
						others[from][a] = true
					}
				}
				for a := range others {
					delete(others[a], from)
				}
			},
			"": func(t *rapid.T) {
				addresses := 0
				for a, of := range waiting {
					if turns.Of(a) != len(of) {
						t.Fatalf("%d of %s wait, want %v", turns.Of(a), a, of)
					}
					if len(of) > 0 {
						addresses++
					} else {
						for b := range others {
							delete(others[b], a)
						}
					}
				}
				if turns.Addresses() != addresses {
					t.Fatalf("%d addresses, want %d", turns.Addresses(), addresses)
				}
			},
		})
	})
}
