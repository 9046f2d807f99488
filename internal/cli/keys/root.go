package keys

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/keyring"
)

func (a verbs) rootCmd() *cobra.Command {
	cmd := command.Group("", "root", "Sign a new root one holder after the other, and send it",
		"  steady keys root show\n  steady keys root sign 2.root.json --keys /media/usb/holder-1\n  steady keys root add-signature 2.root.json\n  steady keys root push",
		a.rootShow(), a.rootSign(), a.rootAdd(), a.rootPush())
	cmd.Long = `A root that needs more holders than one waits in KEYS/next, where steady keys
init, steady keys rotate and steady keys epoch put it. Copy that file to a holder,
who checks it (root show) and signs it (root sign) with a folder that never
leaves the holder; pass it on until enough have signed, and bring it back (root
add-signature). Copies that were signed apart may be brought one after the other.
Holders compare the digest that is shown.`
	return cmd
}

func keysFlag(cmd *cobra.Command, keys *string) {
	cmd.Flags().StringVar(keys, "keys", defaultDir, "folder with the keys and roots")
}

// withKeys makes a command that works on a folder of keys and prints data.
func (a verbs) withKeys(cmd *cobra.Command, do func(dir string, args []string) error) *cobra.Command {
	var dir string
	keysFlag(cmd, &dir)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return do(dir, args) }
	return a.PrintsData(cmd)
}

func (a verbs) rootShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [FILE]", Short: "Show what a root would change, and who has signed it",
		Long: `Compares a root that waits for signatures with the newest root of KEYS: by default
the one in KEYS/next. Without one it shows the newest root.`,
		Example: "  steady keys root show\n  steady keys root show 2.root.json --keys /media/usb/holder-1",
	}
	return a.withKeys(cmd, func(dir string, args []string) error {
		file := ""
		if len(args) == 1 {
			file = args[0]
		}
		p, v, err := keyring.Show(dir, file)
		if err != nil {
			return refused(err)
		}
		if p.Done {
			return a.showNewest(dir, v)
		}
		view := viewDraft(p)
		view.Changes = changes(v.RootDocument(), p.Draft.Root)
		return a.Print(view, func() error { return a.showDraft(view) })
	})
}

func (a verbs) rootSign() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Sign a root with the root keys of a folder",
		Long: `Adds to FILE the signatures of the root key or the shares in KEYS. The chain of
roots in KEYS says what FILE must follow; one that skips a version, lowers the
epoch or is of another fleet is refused. Look at it with root show first.

A share that has no root yet signs a fleet's first root, if that names its key:
compare the digest with the other holders.`,
		Example: "  steady keys root sign 2.root.json --keys /media/usb/holder-1\n  steady keys root sign 1.root.json --keys my-share",
	}
	return a.withKeys(cmd, func(dir string, args []string) error {
		p, err := keyring.SignFile(dir, args[0])
		if err != nil {
			return refused(err)
		}
		return a.printDraft(p, "")
	})
}

func (a verbs) rootAdd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "add-signature FILE", Short: "Take the signatures of a root that holders signed",
		Long: `Adds the signatures in FILE to the root that waits in KEYS/next. When enough have
signed, the root joins the chain in KEYS and the new keys take their place. In a
folder of a holder, where nothing waits, a complete FILE joins the chain.`,
		Example: "  steady keys root add-signature /media/usb/2.root.json",
	}
	return a.withKeys(cmd, func(dir string, args []string) error {
		p, err := keyring.AddSignatures(dir, args[0])
		if err != nil {
			return refused(err)
		}
		next := ""
		switch {
		case p.Done && p.Here && p.Draft.First():
			next = "steady release build && steady release sign; every holder takes the root too: steady keys root add-signature FILE"
		case p.Done && p.Here:
			next = nextStep(false, false)
		}
		return a.printDraft(p, next)
	})
}

func (a verbs) rootPush() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "push", Short: "Send the chain of roots to the server",
		Long: `Sends the roots of KEYS to the server, which takes those that follow the one it
trusts; hosts fetch them at their next contact. It needs an admin token. A release
brings the roots of its folder along as well: push them alone when there is no
time to sign a release, for what the old keys signed is refused from then on.`,
		Example: "  steady keys root push\n  steady keys root push --keys /media/usb/keys",
	}
	keysFlag(cmd, &dir)
	return a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		chain, err := keyring.Roots(dir)
		if err != nil {
			return exit.Bad(err)
		}
		r, err := c.PushRoots(ctx, chain)
		if err != nil {
			return err
		}
		return a.Print(r, func() error {
			if r.Accepted == 0 {
				a.Printf("The server trusts root version %d already\n", r.Version)
				return nil
			}
			a.Printf("The server trusts root version %d now, epoch %d\n", r.Version, r.Epoch)
			if !r.ReleaseValid {
				a.Printf("The newest release is not signed under it: hosts keep what they run and activate nothing.\nNext: %s\n", r.Next)
			}
			return nil
		})
	}))
}

// stored lists the files of a folder's private keys by key id.
func stored(dir string) map[string]string {
	here, err := keyring.Here(dir)
	if err != nil {
		return nil // shown as not here; a command that needs the key says why
	}
	for id, file := range here {
		if rel, err := filepath.Rel(dir, file); err == nil {
			here[id] = rel
		}
	}
	return here
}

func waits(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "next", "*.root.json"))
	if err != nil || len(files) == 0 {
		return ""
	}
	slices.Sort(files)
	if _, err := os.Stat(files[0]); err != nil {
		return ""
	}
	return files[0]
}
