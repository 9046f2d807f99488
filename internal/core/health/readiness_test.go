package health_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/health"
)

func checks(rs []health.ServerProblem) []string {
	out := []string{}
	for _, r := range rs {
		out = append(out, r.Check)
	}
	return out
}

// TestReasons: what ends a process is also unready, and a full disk, a fence and safe
// mode are unready alone.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		facts         health.ServerFacts
		dead, unready []string
	}{
		{health.ServerFacts{}, nil, nil},
		{health.ServerFacts{Stopping: true}, []string{"running"}, []string{"running"}},
		{health.ServerFacts{Broken: "EIO"}, []string{"store"}, []string{"store"}},
		{health.ServerFacts{Busy: health.Stuck + 1}, []string{"reducer"}, []string{"reducer"}},
		{health.ServerFacts{Busy: health.Stuck}, nil, nil},
		{health.ServerFacts{Full: true}, nil, []string{"space"}},
		{health.ServerFacts{Unwritable: "too many open files"}, nil, []string{"store"}},
		{health.ServerFacts{Fenced: true}, nil, []string{"lease"}},
		{health.ServerFacts{SafeMode: "a host knows more"}, nil, []string{"safe-mode"}},
		{health.ServerFacts{Full: true, SafeMode: "x", Busy: clock.Hour}, []string{"reducer"}, []string{"reducer", "space", "safe-mode"}},
	} {
		if got := checks(health.Liveness(c.facts)); !slices.Equal(got, c.dead) {
			t.Errorf("%+v: dead %v, want %v", c.facts, got, c.dead)
		}
		if got := checks(health.Readiness(c.facts)); !slices.Equal(got, c.unready) {
			t.Errorf("%+v: unready %v, want %v", c.facts, got, c.unready)
		}
		for _, r := range health.Readiness(c.facts) {
			if r.Message == "" || r.Next == "" {
				t.Errorf("%+v", r)
			}
		}
	}
}
