package watch

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestWatchCountsDown is that a host in flight shows how long it soaks yet, how long
// a probe may fail yet, and what does not run, and that a probe which only observes
// looks unlike one that ends the rollout.
func TestWatchCountsDown(t *testing.T) {
	now := clock.Instant(1_000_000_000_000)
	view := func(probes ...host.ProbeState) string {
		d := detail(rollout.Active)
		d.Now = now
		d.Members[0].Status = rollout.Claimed.String()
		d.Members[0].Progress = &plan.Progress{Phase: host.Soaking, SoakFrom: now.Add(-41 * clock.Second), Soak: 2 * clock.Minute, SustainedFailure: clock.Minute, Probes: probes}
		d.Members[0].Unready = []event.DegradedResource{{Resource: "workspace/api", State: "Starting"}}
		d.Members[0].MoreUnready = 2
		r := &Rollout{}
		r.Refresh(d)
		return strings.Join(Lines(term.Screen{}, r), "\n")
	}
	probe := func(mode fleet.ProbeMode) host.ProbeState {
		return host.ProbeState{Name: "http", Mode: mode, Seen: true, FailingSince: now.Add(-41 * clock.Second), Reason: "503"}
	}
	for _, x := range []struct {
		what, got string
		want      []string
		never     string
	}{
		{"enforce", view(probe(fleet.Enforce)), []string{"✗ http failing for 41s of 1m: 503", "soak starts over", "UTC"}, "observed"},
		{"observe", view(probe(fleet.Observe)), []string{"! http failing for 41s, only observed: 503", "1m19s of 2m soak left"}, "✗"},
		{"resources", view(), []string{"workspace/api is Starting", "2 resources more not running yet"}, "http"},
		{"unseen", view(host.ProbeState{Name: "http", Mode: fleet.Enforce}), []string{"soak left"}, "http"},
	} {
		for _, want := range x.want {
			if !strings.Contains(x.got, want) {
				t.Errorf("%s: the view lacks %q:\n%s", x.what, want, x.got)
			}
		}
		if strings.Contains(x.got, x.never) {
			t.Errorf("%s: the view has %q:\n%s", x.what, x.never, x.got)
		}
	}
}

// TestDoneHostsShowNoCountdown is that what a host once waited for goes when the
// server says no more that it is in flight.
func TestDoneHostsShowNoCountdown(t *testing.T) {
	r, d := &Rollout{}, detail(rollout.Active)
	d.Members[0].Progress = &plan.Progress{Phase: host.Soaking, SoakFrom: 1, Soak: clock.Minute}
	r.Refresh(d)
	d.Members[0] = operator.Member{Host: "canary-1", Status: rollout.Converged.String(), Online: true}
	r.Refresh(d)
	if got := strings.Join(Lines(term.Screen{}, r), "\n"); strings.Contains(got, "soak of") || strings.Contains(got, "left") {
		t.Errorf("a converged host counts down:\n%s", got)
	}
}
