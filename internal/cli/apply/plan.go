package apply

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// What a resource may meet besides what a host answers.
const (
	doesBlocked = "blocked"
	doesRefused = "refused"
	doesCreate  = "create"
	doesUnknown = "unknown"
	doesKeep    = "keep" // it is another owner's
)

func (a verbs) planCmd() *cobra.Command {
	var src source
	var prune bool
	cmd := &cobra.Command{
		Use: "plan -f FILE [HOST]", GroupID: command.GroupWatch, Short: "Say what apply would do, resource by resource and field by field",
		Long: `Asks the hosts what setting the resources of a file would do, without doing any of
it: nothing, create, in place, replace, remove, or keep; blocked where the engine cannot
do it, refused where the host does not allow it, and unknown where it cannot be known
before something else is set. For each field that differs
it says what curing it takes, what caused it, what the host has and what is asked
for. Code 1 means that something is blocked or refused.

` + fileHelp,
		Example: "  steady plan -f web.yaml\n  steady plan -f compose.yaml gpu-1 --prune\n  steady plan -f web.yaml -o json",
	}
	src.add(a, cmd)
	cmd.Flags().BoolVar(&prune, "prune", false, "show what apply --prune would remove as well, and what it keeps since another owner set it")
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		var more []Resource
		var kept []operator.HostResource
		if prune {
			var err error
			if more, kept, err = surplus(ctx, c, src.list); err != nil {
				return err
			}
		}
		return a.plan(ctx, c, src.list, more, kept)
	})))
}

// Planned is what would happen to one resource.
type Planned struct {
	Host string `json:"host"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Owner is whose it is that --prune keeps; empty is the operators.
	Owner spec.Owner `json:"owner,omitempty"`
	wire.PlanAnswer
}

func (a verbs) plan(ctx context.Context, c *operator.Client, list, prune []Resource, kept []operator.HostResource) error {
	p := &planner{client: c, list: list, hosts: map[string]operator.HostResources{}}
	for _, r := range list {
		if err := p.resource(ctx, r, operator.PlanRequest{Kind: r.Kind, Name: r.Name, Spec: r.Spec}); err != nil {
			return err
		}
	}
	for _, r := range prune {
		if err := p.resource(ctx, r, operator.PlanRequest{Kind: r.Kind, Name: r.Name}); err != nil {
			return err
		}
	}
	for _, x := range kept {
		p.out = append(p.out, keep(x))
	}
	if err := a.Print(command.NonNil(p.out), func() error { return a.showPlan(p.out) }); err != nil {
		return err
	}
	for _, p := range p.out {
		if p.Does == doesBlocked || p.Does == doesRefused {
			return exit.Silently(exit.Failed)
		}
	}
	return nil
}

func keep(x operator.HostResource) Planned {
	return Planned{Host: x.Host, Kind: x.Kind, Name: x.Name, Owner: x.Owner, PlanAnswer: wire.PlanAnswer{
		Resource: x.Kind + "/" + x.Name, Does: doesKeep, Why: "it belongs to " + x.Owner.String(), Fields: []wire.PlanField{}}}
}

// planner asks resource by resource. Hosts are asked of one at a time and know
// nothing of the rest of the file.
type planner struct {
	client *operator.Client
	list   []Resource
	hosts  map[string]operator.HostResources
	out    []Planned
}

// resource asks for one; a refusal is an answer, too.
func (p *planner) resource(ctx context.Context, r Resource, q operator.PlanRequest) error {
	one := Planned{Host: r.Host, Kind: r.Kind, Name: r.Name}
	answer, err := p.client.Plan(ctx, r.Host, q)
	one.PlanAnswer = answer
	if refusal, ok := errors.AsType[*operator.Error](err); ok {
		one.PlanAnswer, err = wire.PlanAnswer{Does: doesRefused, Why: refusal.Error()}, nil
	}
	if err == nil && one.Does == doesBlocked {
		one.PlanAnswer, err = p.later(ctx, r, one.PlanAnswer)
	}
	if err != nil {
		return err
	}
	one.Resource, one.Fields = r.ID.String(), command.NonNil(one.Fields)
	p.out = append(p.out, one)
	return nil
}

// later answers for a resource that is blocked because the host does not have
// what it needs, when the same file sets that first.
func (p *planner) later(ctx context.Context, r Resource, blocked wire.PlanAnswer) (wire.PlanAnswer, error) {
	have, asked := p.hosts[r.Host]
	if !asked {
		var err error
		if have, err = p.client.Resources(ctx, r.Host); err != nil {
			return blocked, err
		}
		p.hosts[r.Host] = have
	}
	there := func(id spec.ID) bool {
		return slices.ContainsFunc(have.Resources, func(x operator.Resource) bool { return x.Kind == id.Kind && x.Name == id.Name })
	}
	for _, n := range p.needs(r) {
		switch {
		case there(n):
		case there(r.ID):
			return wire.PlanAnswer{Does: doesUnknown, Why: "it needs " + n.String() + ", which is set first; try again then"}, nil
		default:
			return wire.PlanAnswer{Does: doesCreate, Why: "after " + n.String()}, nil
		}
	}
	return blocked, nil
}

// needs lists what a resource needs that the file sets on its host.
func (p *planner) needs(r Resource) []spec.ID {
	var here []Resource
	for _, x := range p.list {
		if x.Host == r.Host {
			here = append(here, x)
		}
	}
	var out []spec.ID
	for _, n := range spec.Dependencies(Set(here))[r.ID] {
		if slices.ContainsFunc(here, func(x Resource) bool { return x.ID == n.ID }) {
			out = append(out, n.ID)
		}
	}
	return out
}

func (a verbs) showPlan(list []Planned) error {
	screen := a.Screen()
	counts := map[string]int{}
	for _, p := range list {
		counts[p.Does]++
		a.Printf("%s on %s: %s", p.Resource, p.Host, screen.Paint(doesColor(p.Does), p.Does))
		if p.Why != "" {
			a.Printf(": %s", term.Printable(p.Why))
		}
		a.Printf("\n")
		var rows [][]string
		for _, f := range p.Fields {
			rows = append(rows, []string{"  " + f.Field, f.Class, f.Cause, f.Observed, f.Desired, f.Why})
		}
		if len(rows) == 0 {
			continue
		}
		if err := a.Details([]string{"  field", "takes", "cause", "has", "wants", "why"}, rows); err != nil {
			return err
		}
	}
	a.Printf("%d resources:", len(list))
	sep := " "
	for _, does := range []string{doesCreate, string(diff.InPlace), string(diff.Replace), "remove", doesKeep, string(diff.None), doesUnknown, doesBlocked, doesRefused} {
		if n := counts[does]; n > 0 {
			a.Printf("%s%d %s", sep, n, does)
			sep = ", "
		}
	}
	a.Printf("\n")
	return nil
}

func doesColor(does string) term.Color {
	switch does {
	case doesBlocked, doesRefused, "remove":
		return term.Bad
	case string(diff.Replace), string(diff.InPlace), doesUnknown:
		return term.Busy
	case string(diff.None), doesKeep:
		return term.Faint
	}
	return term.Good
}
