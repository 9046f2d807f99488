package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/keydir"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// keyUses says what each role's key is for.
var keyUses = map[trust.Role]string{
	trust.RoleRoot:      "replaces keys; keep it offline",
	trust.RoleRelease:   "signs releases; lives where releases are built",
	trust.RoleTimestamp: "signs freshness, again and again (steady release refresh)",
	trust.RoleEnrol:     "signs enrolment tokens (steady token create)",
	trust.RoleOverride:  "signs an operator's emergency orders",
}

func (a *app) keysCmd() *cobra.Command {
	return command.Group(command.GroupDeclare, "keys", "Make the keys of a fleet", "  steady keys init\n  steady keys init --dir /media/usb/keys --fleet acme", a.keysInit())
}

func (a *app) keysInit() *cobra.Command {
	var dir, fleetDir, name, life string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a key for every role and the first root document",
		Long: `Makes one Ed25519 key per role, each in a file that only its owner may read, and
1.root.json, the root of trust that servers and hosts begin with. It refuses a
folder that holds anything: keys are never overwritten.

The fleet's name is taken from fleet.yaml unless --fleet gives it.`,
		Example: "  steady keys init\n  steady keys init --dir keys --fleet acme --life 17520h",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			d, err := clock.ParseDuration(life)
			if err != nil {
				return exit.Badf("--life: %w", err)
			}
			if d < clock.Hour {
				return exit.Badf("--life: %s is too short: expected at least 1h", life)
			}
			if name == "" {
				if name, err = a.fleetName(fleetDir); err != nil {
					return err
				}
			}
			made, err := keydir.Init(dir, name, d, a.Wall())
			if err != nil {
				return exit.Bad(err)
			}
			return a.Print(made, func() error { return a.showKeys(made) })
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "keys", "folder for the keys, new or empty")
	cmd.Flags().StringVar(&fleetDir, "fleet-dir", ".", "fleet folder that the name is read from")
	cmd.Flags().StringVar(&name, "fleet", "", "name of the fleet")
	cmd.Flags().StringVar(&life, "life", keydir.RootLife.String(), "how long the root document is good")
	return a.PrintsData(cmd)
}

func (a *app) fleetName(dir string) (string, error) {
	src, problems := release.Load(dir)
	if src == nil || src.Declaration.Metadata.Name == "" {
		for _, p := range problems {
			fmt.Fprintln(a.Err, p)
		}
		return "", exit.Bad(errors.New("the fleet has no readable name; correct fleet.yaml, or give --fleet NAME"))
	}
	return src.Declaration.Metadata.Name, nil
}

func (a *app) showKeys(made keydir.Made) error {
	a.Say("Made the keys of fleet %s in %s:\n", made.Fleet, made.Dir)
	var rows [][]string
	for _, role := range trust.Roles() {
		rows = append(rows, []string{keydir.KeyFile(role), made.Keys[role][:12], keyUses[role]})
	}
	if err := term.Rows(a.Out, []string{"file", "key", "use"}, rows); err != nil {
		return err
	}
	a.Say("Root of trust: %s, good until %s\n", made.Root, made.Expires)
	a.Say("Next: steady release build && steady release sign\n")
	return nil
}
