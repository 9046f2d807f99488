// Package keys holds the commands on a fleet's signing keys and its chain of
// root documents.
package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

// defaultDir is the folder of keys that commands take where none is given.
const defaultDir = "keys"

// keyUses is what each role's key is for.
var keyUses = map[trust.Role]string{
	trust.RoleRoot:      "says which keys count and replaces them; keep it offline",
	trust.RoleRelease:   "signs releases; lives where releases are built",
	trust.RoleTimestamp: "signs how fresh the newest release is, every signingInterval (steady release refresh)",
	trust.RoleEnrol:     "signs enrolment tokens (steady token create)",
	trust.RoleOverride:  "signs an operator's emergency orders",
}

type verbs struct{ *command.Env }

// Command returns the command and all below it.
func Command(e *command.Env) *cobra.Command {
	a := verbs{e}
	return command.Group(command.GroupDeclare, "keys", "Make and replace the keys of a fleet",
		"  steady keys init\n  steady keys show\n  steady keys rotate --role release\n  steady keys epoch --role release --reason 'laptop stolen'",
		a.initCmd(), a.shareCmd(), a.showCmd(), a.rotateCmd(), a.epochCmd(), a.rootCmd())
}

func (a verbs) initCmd() *cobra.Command {
	var dir, fleetDir, name, life string
	var h keyring.Holders
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a key for every role and the first root document",
		Long: `Makes one Ed25519 key per role, each in a file that only its owner may read, and
1.root.json, the root of trust that servers and hosts begin with. It refuses a
folder that holds anything: keys are never overwritten. The folder's .gitignore keeps
all but the roots out of git, and that of the fleet folder what servers, hosts and
tokens hold; a folder of which git tracks keys already is refused.

With --shares the root role has several holders: each share is in a folder of its
own below DIR/shares, to be carried to its holder, and --threshold of them must
sign every later root.

A holder who makes the share on a machine of their own (steady keys share) brings
its public key alone: --share-key FILE. When the shares made here are too few to
sign it, the first root waits in DIR/next for its holders, see steady keys root.

The fleet's name is that of fleet.yaml unless --fleet gives it.`,
		Example: "  steady keys init\n  steady keys init --dir keys --fleet acme --life 17520h\n  steady keys init --threshold 2 --shares 3\n  steady keys init --override-keys 2\n  steady keys init --threshold 2 --share-key alice.pub --share-key bob.pub --share-key carol.pub",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := lifeOf(life)
			if err != nil {
				return err
			}
			if name == "" {
				if name, err = a.fleetName(fleetDir); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("shares") && h.Shares < 1 {
				return exit.Badf("--shares %d: expected at least 1", h.Shares)
			}
			if err := untracked(dir); err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(fleetDir, fleetdir.FleetFile)); err == nil {
				if _, err := command.KeepOut(fleetDir); err != nil {
					return err
				}
			}
			made, err := keyring.InitShared(dir, name, d, a.Wall(), h)
			if err != nil {
				return exit.Bad(err)
			}
			return a.Print(made, func() error { return a.showKeys(made) })
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDir, "folder for the keys, new or empty")
	cmd.Flags().StringVar(&fleetDir, "fleet-dir", ".", "fleet folder that the name is read from")
	cmd.Flags().StringVar(&name, "fleet", "", "name of the fleet")
	cmd.Flags().StringVar(&life, "life", keyring.RootLife.String(), "how long the root document is good")
	cmd.Flags().IntVar(&h.Threshold, "threshold", 0, "how many shares of the root role must sign (default: more than half)")
	cmd.Flags().IntVar(&h.Shares, "shares", 0, "how many hold a share of the root role (default: 1, or one for each --share-key)")
	shareKeyFlag(cmd, &h)
	cmd.Flags().IntVar(&h.Overrides, "override-keys", 1, "how many operators have an override key")
	return a.PrintsData(cmd)
}

// untracked refuses a folder for keys of which git has some already: it would take the new
// ones as a change of those.
func untracked(dir string) error {
	names, err := disk.TrackedBelow(filepath.Dir(filepath.Clean(dir)), filepath.Base(dir))
	if err != nil {
		return nil // without git nothing is tracked
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !keyring.Private(n) })
	if len(names) == 0 {
		return nil
	}
	return exit.Badf("git tracks %s, and would take new keys into the repository: git rm -r --cached %s and commit that, or give another folder with --dir; keys that were committed once are no secret any more", prose.Names(names, 3), dir)
}

func (a verbs) fleetName(dir string) (string, error) {
	src, problems := fleetdir.Load(dir)
	if src == nil || src.Declaration.Metadata.Name == "" {
		for _, p := range problems {
			fmt.Fprintln(a.Err, p)
		}
		return "", exit.Bad(errors.New("the fleet has no readable name; correct fleet.yaml, or give --fleet NAME"))
	}
	return src.Declaration.Metadata.Name, nil
}

func (a verbs) showKeys(made keyring.Made) error {
	a.Printf("Made the keys of fleet %s in %s:\n", made.Fleet, made.Dir)
	var rows [][]string
	for _, role := range trust.Roles() {
		file := keyring.KeyFile(role)
		if holders := len(made.Shares) + len(made.Brought); role == trust.RoleRoot && holders > 0 {
			file = fmt.Sprintf("%d shares", holders)
		}
		if role == trust.RoleOverride && len(made.Operators) > 0 {
			file = fmt.Sprintf("%d operators", len(made.Operators))
		}
		rows = append(rows, []string{file, made.Keys[role][:12], keyUses[role]})
	}
	if err := a.Table([]string{"file", "key", "use"}, rows); err != nil {
		return err
	}
	if made.First.Done {
		a.Printf("Root of trust: %s, good until %s\n", made.Root, made.Expires)
	}
	for _, share := range made.Shares {
		a.Printf("Share of the root role: %s\n", share)
	}
	for _, key := range made.Brought {
		a.Printf("Share of the root role that its holder keeps: key %s\n", key[:12])
	}
	if holders := len(made.Shares) + len(made.Brought); holders > 0 {
		a.Printf("%d of %d holders must sign a new root", made.Threshold, holders)
		if len(made.Shares) > 0 {
			a.Printf(": carry each folder to its holder, then remove it here")
		}
		a.Printf("\n")
	}
	for _, folder := range made.Operators {
		a.Printf("Override key of an operator: %s\n", folder)
	}
	if !made.First.Done {
		return a.showDraft(viewDraft(made.First))
	}
	build, sign := "", ""
	if dir := filepath.Dir(made.Root); dir != defaultDir {
		build, sign = " --root "+made.Root, " --keys "+dir
	}
	a.Printf("Next: steady release build%s && steady release sign%s\n", build, sign)
	return nil
}

func lifeOf(life string) (clock.Duration, error) {
	d, err := clock.ParseDuration(life)
	if err != nil {
		return 0, exit.Badf("--life: %w", err)
	}
	if d < clock.Hour {
		return 0, exit.Badf("--life: %s is too short: expected at least 1h", life)
	}
	return d, nil
}

func shareKeyFlag(cmd *cobra.Command, h *keyring.Holders) {
	cmd.Flags().StringArrayVar(&h.ShareKeys, "share-key", nil, "public key of a share that its holder keeps (steady keys share); may be repeated")
}

func (a verbs) shareCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "share", Short: "Make a share of the root role on its holder's machine",
		Long: `Makes the private key of a share of the root role in DIR, which never leaves it, and
DIR/root.pub, the public key. Hand the public key over for steady keys init or
steady keys rotate --role root (--share-key) and say its key id over another channel, so
that nobody puts another key in its place.

When a root is to be signed, look at it (steady keys root show FILE --keys DIR),
sign it (steady keys root sign FILE --keys DIR) and hand FILE back. Bring every
complete root to DIR too: steady keys root add-signature FILE --keys DIR.

Asked again, it keeps the share that DIR has.`,
		Example: "  steady keys share --dir my-share",
		RunE: func(*cobra.Command, []string) error {
			share, err := keyring.MakeShare(dir)
			if err != nil {
				return refused(err)
			}
			return a.Print(share, func() error {
				a.Printf("Share of the root role in %s: key %s\n", share.Dir, share.Key[:12])
				a.Printf("Next: hand over %s, for --share-key of steady keys init or keys rotate; keep the rest\n", share.Public)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "share", "folder for the share, new or empty")
	return a.PrintsData(cmd)
}
