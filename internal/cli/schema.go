package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// schemas are the documents that people write.
var schemas = []string{"fleet", "bundle"}

func (a *app) schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "schema fleet|bundle",
		GroupID: command.GroupDeclare,
		Short:   "Print the JSON Schema of fleet.yaml or bundle.yaml",
		Long: `Prints the JSON Schema by which release build reads a declaration, for editors and
other programs. An editor with a YAML language server takes it with a first line
  # yaml-language-server: $schema=fleet.schema.json`,
		Example:   "  steady schema fleet > fleet.schema.json\n  steady schema bundle",
		ValidArgs: schemas,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(schemas, args[0]) {
				return exit.Badf("there is no schema %q: expected %s%s", args[0], prose.Either(schemas), prose.DidYouMean(args[0], schemas))
			}
			_, err := a.Out.Write(fleetdir.SchemaJSON(args[0]))
			return err
		},
	}
}
