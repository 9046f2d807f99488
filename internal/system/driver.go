package system

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// SystemDesired is what is desired of one part of the system, by its driver: Nix
// where that is set, else the commands of Exec.
type SystemDesired struct {
	Exec   fleet.Exec    `json:"exec,omitzero"`
	Nix    *fleet.Nix    `json:"nix,omitempty"`
	Bundle digest.Digest `json:"bundle"`
	Run    string        `json:"run"`
	// Released says that nobody declares the Nix system any more: what runs is left.
	Released bool `json:"released,omitempty"`
}

// SystemObserved is what one of the drivers saw.
type SystemObserved struct {
	Step StepObserved
	Nix  NixObserved
}

// systems is the manager of the kind system: each part goes to its driver.
type systems struct {
	execs *execs
	nix   *nixes
}

func (m *systems) Observe(ctx context.Context, r engine.Resource[SystemDesired]) (o SystemObserved, err error) {
	if r.Desired.Nix != nil {
		o.Nix, err = m.nix.Observe(ctx, r)
		return o, err
	}
	o.Step, err = m.execs.Observe(ctx, r)
	return o, err
}

func (m *systems) Decide(v engine.View[SystemDesired, SystemObserved]) engine.Decision {
	if v.Resource.Desired.Nix != nil {
		return decideNix(v.Resource, v.Observed.Nix, v.Now)
	}
	return m.execs.Decide(engine.View[SystemDesired, StepObserved]{
		Resource: v.Resource, Observed: v.Observed.Step, Children: v.Children, Now: v.Now,
	})
}

func (m *systems) Act(ctx context.Context, r engine.Resource[SystemDesired], a engine.Action) error {
	if r.Desired.Nix != nil {
		return m.nix.Act(ctx, r, a)
	}
	return m.execs.Act(ctx, r, a)
}
