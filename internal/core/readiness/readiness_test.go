package readiness_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/readiness"
)

func checks(rs []readiness.Reason) []string {
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
		facts         readiness.Facts
		dead, unready []string
	}{
		{readiness.Facts{}, nil, nil},
		{readiness.Facts{Stopping: true}, []string{"running"}, []string{"running"}},
		{readiness.Facts{Broken: "EIO"}, []string{"store"}, []string{"store"}},
		{readiness.Facts{Busy: readiness.Stuck + 1}, []string{"reducer"}, []string{"reducer"}},
		{readiness.Facts{Busy: readiness.Stuck}, nil, nil},
		{readiness.Facts{Full: true}, nil, []string{"space"}},
		{readiness.Facts{Unwritable: "too many open files"}, nil, []string{"store"}},
		{readiness.Facts{Fenced: true}, nil, []string{"lease"}},
		{readiness.Facts{SafeMode: "a host knows more"}, nil, []string{"safe-mode"}},
		{readiness.Facts{Full: true, SafeMode: "x", Busy: clock.Hour}, []string{"reducer"}, []string{"reducer", "space", "safe-mode"}},
	} {
		if got := checks(readiness.Dead(c.facts)); !slices.Equal(got, c.dead) {
			t.Errorf("%+v: dead %v, want %v", c.facts, got, c.dead)
		}
		if got := checks(readiness.Unready(c.facts)); !slices.Equal(got, c.unready) {
			t.Errorf("%+v: unready %v, want %v", c.facts, got, c.unready)
		}
		for _, r := range readiness.Unready(c.facts) {
			if r.Message == "" || r.Next == "" {
				t.Errorf("%+v", r)
			}
		}
	}
}
