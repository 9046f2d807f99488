package host

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/window"
)

// Within holds an offer to the host's signed maintenance windows by its wall
// clock, give or take the slack that clocks are allowed: outside them the reducer
// declines it, and inside it must be claimed before the first of them closes. A
// wrong clock, or a server that lies, can only delay. Now is on the agent's clock.
func (o *Offer) Within(windows []window.Window, wall, now clock.Instant, slack clock.Duration) {
	if len(windows) == 0 {
		return
	}
	for _, at := range []clock.Instant{wall, wall.Add(slack), wall.Add(-slack)} {
		if !window.AllOpen(windows, at) {
			continue
		}
		ends := at.Add(o.Expires.Sub(now))
		for i := range windows {
			ends = min(ends, windows[i].Closes(at, ends))
		}
		o.Expires = min(o.Expires, now.Add(ends.Sub(wall)+slack))
		return
	}
	w := &windows[max(0, window.FirstClosed(windows, wall))]
	o.Outside = "it is " + wall.String() + " here and maintenance window " + w.Name + " is closed"
}
