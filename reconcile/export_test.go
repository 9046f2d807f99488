package reconcile

import (
	"context"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// LeftAlone lists the resources that want a turn of which nothing is queued.
func (l *Controller) LeftAlone(ctx context.Context) (refs []engine.Ref, err error) {
	rows, err := l.store.List(ctx, Filter{})
	for i := range rows {
		if _, missing := l.leftAlone(&rows[i], 0); missing {
			refs = append(refs, rows[i].Ref)
		}
	}
	return refs, err
}

// Sweep is what housekeeping does about them.
func (l *Controller) Sweep(ctx context.Context) { l.sweep(ctx) }
