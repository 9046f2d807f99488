package server

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS33ClosedUntilTheOwnerEndsIt: whatever comes, a server whose log was set back decides
// nothing, until the owner's word, which the log keeps.
func TestS33ClosedUntilTheOwnerEndsIt(t *testing.T) {
	revoked := func(*State, clock.Instant) ([]event.Event, error) {
		return []event.Event{event.OperatorTokenRevoked{ID: "t"}}, nil
	}
	inputs := []Input{Connected{Host: "h"}, Batch{Host: "h", View: &View{}}, Claim{Host: "h", Grant: "g1", Term: 9}, Ahead{Host: "h", Need: 4},
		Fork{Host: "h"}, Release{}, Record{Decide: revoked}, Operator{}, Expiries{}, Elapsed{}, Tick{}, EndSafeMode{Actor: "a token", Reason: "drill"}}
	rapid.Check(t, func(t *rapid.T) {
		now := Time{Now: 1_000_000}
		b := &SetBack{Logged: 3, Acknowledged: rapid.Uint64Range(0, 9).Draw(t, "acknowledged"), Reason: "lost"}
		s := Begin(Config{}.WithDefaults(), NewState(nil), 2, "n", nobody{}, now, true, b)
		for range rapid.IntRange(1, 20).Draw(t, "inputs") {
			now.Now, now.Up = now.Now.Add(clock.Hour), now.Up+time.Hour
			turn := Turn{Time: now}
			err := s.Step(&turn, rapid.SampledFrom(inputs).Draw(t, "input"))
			if said := (*SetBack)(nil); !errors.As(err, &said) || said != b || !Refused(err) || len(turn.Events)+len(turn.Effects) > 0 {
				t.Fatalf("%v, decided %v %v", err, turn.Events, turn.Effects)
			}
			if s.TickDue(now) || s.MustRaise(now) != "" || s.ExpiriesDue(now) {
				t.Fatal("a round is due")
			}
		}
		turn := Turn{Time: now}
		verb := (*plan.VerbError)(nil)
		if err := s.Step(&turn, EndSafeMode{Actor: "owner", Reason: " ", Owner: true}); !errors.As(err, &verb) {
			t.Fatalf("without a reason: %v", err)
		}
		testkit.Must(t, s.Step(&turn, EndSafeMode{Actor: "owner", Reason: "drill", Owner: true}))
		testkit.Must(t, s.Step(&turn, EndSafeMode{Actor: "owner", Reason: "again", Owner: true}))
		want := event.SafeModeEnded{Actor: "owner", Reason: "drill", Logged: 3, Acknowledged: b.Acknowledged}
		if len(turn.Events) != 1 || !reflect.DeepEqual(testkit.Value(event.Decode(turn.Events[0]))(t), event.Event(want)) {
			t.Fatalf("it decided %+v", turn.Events)
		}
		if s.SetBack() != b {
			t.Fatal("it goes on before its word is committed")
		}
		s.Committed(turn.Events, 0, now)
		if s.SetBack() != nil || !s.TickDue(now) {
			t.Fatal("it does not go on")
		}
		if err := s.Step(&turn, EndSafeMode{Actor: "owner", Reason: "drill", Owner: true}); !errors.As(err, &verb) {
			t.Fatalf("ended twice: %v", err)
		}
		if err := s.Step(&turn, Record{Decide: revoked}); err != nil {
			t.Fatal(err)
		}
	})
}

type nobody struct{}

func (nobody) LastSeen(string) (clock.Instant, bool) { return 0, false }
func (nobody) LastEvent(string) (uint64, bool)       { return 0, false }
