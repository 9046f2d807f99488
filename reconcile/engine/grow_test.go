package engine

import (
	"fmt"
	"runtime"
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
	of := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := IsConverged(Reason{})
		for range n {
			d = d.With(Delete(Ref{"k", "a"})).WithVerdicts(Verdict{})
		}
		runtime.ReadMemStats(&after)
		if len(d.Children()) != n {
			t.Fatalf("it has %d children, want %d", len(d.Children()), n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := of(1000), of(16000); many > 32*few {
		t.Errorf("%d bytes for 16000 children and %d for 1000, want about 16 times as many", many, few)
	}
}
