package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Explanation is all that is known of one resource: what is desired, where it stands and why,
// what comes next, and what led there.
type Explanation struct {
	Row         engine.Row          `json:"row"`
	Next        time.Time           `json:"next,omitzero"`        // the earliest next attempt
	MaxAttempts int                 `json:"maxAttempts,omitzero"` // of the kind's policy: as many may fail
	Last        LastTurn            `json:"last"`
	Obstacle    string              `json:"obstacle,omitempty"` // why no turn of it can run now
	Children    []engine.Child      `json:"children,omitempty"`
	Events      []engine.Event      `json:"events,omitempty"`  // not handled yet
	History     []engine.Transition `json:"history,omitempty"` // the newest ten
}

// millis is the form of times in texts: nothing finer is kept.
const millis = "2006-01-02T15:04:05.000Z07:00"

// explained is how many transitions an Explanation has.
const explained = 10

// Explain says why a resource is where it is.
func (l *Controller) Explain(ctx context.Context, ref engine.Ref) (Explanation, error) {
	snap, err := l.store.Load(ctx, ref)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain %s: %w", ref, err)
	}
	e := Explanation{Row: snap.Row, Next: snap.Row.NextAttempt(), Last: l.LastTurn(ctx, ref), Events: snap.Events}
	for i := range snap.Children {
		if snap.Children[i].Phase != engine.Deleted {
			e.Children = append(e.Children, snap.Children[i].ChildView())
		}
	}
	if k := l.kinds[ref.Kind]; k != nil {
		e.MaxAttempts = k.policy().Retry.Max
	}
	e.Obstacle = l.obstacle(ref)
	e.History, err = l.store.History(ctx, ref, max(0, snap.Row.Transitions-explained), explained)
	return e, err
}

// obstacle is why no turn of ref can run now; empty if one can.
func (l *Controller) obstacle(ref engine.Ref) (why string) {
	if l.kinds[ref.Kind] == nil {
		return noReconciler(ref).Message + ": register one before Run. What is to be deleted is orphaned when its grace is over"
	}
	l.onQueue(context.Background(), func(o *queueOwner) {
		switch r := o.running[ref]; {
		case r != nil && r.hung:
			why = r.hungCall().String() + "; no other call of it begins before"
		case r == nil:
			if _, queued := o.queue.By(ref); queued {
				why = o.fullReason(ref.Kind)
			}
		}
		if n := o.passed[ref]; why == "" && n >= engine.PassedOften {
			why = fmt.Sprintf("%d turns in a row asked for the next one at a time that had passed: compare with View.Now", n)
		}
	})
	return why
}

// Get reads the row of a resource. It fails with ErrNotFound.
func (l *Controller) Get(ctx context.Context, ref engine.Ref) (engine.Row, error) {
	return l.store.Get(ctx, ref)
}

// List reads the rows that f selects, ordered by kind and id.
func (l *Controller) List(ctx context.Context, f Filter) ([]engine.Row, error) {
	return l.store.List(ctx, f)
}

// unwell are the phases of what may need a person: what failed may have another life.
var unwell = []engine.Phase{
	engine.Pending, engine.Acting, engine.Verifying, engine.Retrying, engine.Waiting, engine.Drifted, engine.Deleting,
	engine.Failed, engine.Orphaned,
}

// Attention lists the resources that need a person and that nobody acknowledged: orphans, and
// roots that failed, until they have converged. Retry, a new desired state or Acknowledge takes one off the list. With them
// are those of which a call has not returned in time (Hung), until it has.
func (l *Controller) Attention(ctx context.Context) ([]engine.Row, error) {
	rows, err := l.store.List(ctx, Filter{Phases: unwell})
	var out []engine.Row
	for i := range rows {
		if rows[i].Alerts() {
			out = append(out, rows[i])
		}
	}
	for _, h := range l.Hung() {
		row, failed := l.store.Get(ctx, h.Ref)
		if failed != nil || slices.ContainsFunc(out, func(r engine.Row) bool { return r.Ref == h.Ref }) {
			continue
		}
		out = append(out, row)
	}
	return out, err
}

// String is the explanation for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	row := &e.Row
	fmt.Fprintf(&b, "%s is %s: %s\n", row.Ref, row.Phase, row.Reason.Text())
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s "+format+"\n", append([]any{name}, args...)...)
	}
	switch {
	case row.Delete:
		line("desired", "absent (generation %d)", row.Generation)
	default:
		line("desired", "%s (generation %d, converged %d)", row.Desired, row.Generation, row.ConvergedGen)
	}
	if !row.Parent.IsZero() {
		line("parent", "%s", row.Parent)
	}
	if e.Last.Decision != "" {
		line("decided", "%s at %s, asked for by %s", e.Last.Decision, e.Last.At.Format(millis), causesText(e.Last.Causes))
	}
	if e.Obstacle != "" {
		line("obstacle", "%s", e.Obstacle)
	}
	if row.Attempts > 0 {
		line("attempts", "%d of %d", row.Attempts, e.MaxAttempts)
	}
	if n := row.Lives(); n > 0 {
		line("lives", "its attempts began afresh %d times since it last converged", n)
	}
	if !e.Next.IsZero() {
		line("next", "%s at the earliest", e.Next.Format(millis))
	}
	for _, c := range e.Children {
		line("child", "%s %s: %s", c.Ref, c.Phase, c.Reason.Text())
	}
	for _, ev := range e.Events {
		line("event", "%s %s from %s at %s", ev.Type, ev.ID, ev.Source, ev.At.Format(millis))
	}
	for _, t := range e.History {
		line("history", "%s %s: %s%s", t.At.Format(millis), t.To, t.Reason.Text(), errorText(t))
	}
	return b.String()
}

// errorText is the error of a transition where its reason does not have it already.
func errorText(t engine.Transition) string {
	if t.Error == "" || strings.Contains(t.Reason.Message, t.Error) {
		return ""
	}
	return " (" + t.Error + ")"
}

func causesText(cs []engine.Cause) string {
	texts := make([]string, len(cs))
	for i, c := range cs {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}
