package agent_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// TestS13HostOnTheNewestReleaseDeclinesAnOlder: a server that was restored from a backup
// offers what it knows. What the host's own snapshot rolls out stays; a host that is not
// on that goes where it is sent, and so does one that did not converge.
func TestS13HostOnTheNewestReleaseDeclinesAnOlder(t *testing.T) {
	mine, other := planTo(fresh), planTo(old)
	for _, c := range []struct {
		what     string
		phase    host.Phase
		newest   digest.Digest
		channel  string
		purpose  host.Purpose
		declined bool
	}{
		{"on the newest", host.Converged, mine.Manifest, "", host.Update, true},
		{"on one that is the newest no more", host.Converged, digest.Of([]byte("later")), "", host.Update, false},
		{"offered the newest", host.Converged, other.Manifest, "", host.Update, false},
		{"nobody said what is the newest", host.Converged, "", "", host.Update, false},
		{"failed on the newest", host.Failed, mine.Manifest, "", host.Update, false},
		{"of another channel", host.Converged, mine.Manifest, "lab", host.Update, false},
		{"ordered back", host.Converged, mine.Manifest, "", host.Rollback, false},
	} {
		s := &agent.State{Plan: mine, Machine: host.State{Phase: c.phase, Manifest: mine.Manifest, Rollout: "c@2", Current: fresh, Target: fresh, From: old}}
		in := grantOf(c.purpose, "g1", old)
		in.Plan.Channel, in.Newest = c.channel, c.newest
		if c.purpose == host.Rollback {
			in.Plan.Manifest = mine.Manifest
		}
		turn := step(t, s, in, 1000)
		declined := false
		for _, ev := range turn.Events {
			d, is := ev.(event.GrantDeclined)
			declined = declined || is && d.Code == host.DeclineOlderPlan
		}
		if declined != c.declined || turn.Accepted == c.declined {
			t.Errorf("%s: declined %t, accepted %t: %+v", c.what, declined, turn.Accepted, turn.Events)
		}
	}
}
