package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
)

func (h *Handler) reference(context.Context, *none) (operator.Reference, error) {
	return operator.NewReference(), nil
}
