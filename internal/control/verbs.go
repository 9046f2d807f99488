package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// Operate commits what an operator decides of the state ahead of all that hosts send,
// however much of it waits, and runs the planner at once; nil runs the planner alone.
// Errors of decide are *plan.VerbError.
func (c *Control) Operate(ctx context.Context, decide func(*plan.State, clock.Instant) ([]event.Entry, error)) error {
	return c.submit(ctx, c.operations, server.Operator{Decide: decide})
}
