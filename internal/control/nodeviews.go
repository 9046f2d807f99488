package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/plan"
)

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
