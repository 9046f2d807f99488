package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

// source is what handlers that read answer from: the server as it is, or what its log came to at
// a record. See control.Control and control.Moment.
type source interface {
	View(ctx context.Context, read func(*plan.State)) error
	ViewNodes(ctx context.Context, read func(*drift.State)) error
	Head() store.Head
	Now() clock.Instant
	Root() trust.Root
	Roster() map[string]fleet.RosterHost
	Hosts(ctx context.Context) (plan.Fleet, error)
	Explain(s *plan.State) *plan.Explainer
	Assess(s *plan.State, host string) health.Assessment
	Totals(s *plan.State) health.Totals
	Unfinished(host string) (list []event.DegradedResource, more int)
	RestoreWait() server.RestoreWait
	SafeMode() string
	Sample(host string) *control.Sample
	LastSeen(host string) clock.Instant
	AgentVersions() map[string]int
	Attention(ctx context.Context) ([]status.InboxItem, error)
	SessionList(ctx context.Context) ([]session.Status, error)
}

var _, _ source = (*control.Control)(nil), (*control.Moment)(nil)

// AtRecord asks about the state that the log had at a record.
type AtRecord struct {
	At uint64 `query:"at" doc:"What the log came to with this record, instead of what it comes to now; without what only the running server knows"`
}

func (h *Handler) at(ctx context.Context, in *AtRecord) (source, error) {
	if in.At == 0 {
		return h.c, nil
	}
	return h.c.At(ctx, in.At)
}

func (in *AtRecord) record() *AtRecord { return in }
