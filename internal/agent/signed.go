package agent

import (
	"context"
	"database/sql"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/trust"
)

// signedTime is the latest signed time seen, and when that was on the agent's own
// timeline, which does not follow the wall clock. It cannot be earlier now than
// the one and the time since the other.
type signedTime struct {
	Floor clock.Instant `json:"floor"` // wall time
	At    clock.Instant `json:"at"`    // on the timeline
}

// after takes in a floor at an instant of the timeline. One that says less than
// is known already changes nothing.
func (s signedTime) after(floor, now clock.Instant) signedTime {
	if floor <= s.wall(0, now) {
		return s
	}
	return signedTime{Floor: floor, At: now}
}

// wall corrects a wall clock that is behind.
func (s signedTime) wall(wall, now clock.Instant) clock.Instant {
	if s.Floor == 0 {
		return wall
	}
	return max(wall, s.Floor.Add(max(0, now.Sub(s.At))))
}

// signedWall is the wall clock, never below the latest signed time seen and the
// time since: a clock that is set back makes nothing fresh again. Nothing of it
// comes from the wall clock, so that a jump ahead is over once it is taken back.
func (a *Agent) signedWall() clock.Instant {
	return a.signed.Load().wall(a.cfg.Clock.Wall(), a.time.Now())
}

// wall is signedWall for certificates.
func (a *Agent) wall() time.Time { return time.UnixMilli(int64(a.signedWall())) }

// saveTrust makes a state of trust durable, with when its floor was seen.
func (a *Agent) saveTrust(ctx context.Context, s trust.State) error {
	seen := a.signed.Load().after(s.Floor, a.time.Now())
	err := a.store.Tx(ctx, func(tx *sql.Tx) error {
		if err := state.Put(ctx, tx, keySigned, seen); err != nil {
			return err
		}
		return state.Put(ctx, tx, keyTrust, s)
	})
	if err == nil {
		a.signed.Store(&seen)
	}
	return err
}
