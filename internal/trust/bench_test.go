package trust

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// BenchmarkLeaves100000 is what a server pays to check a large manifest once.
func BenchmarkLeaves100000(b *testing.B) {
	leaves := make([][]byte, 100_000)
	for i := range leaves {
		leaves[i] = canonical(b, fleet.Leaf{Host: fmt.Sprintf("host-%06d", i), Target: digestOf(nil), Probes: []int{0, 1}})
	}
	m := prove(fleet.Manifest{Waves: []fleet.Wave{{Hosts: len(leaves)}}, Probes: make([]fleet.Probe, 2),
		LeafCount: len(leaves), LeavesRoot: fmt.Sprintf("%x", LeavesRoot(leaves))}, "", day0)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (Verifier{}).Leaves(m, leaves); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAccept is one agent's whole way from a timestamp to a blob.
func BenchmarkAccept(b *testing.B) {
	k := newKeys(b, "1")
	v := begin(b, k.root(b, 1, 1))
	r := newRelease(b, k, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		testkit.Value(r.accept(v, day0.Add(clock.Second)))(b)
	}
}
