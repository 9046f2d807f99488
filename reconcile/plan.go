package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Step is what the next turn of one resource would do.
type Step struct {
	Ref      engine.Ref      `json:"ref"`
	Delete   bool            `json:"delete,omitempty"`
	Changed  bool            `json:"changed,omitempty"` // the intent changes what is desired of it
	Decision string          `json:"decision"`          // its name; "delete children" while there are some
	Action   string          `json:"action,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // of the action
	Reason   engine.Reason   `json:"reason"`
	Error    string          `json:"error,omitempty"` // it could not be observed
}

// Plan is what the next turns of a root and of what is below it would do if in were applied:
// it observes and decides as turns do, and writes and acts on nothing. What is decided
// later, of what those acts leave behind, is not foreseen. Parents come before their children.
func (l *Controller) Plan(ctx context.Context, in engine.Intent) ([]Step, error) {
	p := planner{l: l, seen: map[engine.Ref]bool{}}
	err := p.intent(ctx, nil, in)
	return p.steps, err
}

type planner struct {
	l     *Controller
	seen  map[engine.Ref]bool
	steps []Step
}

// intent plans what an intent makes of a resource.
func (p *planner) intent(ctx context.Context, parent *engine.Row, in engine.Intent) error {
	snap, err := p.l.store.Load(ctx, in.Ref)
	cur := &snap.Row
	if errors.Is(err, ErrNotFound) {
		cur, err = nil, nil
	}
	if err != nil {
		return err
	}
	row, ch, err := engine.ApplyIntent(cur, parent, in, p.l.cfg.now(), engine.Cause{Trigger: engine.TriggerOperator})
	if err != nil {
		return err
	}
	if row.Ref.IsZero() { // nothing to delete
		return nil
	}
	snap.Row, snap.Parent = row, parent
	return p.plan(ctx, snap, ch.Changed)
}

func (p *planner) plan(ctx context.Context, snap engine.Snapshot, changed bool) error {
	row := &snap.Row
	k := p.l.kinds[row.Ref.Kind]
	if k == nil {
		return fmt.Errorf("plan %s: no reconciler is registered for its kind", row.Ref)
	}
	if p.seen[row.Ref] || row.Phase.Terminal() && !changed {
		return nil
	}
	p.seen[row.Ref] = true
	causes := engine.CausesOf(engine.Cause{Trigger: engine.TriggerOperator})
	in := engine.Input{Snap: &snap, Policy: k.policy(), Causes: &causes, Now: p.l.cfg.now()}
	s := Step{Ref: row.Ref, Delete: row.Delete, Changed: changed}
	before, step := engine.BeforeObserve(in)
	if step != engine.Proceed && len(before.Intents) > 0 {
		s.Decision, s.Reason = "delete children", before.Row.Reason
		p.steps = append(p.steps, s)
		return p.children(ctx, &before.Row, before.Intents)
	}
	octx, cancel := context.WithTimeout(ctx, k.policy().ObserveTimeout)
	observed, err := k.observe(octx, in, true, p.l.cfg.now)
	cancel()
	var d engine.Decision
	if err == nil {
		d, err = k.decide(in, observed, p.l.cfg.pure)
	}
	if err != nil {
		s.Decision, s.Error = "observe", err.Error()
		p.steps = append(p.steps, s)
		return ctx.Err()
	}
	s.Decision, s.Reason = d.Name(), d.Reason()
	if a := d.Action(); a != nil {
		s.Action = a.ActionName()
		if s.Input, err = json.Marshal(a); err != nil {
			return fmt.Errorf("plan %s: encode action %s: %w", row.Ref, s.Action, err)
		}
	}
	p.steps = append(p.steps, s)
	return p.children(ctx, row, d.Children())
}

func (p *planner) children(ctx context.Context, parent *engine.Row, intents []engine.Intent) error {
	for _, in := range intents {
		if err := p.intent(ctx, parent, in); err != nil {
			return err
		}
	}
	return nil
}
