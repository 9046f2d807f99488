package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// EditNodes commits what an operator decides about nodes, and returns the events of it.
func (c *Control) EditNodes(ctx context.Context, e drift.Edit, by drift.By) (events []event.OfNodes, err error) {
	err = c.submit(ctx, c.urgent, server.Nodes{Decide: func(s *drift.State, now clock.Instant) ([]event.OfNodes, error) {
		out, err := s.Edit(e, by, now)
		events = out
		return out, refusal(err)
	}})
	return events, err
}

// ViewNodes runs read on the committed state of nodes, under the rules of View.
func (c *Control) ViewNodes(ctx context.Context, read func(*drift.State)) error {
	return c.View(ctx, func(*plan.State) { read(c.state.Nodes) })
}

// ViewNodes runs read on the state of nodes; see Control.ViewNodes.
func (m *Moment) ViewNodes(ctx context.Context, read func(*drift.State)) error {
	return m.c.pastAt(ctx, m.seq, func(f *folded) error {
		read(f.state.Nodes)
		return nil
	})
}

// NodeRefusal gives a refusal of the rules of nodes its kind.
func (c *Control) NodeRefusal(err error) error { return refusal(err) }
