package engine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestDecisionsAreValues: whatever is added to a decision, in whatever order, no other one has it.
func TestDecisionsAreValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type made struct {
			d    Decision
			want []string
		}
		all := []made{{d: IsConverged(Reason{Code: "ok"})}}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			m := all[rapid.IntRange(0, len(all)-1).Draw(t, "of")]
			next := made{m.d, append([]string(nil), m.want...)}
			var more []Intent
			for i := range rapid.IntRange(0, 3).Draw(t, "children") {
				id := fmt.Sprint(n, "-", i)
				more, next.want = append(more, Delete(Ref{"k", id})), append(next.want, id)
			}
			next.d = next.d.With(more...)
			_ = append(next.d.Children(), Delete(Ref{"k", "of a reader"}))
			all = append(all, next)
		}
		for _, m := range all {
			var got []string
			for _, c := range m.d.Children() {
				got = append(got, c.Ref.ID)
			}
			if fmt.Sprint(got) != fmt.Sprint(m.want) {
				t.Fatalf("it has %v, want %v", got, m.want)
			}
		}
	})
}

// TestADecisionIsMadeInLinearTime: adding children one by one does not copy them each time.
func TestADecisionIsMadeInLinearTime(t *testing.T) {
	of := func(n int) float64 {
		return testing.AllocsPerRun(5, func() {
			d := IsConverged(Reason{})
			for range n {
				d = d.With(Delete(Ref{"k", "a"})).WithVerdicts(Verdict{})
			}
		})
	}
	if few, many := of(100), of(1600); many > 3*few {
		t.Errorf("%.0f allocations for 1600 children and %.0f for 100, want about twice as many", many, few)
	}
}
