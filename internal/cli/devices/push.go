package devices

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

const longPush = `Pushes again now what failed, and would else wait until it is tried again: after 30 s, and then less
often (steady server --push-retry, --push-retry-max). What waits for its node, for a decision about
drift or for another leg cannot be pushed; then the answer says so, with what comes next.`

// pushes has a push be asked for, by what a client calls.
func (a verbs) pushes(cmd *cobra.Command, none string, ask func(c *operator.Client, ctx context.Context, name string, p operator.PushNow) ([]drift.PushOutcome, error)) *cobra.Command {
	var dryRun bool
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be pushed, and push nothing")
	reason := command.RequiresReason(cmd)
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		out, err := ask(c, ctx, args[0], operator.PushNow{DryRun: dryRun, Reason: *reason})
		if err != nil {
			return err
		}
		return a.Print(out, func() error {
			if len(out) == 0 {
				a.Printf(none+"\n", args[0])
				return nil
			}
			if dryRun {
				a.Printf("Nothing was pushed; without --dry-run:\n")
			}
			var rows [][]string
			for _, o := range out {
				what := o.Message
				if o.Next != "" {
					what += ". Next: " + o.Next
				}
				rows = append(rows, []string{o.Kind + " " + o.Name, o.Role, o.Node, what})
			}
			return a.Table([]string{"object", "leg", "node", "push"}, rows)
		})
	}))
}

func (a verbs) nodePush() *cobra.Command {
	cmd := &cobra.Command{
		Use: "push NODE", Short: "Push now what of a node is pending or failed", Long: longPush,
		Example: "  steady node push gw-1 --reason 'the port is free'\n  steady node push gw-1 --dry-run",
	}
	return a.nodeNames(a.pushes(cmd, "Nothing of node %s is pending or failed", (*operator.Client).PushNode))
}

func (a *objects) push() *cobra.Command {
	cmd := &cobra.Command{
		Use: "push NAME", Short: "Push now what of " + a.one() + " is pending or failed", Long: longPush,
		Example: a.examples("  steady KIND push a --reason 'the port is free'\n  steady KIND push a --dry-run"),
	}
	return a.names(a.pushes(cmd, "Nothing of "+a.noun()+" %s is pending or failed: each node has acknowledged it", func(c *operator.Client, ctx context.Context, name string, p operator.PushNow) ([]drift.PushOutcome, error) {
		if err := a.named(); err != nil {
			return nil, err
		}
		return c.PushObject(ctx, a.kind, name, p)
	}))
}

func (a *objects) restore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore NAME", Short: "Take " + a.one() + " out of the bin, to be pushed again",
		Long: `What a node never accepted, for five minutes in which it was online, is moved to the
bin, where it stays for seven days.`,
		Example: a.examples("  steady KIND restore a"),
	}
	reason := command.RequiresReason(cmd)
	return a.names(a.talks(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.RestoreObject(ctx, a.kind, args[0], *reason); err != nil {
			return err
		}
		a.Printf("%s %s is pushed again: steady %s show %s\n", a.kind, args[0], nodeconfig.Command(a.kind), args[0])
		return nil
	}))
}
