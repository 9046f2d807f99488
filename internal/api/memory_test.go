package api

import "testing"

func TestBurstEndsOnce(t *testing.T) {
	const a, b = trimAfter, 3 * trimAfter
	for _, tt := range []struct {
		name string
		seqs []uint64
		want []bool
	}{
		{"nothing ever happens", []uint64{0, 0, 0}, []bool{false, false, false}},
		{"little happens", []uint64{5, 5, trimAfter - 1, trimAfter - 1}, []bool{false, false, false, false}},
		{"a burst, then rest", []uint64{a, a, a, a}, []bool{false, true, false, false}},
		{"growing is no rest", []uint64{a, a + 1, a + 2, a + 2}, []bool{false, false, false, true}},
		{"two bursts", []uint64{a, a, b, b, b}, []bool{false, true, false, true, false}},
		{"a trickle adds up", []uint64{a, a, a + 1, a + 1, 2 * a, 2 * a}, []bool{false, true, false, false, false, true}},
	} {
		var x burst
		for i, seq := range tt.seqs {
			if got := x.over(seq); got != tt.want[i] {
				t.Errorf("%s: call %d with %d: %t", tt.name, i, seq, got)
			}
		}
	}
}
