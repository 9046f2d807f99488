package daemon

import (
	"context"
	"database/sql"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/trust"
)

// signedWall is the wall clock, never below the latest signed time seen and the
// time since: a clock that is set back makes nothing fresh again. Nothing of it
// comes from the wall clock, so that a jump ahead is over once it is taken back.
func (a *Agent) signedWall() clock.Instant {
	return a.signed.Load().Wall(a.cfg.Clock.Wall(), a.time.Now())
}

// wall is signedWall for certificates.
func (a *Agent) wall() time.Time { return time.UnixMilli(int64(a.signedWall())) }

// saveTrust makes a state of trust durable, with when its floor was seen.
func (a *Agent) saveTrust(ctx context.Context, s trust.State) error {
	seen := a.signed.Load().After(s.Floor, a.time.Now())
	err := a.store.Tx(ctx, func(tx *sql.Tx) error {
		if err := state.PutDoc(ctx, tx, keySigned, seen); err != nil {
			return err
		}
		return state.PutDoc(ctx, tx, keyTrust, s)
	})
	if err == nil {
		a.signed.Store(&seen)
	}
	return err
}
