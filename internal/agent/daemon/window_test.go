package daemon

import (
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

// hourly opens once a day for an hour, so many hours from now.
func hourly(t testing.TB, from int) clock.Window {
	at := time.UnixMilli(int64(testfleet.Now())).UTC().Add(time.Duration(from) * time.Hour)
	w := clock.Window{Name: "maintenance", Cron: testkit.Value(clock.ParseCron(at.Format("4 15 * * *")))(t), Duration: clock.Hour,
		Zone: clock.Zone{Name: "UTC", From: testfleet.Now().Add(-30 * clock.Day), Until: testfleet.Now().Add(30 * clock.Day), Transitions: []clock.Transition{}}}
	testkit.Must(t, w.Check())
	return w
}

// TestS41AgentDeclinesOutsideItsWindow has a server grant whenever it likes: the
// host takes nothing while a signed window of it is closed.
func TestS41AgentDeclinesOutsideItsWindow(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	p := single("web-1", 1, "r1", one)
	p.windows = []clock.Window{hourly(t, 6)}
	b.roll(p, "g1", one)
	testkit.Eventually(t, "the refusal", func() bool { return len(reported[event.GrantDeclined](s)) > 0 })
	if d := reported[event.GrantDeclined](s)[0]; d.Code != host.DeclineWindow {
		t.Fatalf("declined for %s: %s", d.Code, d.Detail)
	}
	b.want("a", gone)

	p = single("web-1", 2, "r2", one)
	p.windows = []clock.Window{hourly(t, 0)}
	b.roll(p, "g2", one)
	b.phase(host.Converged)
	b.want("a", "one")
}
