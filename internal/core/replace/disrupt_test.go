package replace_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func disrupts(a engine.Action) bool {
	d, ok := a.(interface{ Disrupts() bool })
	return ok && d.Disrupts()
}

// TestS1OnlyDisruptiveStepsStopWhatRuns: whatever people do to a workspace that is
// as declared, the steps that need no grant leave the container in its place
// running.
func TestS1OnlyDisruptiveStepsStopWhatRuns(t *testing.T) {
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		s := messed(t)
		s.of, s.want.Run = version(0), spec.Running
		if d := settle(s, 200); d.Name() != "converged" {
			t.Fatalf("ends with %s %s:\n%s", d.Name(), d.Reason(), s)
		}
		s.want.HasConverged = true
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			s.outside()
		}
		main := s.named("web")
		if main == nil || main.foreign || !live(main) {
			t.Skip("it was stopped or renamed: nothing serves")
		}
		for range 30 {
			d := replace.Decide(s.want, s.seen(), s.now)
			if disrupts(d.Action()) {
				held++
				return
			}
			if _, err := s.turn(); err != nil {
				t.Fatalf("%s: %v\n%s", d.Reason(), err, s)
			}
			if now := s.named("web"); now != main || !live(main) {
				t.Fatalf("%s %T took %s away without asking:\n%s", d.Reason(), d.Action(), main.ID, s)
			}
		}
	})
	if held == 0 {
		t.Error("no step was ever held back")
	}
}

// TestRestoringWhatDoesNotRunNeedsNoGrant: as long as no container runs, no step
// is one that would have to wait; so a replacement that was cut off goes on.
func TestRestoringWhatDoesNotRunNeedsNoGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := messed(t)
		s.want.Run = spec.Running
		for range 30 {
			d := replace.Decide(s.want, s.seen(), s.now)
			runs := false
			for _, b := range ours(s) {
				runs = runs || live(b)
			}
			if !runs && disrupts(d.Action()) {
				t.Fatalf("%T %s waits for a grant and nothing runs:\n%s", d.Action(), d.Reason(), s)
			}
			if d.Action() == nil {
				return
			}
			if _, err := s.turn(); err != nil {
				return
			}
		}
	})
}
