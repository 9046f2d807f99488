package server

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS31OneHostRaisesTheTermSoOften: whatever a host says of terms that it has seen, by
// declining or by claiming, it has the term raised so often; it is named then, and others
// are heard.
func TestS31OneHostRaisesTheTermSoOften(t *testing.T) {
	decline := testkit.Value(event.NewEntry(1, event.HostSubject("liar"), event.GrantDeclined{Grant: "g1", Code: host.DeclineOldTerm}))(t)
	for what, in := range map[string]func(name string) Input{
		"claims":   func(name string) Input { return Claim{Host: name, Grant: "g1", Term: 1 << 63} },
		"declines": func(name string) Input { return Batch{Host: name, View: &View{}, Entries: []event.Entry{decline}} },
	} {
		state := NewState(nil)
		for _, name := range []string{"liar", "honest"} {
			state.Plan.Hosts[name] = &plan.Host{Name: name}
		}
		now := Time{Now: 1_000_000}
		s := Begin(Config{}.WithDefaults(), state, 2, "n", nobody{}, now, false, nil)
		raised, doubted := 0, 0
		say := func(name string) {
			turn := Turn{Time: now}
			_ = s.Step(&turn, in(name)) // refused
			for _, e := range turn.Effects {
				if e == (TermDoubted{"liar"}) {
					doubted++
				}
			}
			now.Now = now.Now.Add(raisePause)
			if s.MustRaise(now) == name {
				raised++
			}
		}
		for range 1000 {
			say("liar")
		}
		if most := 64 + 1000*int(raisePause)/int(clock.Minute) + 1; raised > most || raised < 64 || doubted != 1000-raised {
			t.Errorf("%s: one host had the term raised %d times, %d at most, and was named %d times", what, raised, most, doubted)
		}
		if what == "claims" {
			raised = 0
			if say("honest"); raised != 1 {
				t.Errorf("another host is not heard")
			}
		}
	}
}
