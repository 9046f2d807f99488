package journal

import (
	"context"
	"database/sql"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// ofContainer reports where a container resource stands, in the transaction that
// records it: the event waits in the outbox until the server has it.
func ofContainer(ctx context.Context, tx *sql.Tx, at clock.Instant, t engine.Transition) error {
	ref := t.Ref.String()
	st := container.StateOf(container.Stage{Kind: t.Ref.Kind, Phase: t.To, Code: t.Reason.Code, Action: t.Action})
	detail := t.Reason.Words
	if t.Error != "" {
		detail = t.Error
	}
	detail = system.Scrub(detail, 2048)
	news, err := state.Stated(ctx, tx, ref, string(st), detail)
	if err != nil || !news {
		return err
	}
	if st == container.Removed {
		if err := state.Unstated(ctx, tx, ref); err != nil {
			return err
		}
	}
	from := event.LayerBundle
	if t.Parent == layer.Current {
		from = event.LayerManaged
	}
	return Append(ctx, tx, at, event.ResourceReported{Resource: ref, State: string(st), Detail: detail, Layer: from})
}
