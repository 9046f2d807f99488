package control

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Whenever something is measured: the list has the last of each minute of the last hour, in order,
// and a gap exactly where nothing came for longer than the patience.
func TestLoadsOfAnHour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const patience = 3 * clock.Minute
		var h loads
		now, last := clock.Instant(1<<40), map[clock.Instant]int16{}
		for range rapid.IntRange(0, 100).Draw(t, "samples") {
			now = now.Add(clock.Duration(rapid.Int64Range(1, int64(10*clock.Minute)).Draw(t, "pause")))
			cpu := int16(rapid.IntRange(unmeasured, 1000).Draw(t, "cpu"))
			h.add(now, load{cpu, unmeasured})
			last[now-now%clock.Instant(clock.Minute)] = cpu
		}
		var before clock.Instant
		seen, gap := 0, false
		for _, l := range h.list(now, patience) {
			cpu, is := last[l.At]
			if !is {
				if l.CPU != nil || l.Memory != nil || gap || before == 0 {
					t.Fatalf("nothing was measured at %s, which has %v after %s", l.At, l, before)
				}
				gap = true
				continue
			}
			if got := measured(cpu); (got == nil) != (l.CPU == nil) || got != nil && *got != *l.CPU || l.Memory != nil {
				t.Fatalf("%s has %v, and measured was %d", l.At, l, cpu)
			}
			if before != 0 && (l.At <= before || gap != (l.At.Sub(before) > patience)) {
				t.Fatalf("from %s to %s, with a gap: %t", before, l.At, gap)
			}
			before, gap = l.At, false
			seen++
		}
		want := 0
		for at := range last {
			if now.Sub(at) < loadSlots*clock.Minute {
				want++
			}
		}
		if seen != want {
			t.Fatalf("%d minutes are there of %d", seen, want)
		}
	})
}
