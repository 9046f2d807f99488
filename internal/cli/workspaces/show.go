package workspaces

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (a verbs) listCmd(kind string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [HOST...]", Short: "List every " + kind + " of hosts, or of all hosts",
		Example: "  steady " + kind + " list\n  steady " + kind + " list gpu-1 -o json",
	}
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		list, err := list(ctx, c, kind, args)
		if err != nil {
			return err
		}
		return a.Print(command.NonNil(list), func() error {
			var rows [][]string
			for _, x := range list {
				age := ""
				if x.Since != 0 {
					age = prose.Span(a.Wall().Sub(x.Since))
				}
				rows = append(rows, []string{x.Host + "/" + x.Name, cmp.Or(x.State, "not reported"), command.LayerOf(x.Resource), age, x.Message})
			}
			return a.Table([]string{kind, "state", "layer", "since", "detail"}, rows)
		})
	})))
}

// list asks for the resources of a kind page by page; no hosts are all.
func list(ctx context.Context, c *operator.Client, kind string, hosts []string) (all []operator.HostResource, err error) {
	for {
		p, err := c.ResourcePage(ctx, operator.ResourceQuery{Kind: kind, Hosts: hosts, Offset: len(all), Limit: operator.MaxPage})
		all = append(all, p.Items...)
		if err != nil || len(p.Items) == 0 || len(all) >= p.Total {
			return all, err
		}
	}
}

// shown is a resource with what is set of it.
type shown struct {
	operator.HostResource
	Set *operator.ManagedResource `json:"set,omitempty"` // of the managed layer
}

func (a verbs) showCmd(kind string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show HOST/NAME", Short: "Show one " + kind + ": where it stands, what differs, and what is set",
		Example: "  steady " + kind + " show gpu-1/web",
	}
	return a.ResourceNames(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := command.OnHost(args[0])
		if err != nil {
			return err
		}
		r, err := c.Resources(ctx, host)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(r.Resources, func(x operator.Resource) bool { return x.Kind == kind && x.Name == name })
		if at < 0 {
			return exit.With(exit.NotFound, fmt.Errorf("host %s has no %s %s; steady %s list %s lists what it has", host, kind, name, kind, host))
		}
		s := shown{HostResource: operator.HostResource{Host: host, Resource: r.Resources[at]}}
		if s.Set, err = current(ctx, c, host, kind, name); err != nil {
			return err
		}
		return a.Print(s, func() error { return a.show(s) })
	})), kind)
}

func (a verbs) show(s shown) error {
	screen := a.Screen()
	state := cmp.Or(s.State, "not reported")
	a.Printf("%s/%s on %s: %s", s.Kind, s.Name, s.Host, screen.Paint(watch.StateColor(s.State), state))
	if s.Message != "" {
		a.Printf(": %s", term.Printable(s.Message))
	}
	a.Printf("\n  layer: %s", command.LayerOf(s.Resource))
	if s.Since != 0 {
		a.Printf(", for %s", prose.Span(a.Wall().Sub(s.Since)))
	}
	if !s.Declared {
		a.Printf(", no longer declared")
	}
	a.Printf("\n")
	if len(s.Differences) > 0 {
		var rows [][]string
		for _, d := range s.Differences {
			rows = append(rows, []string{"  " + d.Field, string(d.Class), string(d.Cause), d.Observed, d.Desired, d.Why})
		}
		if err := a.Table([]string{"  field", "takes", "cause", "has", "wants", "why"}, rows); err != nil {
			return err
		}
	}
	if s.Set == nil {
		return nil
	}
	a.Printf("  set by %s at %s: %s\n", term.Printable(s.Set.Actor), s.Set.SetAt, term.Printable(s.Set.Reason))
	text, err := apply.Write(spec.Known, &apply.Resource{Host: s.Host, ID: spec.ID{Kind: s.Kind, Name: s.Name}, Spec: json.RawMessage(s.Set.Spec)})
	if err != nil {
		return err
	}
	a.Printf("%s", text)
	return nil
}
