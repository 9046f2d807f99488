package agent_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

func drawFacts(t *rapid.T) event.HostFacts {
	f := event.HostFacts{CPUs: rapid.Int64Range(1, 2).Draw(t, "cpus"), Memory: 1 << 30, Arch: "amd64", Engine: rapid.SampledFrom([]string{"", "docker"}).Draw(t, "engine")}
	for range rapid.IntRange(0, 2).Draw(t, "gpus") {
		f.GPUs = append(f.GPUs, event.GPU{Vendor: "nvidia", Model: "T4"})
	}
	return f
}

// TestS25LastReportedFactsAreTheHosts: whatever is measured, with restarts between, facts are
// reported exactly when they changed, and who reads the events knows what the host knows.
func TestS25LastReportedFactsAreTheHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now, told := &agent.State{}, clock.Instant(1000), []event.HostFacts(nil)
		step(t, s, agent.Started{BootID: "b"}, now)
		for range 10 {
			if rapid.IntRange(0, 3).Draw(t, "restarts") == 0 {
				raw := testkit.Value(json.Marshal(s))(t)
				s = &agent.State{}
				testkit.Must(t, json.Unmarshal(raw, s))
				step(t, s, agent.Started{BootID: "b"}, now)
			}
			f := drawFacts(t)
			turn := step(t, s, agent.Measured{Facts: f}, now)
			if news := len(told) == 0 || !reflect.DeepEqual(told[len(told)-1], f); news != (len(turn.Events) == 1) || news != turn.Save {
				t.Fatalf("news is %t, and %+v was reported after %+v", news, turn.Events, told)
			}
			for _, ev := range turn.Events {
				told = append(told, ev.(event.HostFacts))
			}
			if !s.Facts.Equal(told[len(told)-1]) {
				t.Fatalf("the host is %+v and told %+v", s.Facts, told[len(told)-1])
			}
		}
	})
}

// An engine that restarts is no engine that went away.
func TestSilentEngineIsNoNews(t *testing.T) {
	s := &agent.State{}
	step(t, s, agent.Started{BootID: "b"}, 1000)
	is := event.HostFacts{CPUs: 2, Engine: "docker", EngineAPI: "1.43", Disk: 7}
	began := event.HostFacts{CPUs: 2, Engine: "docker"}
	for i, c := range []struct {
		in   agent.Measured
		want *event.HostFacts
	}{
		{agent.Measured{Facts: began, Silent: true}, &began}, // it has not answered yet
		{agent.Measured{Facts: is}, &is},
		{agent.Measured{Facts: began, Silent: true}, nil},
		{agent.Measured{Facts: event.HostFacts{CPUs: 3, Engine: "docker"}, Silent: true}, &event.HostFacts{CPUs: 3, Engine: "docker", EngineAPI: "1.43", Disk: 7}},
		{agent.Measured{Facts: event.HostFacts{CPUs: 3}}, &event.HostFacts{CPUs: 3}}, // the agent runs without one
	} {
		turn := step(t, s, c.in, 1000)
		if (c.want != nil) != (len(turn.Events) == 1) || c.want != nil && !reflect.DeepEqual(turn.Events[0], *c.want) {
			t.Errorf("%d: %+v was reported, want %+v", i, turn.Events, c.want)
		}
	}
}

// What the server refuses would keep all that follows from it.
func TestFactsBeyondTheBoundsAreNotReported(t *testing.T) {
	for _, f := range []event.HostFacts{{GPUs: make([]event.GPU, event.MaxGPUs+1)}, {OS: strings.Repeat("x", event.MaxFactText+1)}, {Memory: -1}} {
		s := &agent.State{}
		step(t, s, agent.Started{BootID: "b"}, 1000)
		if turn := step(t, s, agent.Measured{Facts: f}, 1000); len(turn.Events) > 0 || turn.Save || turn.Dropped == nil || s.Facts != nil {
			t.Errorf("%+v became %+v", f, turn)
		}
	}
}

// A host that may have been set back makes no event before the server has answered.
func TestFactsWaitForTheServersAnswer(t *testing.T) {
	s := inActivation(t)
	step(t, s, agent.Started{BootID: "c", Confirm: true}, 2000)
	in := agent.Measured{Facts: event.HostFacts{CPUs: 2}}
	if turn := step(t, s, in, 2000); len(turn.Events) > 0 || turn.Dropped == nil {
		t.Fatalf("reported %+v", turn.Events)
	}
	step(t, s, agent.ServerChain{Newest: 12, Last: 12}, 2001)
	if turn := step(t, s, in, 2002); len(turn.Events) != 1 {
		t.Fatalf("reported %+v", turn.Events)
	}
	step(t, s, agent.Started{BootID: "c", SetBack: &agent.Parked{Code: host.ParkedBehind}}, 3000)
	if turn := step(t, s, agent.Measured{Facts: event.HostFacts{CPUs: 3}}, 3000); len(turn.Events) > 0 {
		t.Fatalf("a parked host reported %+v", turn.Events)
	}
}
