package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
)

func (h *Handler) reference(context.Context, *none) (operator.Reference, error) {
	return operator.NewReference(), nil
}

func (h *Handler) chain(ctx context.Context, _ *none) (control.Chain, error) {
	return h.c.Chain(ctx)
}

func (h *Handler) timeline(ctx context.Context, _ *none) (control.Timeline, error) {
	return h.c.Timeline(ctx)
}
