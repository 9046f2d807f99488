package devices

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/drift"
)

// object is the command for objects of any kind, in the words of drivers.
func object(e *command.Env) *cobra.Command {
	a := &objects{verbs{e}, "object", true}
	cmd := a.command()
	cmd.AddCommand(a.kinds())
	a.kind = ""
	f := cmd.PersistentFlags()
	f.StringVar(&a.kind, "kind", "", "the kind of the objects, in the word of their driver; list has all without it")
	a.completesKind(cmd)
	return cmd
}

// completesKind completes --kind with the kinds of objects that nodes have.
func (a verbs) completesKind(cmd *cobra.Command) {
	a.CompletesFlag(cmd, "kind", func(ctx context.Context, c *operator.Client, _ []string, _ string) ([]string, error) {
		all, err := c.Kinds(ctx)
		var names []string
		for _, k := range all {
			names = append(names, k.Name)
		}
		return names, err
	})
}

func (a *objects) kinds() *cobra.Command {
	cmd := &cobra.Command{
		Use: "kinds", Short: "List the kinds of objects that nodes have",
		Long: `Every fleet has flows, tunnels and documents, which have commands of their own; the
others are words of drivers.`,
		Example: "  steady object kinds",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]drift.KindRow, error) {
		return c.Kinds(ctx)
	}, []string{"kind", "nodes", "objects", "commands"}, func(k drift.KindRow) []string {
		return []string{k.Name, count(k.Nodes), count(k.Objects), "steady " + k.Command}
	})
}
