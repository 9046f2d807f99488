package agent

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/window"
	"github.com/steadyfleet/steady/internal/trust"
)

// within holds an offer to the host's signed maintenance windows by the wall
// clock, give or take the slack that clocks are allowed: outside them the reducer
// declines it, and inside it must be claimed before the first of them closes. A
// wrong clock, or a server that lies, can only delay.
func (a *Agent) within(o *host.Offer, windows []window.Window) {
	if len(windows) == 0 {
		return
	}
	now := clock.FromTime(a.wall())
	for _, at := range []clock.Instant{now, now.Add(trust.Slack), now.Add(-trust.Slack)} {
		if window.AllOpen(windows, at) {
			ends := at.Add(maxGrantLife)
			for i := range windows {
				ends = min(ends, windows[i].Closes(at, ends))
			}
			o.Expires = min(o.Expires, a.time.Now().Add(ends.Sub(now)+trust.Slack))
			return
		}
	}
	w := &windows[max(0, window.FirstClosed(windows, now))]
	o.Outside = "it is " + now.String() + " here and maintenance window " + w.Name + " is closed"
}
