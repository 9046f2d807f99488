package gate

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/window"
)

// CheckWindow blocks who has these maintenance windows while any of them is closed.
// Earliest is when all of them are open.
func CheckWindow(who string, windows []window.Window, now clock.Instant) *Block {
	i := window.FirstClosed(windows, now)
	if i < 0 {
		return nil
	}
	w := &windows[i]
	words := fmt.Sprintf("maintenance window %s of %s is closed", w.Name, who)
	if w.Reason != "" {
		words += " (" + w.Reason + ")"
	}
	at, ok := window.NextAll(windows, now)
	if !ok {
		return hold(Window, w.Name).because("%s and its signed time table ends at %s", words, w.Zone.Until).
			until("a release with a newer table", never).by("a releaser: build, sign and push a release")
	}
	return hold(Window, w.Name).because("%s; it may be disrupted from %s", words, at).
		until("all of its windows to be open", at).by("time, or a release with other windows")
}
