package identity

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// WarnBefore is how long before the end of something that lasts a year or more
// people are warned.
const WarnBefore = 30 * clock.Day

// Expiry is the end of something that the fleet's trust hangs on.
type Expiry struct {
	What string
	At   clock.Instant // wall time
	Then string        // what happens at it
	Next string        // what to do before
}

// Warning says that the end is near or past, and is empty while it is not.
func (e Expiry) Warning(now clock.Instant) string {
	switch left := e.At.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("%s EXPIRED at %s: %s; %s", e.What, e.At, e.Then, e.Next)
	case left < WarnBefore:
		return fmt.Sprintf("%s expires at %s, in %d days: then %s; %s", e.What, e.At, left/clock.Day, e.Then, e.Next)
	}
	return ""
}
