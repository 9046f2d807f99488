package server

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

func hostAt(incarnation, seq uint64) *plan.Host {
	return &plan.Host{Incarnation: incarnation, Seq: seq}
}

// TestWaitsForWhatARestoredLogLacks goes through one restore: a host owes its events,
// sends them, and is not believed a second time.
func TestWaitsForWhatARestoredLogLacks(t *testing.T) {
	hosts := map[string]*plan.Host{"a": hostAt(1, 3), "b": hostAt(1, 0)}
	s := beginSafeMode(hosts, 100)
	if s.block(hosts, 0) != nil {
		t.Fatal("blocked before anybody claimed anything")
	}
	if !s.claim("a", 1, 5, 10) || s.claim("a", 1, 7, 11) {
		t.Fatal("the first claim is news, the second is not")
	}
	b := s.block(hosts, 12)
	if b == nil || b.Earliest != 100 {
		t.Fatalf("blocked by %+v", b)
	}
	hosts["a"] = hostAt(1, 6)
	if s.block(hosts, 20) == nil {
		t.Fatal("event 7 was claimed too")
	}
	hosts["a"] = hostAt(1, 7)
	if waiting, late := s.waiting(hosts, 30); waiting || late != nil {
		t.Fatalf("waits for a host that sent all: %v", late)
	}
	if s.claim("new", 1, 9, 31) || s.claim("b", 2, 9, 31) {
		t.Fatal("a host that the log did not have at the start is believed")
	}
	if s.claim("a", 1, 9, 31) || s.block(hosts, 31) != nil {
		t.Fatal("a host that has sent what it owed is believed again")
	}
	if !s.claim("b", 1, 1<<40, 32) || s.block(hosts, 99) == nil || s.block(hosts, 100) != nil {
		t.Fatal("the wait for b ends with the window")
	}
	if _, late := s.waiting(hosts, 101); len(late) != 1 || late[0] != "b" {
		t.Fatalf("late: %v", late)
	}
	if _, late := s.waiting(hosts, 102); late != nil {
		t.Fatal("a late host is named again")
	}
}

// TestL6ClaimsNeverBlockPastTheWindow: whatever hosts claim, and whenever, nothing is
// blocked after the window of the start, nor twice for one host.
func TestL6ClaimsNeverBlockPastTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts, done := map[string]*plan.Host{}, map[string]bool{}
		for i := range 3 {
			hosts[fmt.Sprint(i)] = hostAt(1, 1)
		}
		s := beginSafeMode(hosts, 100)
		now := clock.Instant(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += clock.Instant(rapid.IntRange(0, 9).Draw(t, "time"))
			name := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "host"))
			h := hosts[name]
			if rapid.Bool().Draw(t, "claims") {
				believed := s.claim(name, h.Incarnation, h.Seq+rapid.Uint64Range(1, 3).Draw(t, "more"), now)
				if believed && (done[name] || now >= 100) {
					t.Fatalf("host %s is believed at %d", name, now)
				}
			} else {
				h.Seq += 3
				if s.block(map[string]*plan.Host{name: h}, now); s.owing[name] != nil && s.owing[name].paid {
					done[name] = true
				}
			}
			if now >= 100 && s.block(hosts, now) != nil {
				t.Fatalf("blocked at %d", now)
			}
		}
	})
}

// TestWhoCannotSendIsNotWaitedFor: a host that is gone, forked, cut off or enrolled again
// can send nothing more of what it owed.
func TestWhoCannotSendIsNotWaitedFor(t *testing.T) {
	forked, revoked := hostAt(1, 1), hostAt(1, 1)
	forked.Forked, revoked.Ended = true, &plan.Ended{Status: gate.Revoked}
	for name, h := range map[string]*plan.Host{"gone": nil, "forked": forked, "revoked": revoked, "enrolled again": hostAt(2, 0)} {
		s := beginSafeMode(map[string]*plan.Host{"h": hostAt(1, 1)}, 100)
		s.claim("h", 1, 3, 1)
		if s.block(map[string]*plan.Host{"h": hostAt(1, 1)}, 2) == nil || s.block(map[string]*plan.Host{"h": h}, 2) != nil {
			t.Errorf("a host that is %s is waited for", name)
		}
	}
}

// TestOperatorEndsTheWait: an operator's word ends what hosts owe once it is committed, and not
// before; it names them, takes a reason, and is of no use where nothing is waited for.
func TestOperatorEndsTheWait(t *testing.T) {
	now := Time{Now: 1_000_000}
	state := NewState(nil)
	for _, name := range []string{"b", "a", "c"} {
		state.Plan.Hosts[name] = &plan.Host{Name: name, Incarnation: 1, Seq: 3}
	}
	s := Begin(Config{}.WithDefaults(), state, 2, "n", nobody{}, now, false, nil)
	refused := func(in EndSafeMode) {
		t.Helper()
		turn, verb := Turn{Time: now}, (*plan.VerbError)(nil)
		if err := s.Step(&turn, in); !errors.As(err, &verb) || len(turn.Events) > 0 {
			t.Fatalf("%+v: %v, %v", in, err, turn.Events)
		}
	}
	refused(EndSafeMode{Actor: "ann", Reason: "drill"})
	for _, name := range []string{"b", "a"} {
		testkit.Must(t, s.Step(&Turn{Time: now}, Ahead{Host: name, Incarnation: 1, Need: 9}))
	}
	want := []Owed{{"a", 3, 9}, {"b", 3, 9}}
	if w := s.RestoreWait(now.Now); !reflect.DeepEqual(w.Owed, want) || w.Until != now.Now.Add(s.cfg.ReplayWait) {
		t.Fatalf("waits for %+v", w)
	}
	refused(EndSafeMode{Actor: "ann", Reason: " "})
	turn := Turn{Time: now}
	testkit.Must(t, s.Step(&turn, EndSafeMode{Actor: "ann", Reason: "drill"}))
	ended := event.SafeModeEnded{Actor: "ann", Reason: "drill", Hosts: []string{"a", "b"}}
	if got := testkit.Value(event.Decode(turn.Events[0]))(t); len(turn.Events) != 1 || !reflect.DeepEqual(got, event.Event(ended)) {
		t.Fatalf("it decided %+v", turn.Events)
	}
	if s.Block(now.Now) == nil {
		t.Fatal("it goes on before that is committed")
	}
	s.Committed(turn.Events, 0, now)
	testkit.Must(t, s.Step(&Turn{Time: now}, Ahead{Host: "c", Incarnation: 1, Need: 9}))
	if w := s.RestoreWait(now.Now); s.Block(now.Now) != nil || len(w.Owed) > 0 || !s.TickDue(now) {
		t.Fatalf("it still waits for %+v", w)
	}
	if s.safe.acked("a", 1) != 9 {
		t.Fatal("what a host was acknowledged is forgotten, which log.restored has to tell")
	}
}
