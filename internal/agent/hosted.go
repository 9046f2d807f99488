package agent

import (
	"context"
	"database/sql"
	"slices"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/journal"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
)

// hosted is the agent as hosting sees it.
type hosted struct{ a *Agent }

var _ hosting.Agent = hosted{}

// Delegation is what the server may do unsigned on this host now.
func (h hosted) Delegation() *fleet.Delegation {
	s := h.a.status.Load()
	return delegated(&s.plan, s.Machine.Current, h.a.newest.Load())
}

// AllowVolumeDelete is of the same plan.
func (h hosted) AllowVolumeDelete() bool { return h.a.status.Load().plan.AllowVolumeDelete }

// Declared reads the bundle that runs, first, and those that may come back or
// are on their way.
func (h hosted) Declared(ctx context.Context) ([]*container.Set, error) {
	s := h.a.status.Load()
	want := []digest.Digest{bundleOf(&s.Machine), s.Machine.Current, s.Machine.From, s.Machine.Target}
	if s.Offer != nil {
		want = append(want, s.Offer.Plan.Target)
	}
	var out []*container.Set
	for i, d := range want {
		if i > 0 && (d == "" || slices.Contains(want[:i], d)) {
			continue
		}
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
func (h hosted) Entry(env []byte) (trust.Verified[fleet.ManagedEntry], error) {
	return h.a.follower.Entry(env)
}

// Asked has the generation look at its verbs.
func (h hosted) Asked() { h.a.loop.Kick(system.Current, because("verbs")) }

// Beat sends a heartbeat soon.
func (h hosted) Beat() { nudge(h.a.back) }

// Append adds an event to the outbox.
func (h hosted) Append(ctx context.Context, tx *sql.Tx, e event.Event) error {
	defer h.a.report()
	return journal.Append(ctx, tx, h.a.time.Now(), e)
}

// asks are the verbs for what the bundle declares.
func (a *Agent) asks() map[container.ID]deploy.Ask { return a.hosting.Asks() }
