package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// ignored keeps private keys and built releases out of the fleet's repository.
const ignored = "# Private keys never belong into a repository; releases are built from it.\nkeys/*.key\nkeys/shares/\nkeys/next/\nkeys/retired/\nrelease/\nrelease.previous/\n"

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "init DIR",
		GroupID: command.GroupDeclare,
		Short:   "Write a small sample fleet to start from",
		Long: `Writes a sample fleet into DIR, which must be new or empty: fleet.yaml with six
hosts, two bundles, waves, a budget and probes, all with comments.`,
		Example: "  steady init fleet\n  cd fleet && steady keys init && steady release build",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			written, err := fleetdir.Sample(dir)
			if err != nil {
				return exit.Bad(err)
			}
			ignore := filepath.Join(dir, ".gitignore")
			if err := os.WriteFile(ignore, []byte(ignored), 0o644); err != nil {
				return err
			}
			a.Printf("Wrote a sample fleet:\n  %s\n", strings.Join(append(written, ignore), "\n  "))
			a.Printf("Next: cd %s && steady keys init && steady release build\n", dir)
			return nil
		},
	}
}
