package replace

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestWatchFailing(t *testing.T) {
	ref := engine.Ref{Kind: spec.KindWorkspace, ID: "web"}
	network := engine.Ref{Kind: spec.KindNetwork, ID: "net"}
	crash := "ended with exit code 3; last output: boom"
	for name, c := range map[string]struct {
		earlier *Part
		ago     clock.Duration
		part    Part
		want    string // in the words; empty passes
	}{
		"runs":                        {part: Part{Ref: ref, Phase: engine.Converged}},
		"cleaning up is left over":    {part: Part{Ref: ref, Phase: engine.Degraded}},
		"a repair waits for its turn": {part: Part{Ref: ref, Phase: engine.Drifted, Reason: engine.NewReason("repair-needs-grant", "image moved")}},
		"declared as stopped":         {part: Part{Ref: ref, Phase: engine.Converged, Reason: engine.NewReason(spec.CodeStopped, ""), Run: spec.Stopped}},
		"a job that ended well":       {part: Part{Ref: ref, Phase: engine.Converged, Reason: engine.NewReason(spec.CodeStopped, ""), Run: spec.Once}},
		"left alone and down":         {part: Part{Ref: ref, Phase: engine.Converged, Reason: engine.NewReason(spec.CodeStopped, "left alone: "+crash)}, want: "left alone: " + crash},
		"down":                        {part: Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeNotRunning, crash)}, want: "workspace/web: " + crash},
		"given up":                    {part: Part{Ref: ref, Phase: engine.Failed, Reason: engine.NewReason("attempts-exhausted", "no such image")}, want: "no such image"},
		"a reason without words":      {part: Part{Ref: ref, Phase: engine.Waiting, Reason: engine.NewReason(CodeMissing, "")}, want: "container-missing"},
		"a network is not there":      {part: Part{Ref: network, Phase: engine.Waiting, Reason: engine.NewReason("network-missing", "gone")}, want: "network/net: gone"},
		"runs again, crashed just now": {earlier: &Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeNotRunning, crash)}, ago: Stable - 1,
			part: Part{Ref: ref, Phase: engine.Converged}, want: crash + "; it has to run for 30s"},
		"runs again for long": {earlier: &Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeNotRunning, crash)}, ago: Stable,
			part: Part{Ref: ref, Phase: engine.Converged}},
		"starts again after a crash": {earlier: &Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeNotRunning, crash)}, ago: clock.Minute,
			part: Part{Ref: ref, Phase: engine.Waiting, Reason: engine.NewReason(spec.CodeStarting, "has to run for 1s")}, want: crash},
		"an order is no failure": {earlier: &Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeRestart, "")}, ago: 1,
			part: Part{Ref: ref, Phase: engine.Converged}},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			if c.earlier != nil {
				w.Observe(*c.earlier, 1000)
			}
			got := w.Failing([]Part{c.part}, clock.Instant(1000).Add(c.ago))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, expected %q", got, c.want)
			}
		})
	}
}

// TestWatchNeverPassesACrashLoop: whatever the order of looks, while a container
// fails again within Stable each time, no look passes; the last failure is named.
func TestWatchNeverPassesACrashLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := engine.Ref{Kind: spec.KindWorkspace, ID: "web"}
		var w Watch
		now := clock.Instant(1)
		for range rapid.IntRange(1, 20).Draw(t, "crashes") {
			words := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "words")
			w.Observe(Part{Ref: ref, Phase: engine.Acting, Reason: engine.NewReason(CodeNotRunning, words)}, now)
			end := now.Add(clock.Duration(rapid.Int64Range(1, int64(Stable)-1).Draw(t, "ran")))
			for now < end {
				if got := w.Failing([]Part{{Ref: ref, Phase: engine.Converged}}, now); !strings.HasPrefix(got, "workspace/web: "+words) {
					t.Fatalf("at %d: %q", now, got)
				}
				now = now.Add(clock.Duration(rapid.Int64Range(1, int64(Stable)).Draw(t, "pause")))
			}
			now = end
		}
		if got := w.Failing([]Part{{Ref: ref, Phase: engine.Converged}}, now.Add(Stable)); got != "" {
			t.Fatalf("long after: %q", got)
		}
	})
}

// TestWatchNamesAFew: what fails is named in order and within bounds.
func TestWatchNamesAFew(t *testing.T) {
	var parts []Part
	for _, id := range []string{"e", "d", "c", "b", "a"} {
		parts = append(parts, Part{Ref: engine.Ref{Kind: spec.KindVolume, ID: id}, Phase: engine.Waiting, Reason: engine.NewReason("x", "gone")})
	}
	if got, want := new(Watch).Failing(parts, 1), "volume/a: gone; volume/b: gone; volume/c: gone; and 2 more"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
