package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Step is what the next turn of one resource would do.
type Step struct {
	Ref      engine.Ref      `json:"ref"`
	Delete   bool            `json:"delete,omitempty"`
	Changed  bool            `json:"changed,omitempty"` // the intent changes what is desired of it
	Decision string          `json:"decision"`          // its name; "delete children" while there are some, "none" where nothing more is decided
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
	if in, err = p.l.Check(in); err != nil {
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
	before, goesOn, err := beforeObserve(in)
	s := Step{Ref: row.Ref, Delete: row.Delete, Changed: changed}
	switch {
	case err != nil:
		return fmt.Errorf("plan %s: %w", row.Ref, err)
	case !goesOn:
		s.Decision, s.Reason = "none", row.Reason
		if live(snap.Children) {
			s.Decision = "delete children"
		}
		p.steps = append(p.steps, s)
		return p.children(ctx, row, before.Intents)
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
	if row.Delete || row.GivenUp() { // its turn leaves the children alone
		return nil
	}
	return p.children(ctx, row, d.Children())
}

// beforeObserve brings the snapshot to where its turn observes, and reports whether it does. The
// record is the last one that the turn would commit before.
func beforeObserve(in engine.Input) (rec engine.Record, goesOn bool, err error) {
	for {
		rec, step := engine.BeforeObserve(in)
		if step == engine.Proceed {
			return rec, true, nil
		}
		rows, _, err := engine.Expand(rec, func(ref engine.Ref) (*engine.Row, error) {
			for _, c := range in.Snap.Children {
				if c.Ref == ref {
					return &c, nil
				}
			}
			return nil, nil
		})
		if err != nil {
			return rec, false, err
		}
		in.Snap.Row = rec.Row
		if step == engine.Stop {
			return rec, false, nil
		}
		for _, row := range rows {
			for i := range in.Snap.Children {
				if in.Snap.Children[i].Ref == row.Ref {
					in.Snap.Children[i] = row
				}
			}
		}
	}
}

func live(children []engine.Row) bool {
	return slices.ContainsFunc(children, func(c engine.Row) bool { return !c.Phase.Terminal() })
}

func (p *planner) children(ctx context.Context, parent *engine.Row, intents []engine.Intent) error {
	for _, in := range intents {
		if err := p.intent(ctx, parent, in); err != nil {
			return err
		}
	}
	return nil
}
