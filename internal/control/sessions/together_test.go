package sessions

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestVerbsMeet: of those who ask for one name at once, one has it; a change raises none that was
// stopped meanwhile.
func TestVerbsMeet(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		ctx := context.Background()
		made := make(chan error)
		for range 20 {
			go func() {
				s := session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 0)}}}}
				made <- w.runner.Create(ctx, "lab", s, nil, "ann")
			}()
		}
		won := 0
		for range 20 {
			if err := <-made; err == nil {
				won++
			} else if !strings.Contains(err.Error(), "is there already") {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("%d were told that the session is theirs", won)
		}
		err := w.runner.change(ctx, "lab", "ann", "changed", func(s *session.Spec) error {
			s.Timeslot.End = s.Timeslot.End.Add(time.Minute)
			return w.runner.Stop(ctx, "lab", "bob")
		})
		if err == nil || !strings.Contains(err.Error(), "is over") {
			t.Fatalf("changed while it was stopped: %v", err)
		}
		pass(time.Minute)
		w.want("lab", session.Retired)
	})
}

// TestSessionWithoutAStart: it runs once its pods do, and not because its time has come.
func TestSessionWithoutAStart(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		s := slot()
		s.Start = s.ProvisionAt
		create(w, "lab", session.Spec{Timeslot: s, Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 0)}}}})
		pass(10 * time.Second)
		w.want("lab", session.Scheduled)
		w.online("a", false)
		pass(5 * time.Minute)
		w.want("lab", session.Provisioning)
		w.online("a", true)
		pass(2 * time.Minute)
		w.want("lab", session.Running)
	})
}

// TestNoiseKeepsNoEventOut: however many events come that nothing waits for, what something waits for is taken.
func TestNoiseKeepsNoEventOut(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{
			{Name: "p", Phases: []session.Phase{{Name: "exam", Await: "done", Timeout: clock.Hour}}},
			{Name: "q", After: []session.Gate{{Event: "go"}}, Phases: []session.Phase{{Name: "next", Await: "x", Timeout: clock.Hour}}},
		}})
		pass(time.Second)
		send := func(phase, id, eventType string) error {
			return w.runner.Receive(context.Background(), "lab", phase, engine.Event{Source: "lms", ID: id, Type: eventType})
		}
		if err := send("p/exam", "1", "doen"); err == nil || !strings.Contains(err.Error(), "awaits events of type done, and takes none of type doen") {
			t.Fatalf("an event that the phase does not await: %v", err)
		}
		refused := error(nil)
		for i := range 2 * engine.MaxUnhandled {
			refused = send("", fmt.Sprint(i), "noise")
		}
		if refused == nil || !strings.Contains(refused.Error(), "only those that a gate still waits for") {
			t.Fatalf("the last of them: %v", refused)
		}
		w.check(send("", "1", "noise")) // known
		w.check(send("", "go", "go"))
		w.check(send("p/exam", "2", "done"))
		pass(time.Second)
		if st := w.status("lab"); st.Parts[0].Phases[0].State != session.PhaseOver || st.Parts[1].Phases[0].State != session.PhaseRunning {
			t.Fatalf("%+v", st)
		}
	})
}
