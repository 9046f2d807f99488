package apply

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/document"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/wire"
)

// What a resource may meet besides what a host answers.
const (
	doesBlocked = "blocked"
	doesRefused = "refused"
)

func (a verbs) planCmd() *cobra.Command {
	var src source
	var prune bool
	cmd := &cobra.Command{
		Use: "plan -f FILE [HOST]", GroupID: command.GroupWatch, Short: "Say what apply would do, resource by resource and field by field",
		Long: `Asks the hosts what setting the resources of a file would do, without doing any of
it: nothing, create, in place, replace, or remove; blocked where the engine cannot
do it, and refused where the host does not allow it. For each field that differs
it says what curing it takes, what caused it, what the host has and what is asked
for. Code 1 means that something is blocked or refused.

` + fileHelp,
		Example: "  steady plan -f web.yaml\n  steady plan -f compose.yaml gpu-1 --prune\n  steady plan -f web.yaml -o json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
	}
	src.add(a, cmd)
	cmd.Flags().BoolVar(&prune, "prune", false, "show what apply --prune would remove as well")
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		list, err := src.read(a, args)
		if err != nil {
			return err
		}
		var more []document.Resource
		if prune {
			if more, err = surplus(ctx, c, list); err != nil {
				return err
			}
		}
		return a.plan(ctx, c, list, more)
	})))
}

// Planned is what would happen to one resource.
type Planned struct {
	Host string `json:"host"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	wire.PlanAnswer
}

func (a verbs) plan(ctx context.Context, c *operator.Client, list, prune []document.Resource) error {
	var out []Planned
	for _, r := range list {
		p, err := planOne(ctx, c, r, operator.PlanRequest{Kind: r.Kind, Name: r.Name, Spec: r.Spec})
		if err != nil {
			return err
		}
		out = append(out, p)
	}
	for _, r := range prune {
		p, err := planOne(ctx, c, r, operator.PlanRequest{Kind: r.Kind, Name: r.Name})
		if err != nil {
			return err
		}
		out = append(out, p)
	}
	if err := a.Print(command.NonNil(out), func() error { return a.showPlan(out) }); err != nil {
		return err
	}
	for _, p := range out {
		if p.Does == doesBlocked || p.Does == doesRefused {
			return exit.Silently(exit.Failed)
		}
	}
	return nil
}

// planOne asks for one resource; a refusal is an answer, too.
func planOne(ctx context.Context, c *operator.Client, r document.Resource, q operator.PlanRequest) (Planned, error) {
	p := Planned{Host: r.Host, Kind: r.Kind, Name: r.Name}
	answer, err := c.Plan(ctx, r.Host, q)
	p.PlanAnswer = answer
	if refusal, ok := errors.AsType[*operator.Error](err); ok {
		p.PlanAnswer = wire.PlanAnswer{Does: doesRefused, Why: refusal.Error()}
		err = nil
	}
	p.Resource, p.Fields = r.ID.String(), command.NonNil(p.Fields)
	return p, err
}

func (a verbs) showPlan(list []Planned) error {
	screen := term.Of(a.Out, a.Getenv)
	counts := map[string]int{}
	for _, p := range list {
		counts[p.Does]++
		a.Say("%s on %s: %s", p.Resource, p.Host, screen.Paint(doesColor(p.Does), p.Does))
		if p.Why != "" {
			a.Say(": %s", term.Printable(p.Why))
		}
		a.Say("\n")
		var rows [][]string
		for _, f := range p.Fields {
			rows = append(rows, []string{"  " + f.Field, f.Class, f.Cause, f.Observed, f.Desired, f.Why})
		}
		if len(rows) == 0 {
			continue
		}
		if err := term.Fit(a.Out, screen, []string{"  field", "takes", "cause", "has", "wants", "why"}, rows); err != nil {
			return err
		}
	}
	a.Say("%d resources:", len(list))
	sep := " "
	for _, does := range []string{"create", string(diff.InPlace), string(diff.Replace), "remove", string(diff.None), doesBlocked, doesRefused} {
		if n := counts[does]; n > 0 {
			a.Say("%s%d %s", sep, n, does)
			sep = ", "
		}
	}
	a.Say("\n")
	return nil
}

func doesColor(does string) term.Color {
	switch does {
	case doesBlocked, doesRefused, "remove":
		return term.Bad
	case string(diff.Replace), string(diff.InPlace):
		return term.Busy
	case string(diff.None):
		return term.Faint
	}
	return term.Good
}
