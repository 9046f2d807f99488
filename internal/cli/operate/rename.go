package operate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// renamed is what steady host rename changed.
type renamed struct {
	From  string `json:"from"`
	To    string `json:"to"`
	File  string `json:"file"`
	Lines []int  `json:"lines"`
}

func (a verbs) hostRename() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "rename OLD NEW", Short: "Give a host another name in the fleet file",
		Long: `Writes another name for a host wherever fleet.yaml names it, in edges and selectors
too, and what it was called (renamedFrom). Comments and all else stay. It asks no
server: the rename comes about by a release, and by enrolling the machine under its new
name in the same state folder, where what it runs goes on with its data.`,
		Example: "  steady host rename edge-2 box-2\n  steady host rename edge-2 box-2 --fleet fleet -o json",
	}
	cmd.Flags().StringVar(&dir, "fleet", ".", "folder with fleet.yaml")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file := filepath.Join(dir, fleetdir.FleetFile)
		data, err := os.ReadFile(file)
		if err != nil {
			return exit.Bad(err)
		}
		out, lines, err := fleetdir.RenameHost(file, data, args[0], args[1])
		if err != nil {
			return exit.Bad(err)
		}
		if err := disk.Replace(file, out, 0o644); err != nil {
			return err
		}
		r := renamed{From: args[0], To: args[1], File: file, Lines: lines}
		return a.Print(r, func() error {
			a.Printf("Host %s is %s in %s, %s %s\n", r.From, r.To, r.File, prose.Verb(len(r.Lines), "line", "lines"), strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Lines), " ", ", "), "[]"))
			a.Printf("Next: build, sign and push; steady token create %s > %s.token; then on the machine: steady agent --token %s.token, with its other flags\n",
				r.To, r.To, r.To)
			return nil
		})
	}
	return a.PrintsData(cmd)
}
