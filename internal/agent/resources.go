package agent

import (
	"context"
	"database/sql"

	"github.com/steadyfleet/steady/internal/agent/journal"
	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// onTransition runs in the transaction that records a transition.
func (a *Agent) onTransition(ctx context.Context, tx *sql.Tx, t engine.Transition) error {
	return journal.Transition(ctx, tx, a.time.Now(), a.rows, t)
}

// afterCommit runs once transitions are durable. It must not block.
func (a *Agent) afterCommit(ts []engine.Transition) {
	if a.cut != nil {
		if err := a.cut(); err != nil {
			a.die(err)
			return
		}
	}
	a.report()
	a.hosting.Seen(ts)
	if a.repairs.Seen(ts) {
		nudge(a.look)
	}
	for _, t := range ts {
		if t.Ref == system.Current || t.Reason.Code == system.CodeNeedsReboot {
			nudge(a.look)
		}
	}
}

// report has what is in the outbox sent.
func (a *Agent) report() { nudge(a.send) }

// onProbe hands a result to the reducer. The runner's looks end before the
// reducer does, so it waits for room.
func (a *Agent) onProbe(ctx context.Context, round int64, res probe.Result) {
	a.post(ctx, probed{round: round, result: res})
}
