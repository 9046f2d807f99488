package reconcile

import (
	"context"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// sweepDelay is how long a resource has to be without a turn before the sweep takes it for one that is
// left: who commits enqueues right after.
const sweepDelay = time.Second

// sweep queues what was left with nothing queued although it wants a turn: it is an invariant
// of the controller that there is nothing such. Its members are a transaction of the store's owner
// that no Enqueue followed, and a commit of which the store said that it failed.
func (l *Controller) sweep(ctx context.Context) {
	rows, err := l.store.List(ctx, Filter{})
	opened, failed := l.store.Open(ctx)
	if err != nil || failed != nil {
		return // what fails is seen by turns
	}
	raised := map[engine.Ref]int64{}
	for _, r := range opened.Raised {
		raised[r.Ref] = r.N
	}
	var found []engine.Row
	for i := range rows {
		if _, missing := l.leftAlone(&rows[i], raised[rows[i].Ref]); missing {
			found = append(found, rows[i])
		}
	}
	if len(found) == 0 {
		return
	}
	if !l.stepped {
		select {
		case <-time.After(sweepDelay):
		case <-ctx.Done():
			return
		}
	}
	for i := range found {
		row, err := l.store.Get(ctx, found[i].Ref)
		if err != nil || row.Revision != found[i].Revision {
			continue
		}
		owed, missing := l.leftAlone(&row, raised[row.Ref])
		if _, known := l.leftBut(&row, raised[row.Ref], 0); known {
			l.unqueued(row.Ref, row.Phase, owed)
		}
		if missing { // perhaps by a period that is new
			l.enqueue(request{row.Ref, owed, engine.PriorityRetry, engine.Cause{Trigger: engine.TriggerRetry, ID: "sweep"}})
		}
	}
}

// leftAlone reports whether the row wants a turn of which nothing is queued, and when.
func (l *Controller) leftAlone(row *engine.Row, trigger int64) (owed time.Time, missing bool) {
	return l.leftBut(row, trigger, policyOf(l.kinds[row.Ref.Kind]).Resync)
}

// leftBut is leftAlone with another period of resync.
func (l *Controller) leftBut(row *engine.Row, trigger int64, resync time.Duration) (owed time.Time, missing bool) {
	p := *policyOf(l.kinds[row.Ref.Kind])
	p.Resync = resync
	in := engine.Input{Snap: &engine.Snapshot{Row: *row, TriggerN: trigger}, Policy: &p, Now: l.cfg.now()}
	l.onQueue(context.Background(), func(o *queueOwner) {
		o.drain()
		owed, missing = o.queue.Unqueued(in)
	})
	return owed, missing
}

// unqueued notes a resource that was left with nothing queued, and is queued now.
func (l *Controller) unqueued(ref engine.Ref, p engine.Phase, owed time.Time) {
	l.stats.repaired.Add(1)
	l.cfg.log.Error("a resource was left with nothing queued; it is queued now", "ref", ref.String(), "phase", string(p), "owed", owed)
}
