package operate

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestDecisionsKeepWhatEventsSay: a decision has the sentence that steady events prints, the waits
// and the name of its wave, also where another event of an ended rollout alone has the name.
func TestDecisionsKeepWhatEventsSay(t *testing.T) {
	wait := event.HostWait{Gate: "host-edge", Reason: "host f-2 goes after f-3", Hosts: []string{"f-2"}, Total: 1}
	events := []operator.Event{
		encoded(t, event.Granted{Rollout: "slow@v1", Wave: 1, Purpose: "update", Reason: "wave rest is open", Budgets: map[string]string{"tags:web": "1/1"}}),
		encoded(t, event.WaveBlocked{Rollout: "slow@v1", Wave: 1, WaveName: "rest", Reason: "wave rest has 1 host in flight", Waits: []event.HostWait{wait}}),
	}
	names := waveNames{}
	for i := range events {
		names.learn(&events[i])
	}
	for _, e := range events {
		d := decisionOf(e, "slow@v1", names)
		if d.Wave != "rest" || d.Message != operator.Message(e) {
			t.Errorf("%s of wave %q: %s", d.Transition, d.Wave, d.Message)
		}
	}
	if d := decisionOf(events[1], "slow@v1", names); len(d.Waits) != 1 || d.Waits[0].Reason != wait.Reason {
		t.Errorf("the waits are %+v", d.Waits)
	}
	for i, want := range []string{"slow@v1 grants  (update): wave rest is open; tags:web 1/1", "slow@v1: wave rest is blocked: wave rest has 1 host in flight; f-2 waits for host-edge: host f-2 goes after f-3"} {
		if got := operator.Message(events[i]); got != want {
			t.Errorf("reads %q, want %q", got, want)
		}
	}
}

func encoded(t *testing.T, e event.Event) operator.Event {
	t.Helper()
	return operator.Event{Type: e.EventType(), Body: testkit.Value(json.Marshal(e))(t)}
}
