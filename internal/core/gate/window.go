package gate

import (
	"github.com/steadyfleet/steady/internal/core/clock"
)

// CheckWindow blocks who has these maintenance windows while any of them is closed.
// Earliest is when all of them are open.
func CheckWindow(who string, windows []clock.Window, now clock.Instant) *Block {
	i := clock.FirstClosed(windows, now)
	if i < 0 {
		return nil
	}
	w := &windows[i]
	words := "maintenance window " + w.Name + " of " + who + " is closed"
	if w.Reason != "" {
		words += " (" + w.Reason + ")"
	}
	at, ok := clock.NextOpening(windows, now)
	if !ok {
		return block(Window, w.Name).because("%s and its signed time table ends at %s", words, w.Zone.Until).
			until("a release with a newer table", never).by("a releaser: build, sign and push a release", release())
	}
	return block(Window, w.Name).says(words+"; it may be disrupted from "+at.String()).
		until("all of its windows to be open", at).by("time, or a release with other windows", release())
}
