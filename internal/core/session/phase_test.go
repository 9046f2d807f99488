package session

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestPhaseBeginsAnew: a phase that is over asks for its job again once it is retried, and an event of before does not
// end it again.
func TestPhaseBeginsAnew(t *testing.T) {
	v := engine.View[Phase, NeedsNothing]{Now: now, Resource: engine.Resource[Phase]{Ref: engine.Ref{Kind: KindPhase, ID: "lab/p/grade"}, Generation: 1,
		Desired: Phase{Name: "grade", Await: "graded", Timeout: clock.Hour}}}
	step := func(e engine.Event, want string) engine.Decision {
		t.Helper()
		if e.Type != "" {
			e.N, e.At = int64(len(v.Events)+1), now
			v.Events = append(v.Events, e)
		}
		d := DecidePhase(v)
		if got := d.Name() + " " + string(d.Reason().Code); got != want {
			t.Fatalf("after %d events: %s, want %s", len(v.Events), got, want)
		}
		return d
	}
	first := step(engine.Event{}, "do call")
	step(engine.Event{Type: AcceptedEvent}, "wait awaits-event")
	step(engine.Event{Type: "graded", ID: "1", Data: json.RawMessage(`1`)}, "converged over")
	again := step(engine.Event{Type: RetryEvent}, "do call")
	if a, b := first.Action().(MakeCall), again.Action().(MakeCall); a.Key == b.Key {
		t.Errorf("both are called with the key %s", a.Key)
	}
	step(engine.Event{Type: AcceptedEvent}, "wait awaits-event")
	d := step(engine.Event{Type: "graded", ID: "2", Data: json.RawMessage(`2`)}, "converged over")
	var r PhaseReport
	if err := json.Unmarshal(d.Report(), &r); err != nil || r.Event != "2" || string(r.Result) != "2" {
		t.Errorf("%+v, %v", r, err)
	}
}
