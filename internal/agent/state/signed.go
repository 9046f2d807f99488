package state

import "github.com/steadyfleet/steady/internal/core/clock"

// SignedTime is the latest signed time seen, and when that was on the agent's own
// timeline, which does not follow the wall clock. It cannot be earlier now than
// the one and the time since the other.
type SignedTime struct {
	Floor clock.Instant `json:"floor"` // wall time
	At    clock.Instant `json:"at"`    // on the timeline
}

// After takes in a floor at an instant of the timeline. One that says less than
// is known already changes nothing.
func (s SignedTime) After(floor, now clock.Instant) SignedTime {
	if floor <= s.Wall(0, now) {
		return s
	}
	return SignedTime{Floor: floor, At: now}
}

// Wall corrects a wall clock that is behind.
func (s SignedTime) Wall(wall, now clock.Instant) clock.Instant {
	if s.Floor == 0 {
		return wall
	}
	return max(wall, s.Floor.Add(max(0, now.Sub(s.At))))
}
