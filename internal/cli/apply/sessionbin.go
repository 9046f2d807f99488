package apply

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/prose"
)

func (a sessions) bin() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bin", Short: "List the volumes that hosts keep of sessions that are over",
		Long: `Lists the volumes that were declared with keep, of sessions that are over, and until when each
stays. Its host removes it then, connected or not. Hosts that are away are not listed.`,
		Example: "  steady session bin\n  steady session bin -o json",
	}
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) (operator.Bin, error) {
		return c.Bin(ctx)
	}, func(b operator.Bin) error {
		var rows [][]string
		for _, v := range b.Volumes {
			rows = append(rows, []string{v.Host, v.ID, v.Pod, local(v.Since), local(v.Until)})
		}
		err := a.Table([]string{"host", "volume", "pod", "since", "until"}, rows)
		if b.More > 0 {
			a.Printf("and %s more, which go later\n", prose.Count(b.More, "volume"))
		}
		return err
	})
}

func (a sessions) discard() *cobra.Command {
	cmd := &cobra.Command{
		Use: "discard HOST VOLUME", Short: "Remove a kept volume now, with its data", Args: cobra.ExactArgs(2),
		Example: "  steady session discard web-1 lab-shop-web-data-mi7x2k1q",
	}
	return a.CompletesWith(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if err := c.DiscardVolume(ctx, args[0], args[1]); err != nil {
			return err
		}
		a.Printf("Volume %s of host %s is gone\n", args[1], args[0])
		return nil
	}), func(ctx context.Context, c *operator.Client, args []string, _ string) (names []string, err error) {
		b, err := c.Bin(ctx)
		for _, v := range b.Volumes {
			switch {
			case len(args) == 0:
				names = append(names, v.Host)
			case len(args) == 1 && v.Host == args[0]:
				names = append(names, v.ID+"\t"+v.Pod)
			}
		}
		return names, err
	})
}
