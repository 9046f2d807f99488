package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/keydir"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// releaseDir is the folder that a release command works on.
func releaseDir(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "release"
}

func (a *app) releaseSign() *cobra.Command {
	var keys string
	cmd := &cobra.Command{
		Use:   "sign [DIR]",
		Short: "Sign a release folder",
		Long: `Signs what is not signed yet in a release folder with the release and timestamp
keys, adds the chain of roots, and verifies the whole. It may be repeated.`,
		Example: "  steady release sign\n  steady release sign /tmp/release --keys /media/usb/keys",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := releaseDir(args)
			signing, err := a.signing(keys)
			if err != nil {
				return err
			}
			v, err := release.Sign(dir, signing)
			if err != nil {
				return err
			}
			view := viewRelease(v, a.Wall())
			return a.Print(view, func() error {
				if err := a.showRelease(view); err != nil {
					return err
				}
				a.Say("Signed and verified. Next: steady release push%s\n", dirHint(dir))
				return nil
			})
		},
	}
	keysFlag(cmd, &keys)
	return a.PrintsData(cmd)
}

func keysFlag(cmd *cobra.Command, keys *string) {
	cmd.Flags().StringVar(keys, "keys", "keys", "folder with the keys and roots")
}

func dirHint(dir string) string {
	if dir == "release" {
		return ""
	}
	return " " + dir
}

func (a *app) releaseRefresh() *cobra.Command {
	var keys string
	cmd := &cobra.Command{
		Use:   "refresh [DIR]",
		Short: "Sign a new timestamp for a release that is still the newest",
		Long: `Signs a new timestamp over the same snapshot, one version up. Do it every
signingInterval: hosts activate nothing once the timestamp is older than the
channel's freshnessWindow, and keep what they run.`,
		Example: "  steady release refresh && steady release push",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			signer, err := keydir.Signer(keys, trust.RoleTimestamp)
			if err != nil {
				return exit.Bad(err)
			}
			roots, err := keydir.Roots(keys)
			if err != nil {
				return exit.Bad(err)
			}
			state, err := release.Trust(roots[0])
			if err != nil {
				return err
			}
			v, err := release.Refresh(releaseDir(args), state, a.Wall(), signer)
			if err != nil {
				return err
			}
			view := viewRelease(v, a.Wall())
			return a.Print(view, func() error { return a.showRelease(view) })
		},
	}
	keysFlag(cmd, &keys)
	return a.PrintsData(cmd)
}

func (a *app) releaseVerify() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Verify every byte of a signed release up to the root of trust",
		Long: `Checks a signed release the way servers and hosts do: the chain of roots, the
timestamp, the snapshot, every manifest, leaf, bundle and blob. It ends with code
3 and names the check that refused.`,
		Example: "  steady release verify\n  steady release verify /tmp/release --root keys/1.root.json -o json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			state, err := trustRoot(root)
			if err != nil {
				return err
			}
			dir := releaseDir(args)
			v, err := release.VerifyDir(dir, state, a.Wall())
			if err != nil {
				return refusedRelease(dir, err)
			}
			view := viewRelease(v, a.Wall())
			return a.Print(view, func() error {
				if err := a.showRelease(view); err != nil {
					return err
				}
				a.Say("Verified: every file is signed or named by what is signed.\n")
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&root, "root", filepath.Join("keys", keydir.RootFile(1)), "root of trust")
	return a.PrintsData(cmd)
}

// refusedRelease makes what does not verify a refusal: a file of a release that
// is missing or damaged is no better than one with a bad signature.
func refusedRelease(dir string, err error) error {
	if !isSigned(dir) {
		return exit.Bad(err)
	}
	return exit.With(exit.Refused, fmt.Errorf("%s does not verify: %w", dir, err))
}
