package health_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// settled is a host that is past its rollout.
var settled = health.Facts{Enrolled: true, Runs: true, Online: true}

func TestHostIsTheFoldOfItsResources(t *testing.T) {
	late := 5*clock.Minute + 1
	with := func(code engine.Code, ev event.ResourceReported) event.ResourceReported {
		ev.Reason = code
		return ev
	}
	for name, c := range map[string]struct {
		report event.ResourceReported
		after  clock.Duration
		facts  health.Facts
		want   health.Status
	}{
		"it runs":                {status("workspace/web", engine.Converged, spec.RunningState), late, settled, health.Healthy},
		"stopped on purpose":     {with(spec.CodeStopped, status("workspace/web", engine.Converged, spec.StoppedState)), late, settled, health.Healthy},
		"of a disabled host":     {with(spec.CodeStopped, status("workspace/web", engine.Waiting, spec.DeploymentPending)), late, settled, health.Healthy},
		"a job under way":        {with(spec.CodeRunsToEnd, status("workspace/web", engine.Waiting, spec.Starting)), late, settled, health.Healthy},
		"its repair waits":       {status("workspace/web", engine.Drifted, spec.RunningState), late, settled, health.Healthy},
		"a leftover":             {status("volume/old", "", spec.Undeclared), late, settled, health.Healthy},
		"it starts":              {status("workspace/web", engine.Acting, spec.Starting), 0, settled, health.Progressing},
		"it starts and starts":   {status("workspace/web", engine.Acting, spec.Starting), late, settled, health.Degraded},
		"an image takes longer":  {status("image/app", engine.Acting, spec.ImageBuilding), late, settled, health.Progressing},
		"one try failed":         {status("workspace/web", engine.Retrying, spec.ErrorState), 0, settled, health.Progressing},
		"given up":               {status("workspace/web", engine.Failed, spec.ErrorState), 0, settled, health.Degraded},
		"it cannot work":         {with(spec.CodeUnhealthy, status("workspace/web", engine.Waiting, spec.ErrorState)), 0, settled, health.Degraded},
		"it cannot be removed":   {status("file/etc/a", engine.Orphaned, spec.ErrorState), 0, settled, health.Degraded},
		"on its way":             {status("workspace/web", engine.Failed, spec.ErrorState), late, health.Facts{Enrolled: true, Runs: true, Online: true, Moving: true}, health.Progressing},
		"silent and well":        {status("workspace/web", engine.Converged, spec.RunningState), 0, health.Facts{Enrolled: true, Runs: true}, health.Unknown},
		"silent and degraded":    {status("workspace/web", engine.Failed, spec.ErrorState), 0, health.Facts{Enrolled: true, Runs: true}, health.Degraded},
		"no identity that holds": {status("workspace/web", engine.Failed, spec.ErrorState), 0, health.Facts{Runs: true}, health.Unknown},
		"a probe fails": {status("workspace/web", engine.Converged, spec.RunningState), 0,
			health.Facts{Enrolled: true, Runs: true, Online: true, Failing: []health.Probe{{Name: "homepage"}}}, health.Degraded},
	} {
		r := newReports(t)
		r.batch("h", c.report)
		if got := r.s.Hosts["h"].Assess(c.facts, r.now.Add(c.after)); got.Status != c.want {
			t.Errorf("%s: %s, expected %s", name, got.Status, c.want)
		}
	}
	if got := (*health.Host)(nil).Assess(health.Facts{Enrolled: true, Online: true}, 1); got.Status != health.Unknown {
		t.Errorf("a host that runs nothing is %s", got.Status)
	}
}

// TestATryInBetweenIsNoRecovery checks that a resource in Error stays degraded
// through its second life until it is as it should be.
func TestATryInBetweenIsNoRecovery(t *testing.T) {
	r := newReports(t)
	facts := func(string) health.Facts { return settled }
	next := func() string {
		var words []string
		for _, ch := range health.Next(r.s, facts, r.now) {
			r.fold(ch.Host, ch.Event)
			words = append(words, ch.Host+" "+strings.TrimPrefix(ch.Event.EventType(), "host."))
		}
		return strings.Join(words, ", ")
	}
	for i, step := range []struct {
		phase engine.Phase
		state spec.State
		want  string
	}{
		{engine.Converged, spec.RunningState, ""},
		{engine.Failed, spec.ErrorState, "h degraded"},
		{engine.Pending, spec.DeploymentPending, ""},
		{engine.Acting, spec.Starting, ""},
		{engine.Failed, spec.ErrorState, ""},
		{engine.Converged, spec.RunningState, "h recovered"},
	} {
		r.now++
		r.batch("h", status("workspace/web", step.phase, step.state))
		if got := next(); got != step.want {
			t.Errorf("step %d, %s: %q, expected %q", i, step.phase, got, step.want)
		}
	}
	r.batch("h", status("workspace/web", engine.Acting, spec.Starting))
	if got := next(); got != "" || r.s.Due() != r.now.Add(health.Within("workspace/web")) {
		t.Errorf("it starts: %q, due at %d", got, r.s.Due())
	}
	r.now = r.s.Due()
	if got := next(); got != "h degraded" || r.s.Due() != 0 {
		t.Errorf("its time is over: %q, due at %d", got, r.s.Due())
	}
}

// TestNextMissesNothing holds the decisions, which look only at what was touched,
// against asking every host at every instant.
func TestNextMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReports(t)
		facts := func(string) health.Facts { return settled }
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			draw(t, r)
			r.now = r.now.Add(clock.Duration(rapid.IntRange(0, 900_000).Draw(t, "pause")))
			for _, ch := range health.Next(r.s, facts, r.now) {
				r.fold(ch.Host, ch.Event)
			}
			for name, h := range r.s.Hosts {
				a := h.Assess(settled, r.now)
				if (a.Status == health.Degraded) != (h.Degraded != nil) {
					t.Fatalf("%s is %s and was decided to be degraded: %t", name, a.Status, h.Degraded != nil)
				}
				if h.Degraded != nil && !slices.EqualFunc(h.Degraded.Resources, a.Resources, func(x event.DegradedResource, y string) bool { return x.Resource == y }) {
					t.Fatalf("%s is degraded for %v, decided for %v", name, a.Resources, h.Degraded.Resources)
				}
			}
			if again := health.Next(r.s, facts, r.now); len(again) > 0 {
				t.Fatalf("a second look decides %v", again)
			}
		}
	})
}

func TestWorst(t *testing.T) {
	if got := health.Worst(health.Healthy, health.Degraded, health.Progressing); got != health.Degraded {
		t.Errorf("the worst is %s", got)
	}
	if got := health.Worst(); got != health.Unknown {
		t.Errorf("of nothing it is %s", got)
	}
}
