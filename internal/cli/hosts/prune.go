package hosts

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
)

func (a verbs) pruneCmd() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "prune HOST", Short: "Remove from a host what carries its labels and nobody declares",
		Long: `Removes containers and networks that carry the labels of a host and that neither
its bundle nor its managed layer declares, such as what is left after a lost state
folder, and images that nothing refers to. Volumes are listed and kept with their
data. A host does this only if its signed declaration has "allow: [prune]".`,
		Example: "  steady host prune gpu-1 --dry-run\n  steady host prune gpu-1",
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would go")
	return a.HostNames(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		s, err := c.Prune(ctx, args[0], dry)
		if err != nil {
			return err
		}
		return command.Copy(ctx, s, a.Out, a.Err)
	}))
}
