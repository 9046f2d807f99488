package workspace

import (
	"context"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Preview observes a workspace as if it were desired like this. Unlike Observe it
// does not take it as what is desired from now on.
func (m *Reconciler) Preview(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	listed, err := m.o.Engine.ContainerList(ctx, true, m.labels(r.Ref.ID)...)
	if err != nil {
		return Observed{}, dockerapi.ErrorOf(ctx, err)
	}
	o, _, err := m.inspect(ctx, &r, listed, false)
	return o, dockerapi.ErrorOf(ctx, err)
}
