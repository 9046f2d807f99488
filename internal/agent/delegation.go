package agent

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/steadyfleet/steady/internal/agent/courier"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
)

// keyDelegation is where the newest declared delegation is kept over restarts.
const keyDelegation = "delegation"

// delegationDoc is what the newest manifest of the host's channel delegates, and what it
// wants the host to run.
type delegationDoc struct {
	Channel    string            `json:"channel"`
	Target     digest.Digest     `json:"target"`
	Delegation *fleet.Delegation `json:"delegation,omitempty"`
}

// delegated is what the server may do unsigned on this host now. What a newer
// declaration withdraws ends at once. What it adds counts when the host runs its
// target: no grant comes to a host that runs it already.
func delegated(plan *fleet.HostPlan, current digest.Digest, n *delegationDoc) *fleet.Delegation {
	switch {
	case n == nil || n.Channel != plan.Channel:
		return plan.Delegation
	case n.Target == current:
		return n.Delegation
	case n.Delegation == nil || plan.Delegation == nil:
		return nil
	}
	both := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
	}
	return &fleet.Delegation{
		Kinds: both(plan.Delegation.Kinds, n.Delegation.Kinds), Allow: both(plan.Delegation.Allow, n.Delegation.Allow),
		Bounds: plan.Delegation.Bounds,
	}
}

// learnDelegation reads the newest manifest of the host's channel. What cannot be
// read or does not verify changes nothing; the next heartbeat asks again.
func (a *Agent) learnDelegation(ctx context.Context) error {
	channel := a.status.Load().plan.Channel
	if channel == "" {
		return nil // no plan yet: the first one brings it
	}
	p, err := a.follower.Newest(ctx, channel)
	a.unlearned.Store(err != nil)
	if err != nil {
		if errors.As(err, new(*trust.Error)) {
			a.post(ctx, refused{err: err})
		} else {
			a.away("what is delegated", err)
		}
		return nil
	}
	n := &delegationDoc{Channel: channel, Target: p.Value().Target, Delegation: p.Value().Delegation}
	if err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.Put(ctx, tx, keyDelegation, n) }); err != nil {
		return courier.Fatal(err)
	}
	a.newest.Store(n)
	a.hosting.Changed()
	return nil
}
