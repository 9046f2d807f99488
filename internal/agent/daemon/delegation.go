package daemon

import (
	"context"
	"database/sql"
	"errors"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/trust"
)

// keyDelegation is where the newest declared delegation is kept over restarts.
const keyDelegation = "delegation"

// learnDelegation reads the newest manifest of the host's channel. What cannot be
// read or does not verify changes nothing; the next heartbeat asks again.
func (a *Agent) learnDelegation(ctx context.Context) error {
	channel := a.committed.Load().Plan.Channel
	if channel == "" {
		return nil // no plan yet: the first one brings it
	}
	p, err := a.follower.Newest(ctx, channel)
	a.unlearned.Store(err != nil)
	if err != nil {
		if errors.As(err, new(*trust.Error)) {
			a.post(ctx, refusal("", err))
		} else {
			a.unreachable("what is delegated", err)
		}
		return nil
	}
	n := &core.NewestPlan{Channel: channel, Target: p.Value().Target, Delegation: p.Value().Delegation}
	if err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.Put(ctx, tx, keyDelegation, n) }); err != nil {
		return uplink.Fatal(err)
	}
	a.newest.Store(n)
	a.hosting.Changed()
	return nil
}
