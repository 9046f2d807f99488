package daemon

import (
	"context"
	"database/sql"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
)

// hostingAgent is the agent as hosting sees it.
type hostingAgent struct{ a *Agent }

var _ hosting.Agent = hostingAgent{}

// Delegation is what the server may do unsigned on this host now.
func (h hostingAgent) Delegation() *fleet.Delegation {
	return h.a.committed.Load().Delegation(h.a.newest.Load())
}

// AllowVolumeDelete is of the same plan.
func (h hostingAgent) AllowVolumeDelete() bool { return h.a.committed.Load().AllowVolumeDelete() }

// Declared reads the bundle that runs, first, and those that may come back or
// are on their way.
func (h hostingAgent) Declared(ctx context.Context) ([]*spec.Set, error) {
	var out []*spec.Set
	for _, d := range h.a.committed.Load().Bundles() {
		if d == "" { // nothing runs
			out = append(out, nil)
			continue
		}
		b, err := h.a.content.Bundle(ctx, d)
		if err != nil {
			return nil, err
		}
		out = append(out, b.Containers)
	}
	return out, nil
}

// Entry checks an operator's signature under the fleet's root.
func (h hostingAgent) Entry(env []byte) (trust.Verified[fleet.ManagedEntry], error) {
	return h.a.follower.Entry(env)
}

// VerbsChanged has the generation look at its verbs.
func (h hostingAgent) VerbsChanged() { h.a.loop.Enqueue(system.Current, because("verbs")) }

// Parked reports whether nothing may be changed on this host until it enrols again.
func (h hostingAgent) Parked() bool { return h.a.committed.Load().Parked != nil }

// Beat sends a heartbeat soon.
func (h hostingAgent) Beat() { wake(h.a.wakeHeartbeat) }

// Append adds an event to the outbox.
func (h hostingAgent) Append(ctx context.Context, tx *sql.Tx, e event.Event) error {
	defer h.a.report()
	return state.Append(ctx, tx, h.a.time.Now(), e)
}
