package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

func releaseDir(args []string) string { return argOr(args, "release") }

// argOr is the one argument that may be left out.
func argOr(args []string, otherwise string) string {
	if len(args) == 1 {
		return args[0]
	}
	return otherwise
}

func (a *app) releaseSign() *cobra.Command {
	var keys string
	cmd := &cobra.Command{
		Use:   "sign [DIR]",
		Short: "Sign a release folder",
		Long: `Signs what is not signed yet in a release folder with the release and timestamp
keys, adds the chain of roots, and verifies the whole. It may be repeated.`,
		Example: "  steady release sign\n  steady release sign /tmp/release --keys /media/usb/keys",
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
			return a.printRelease(v, "Signed and verified. Next: steady release push%s\n", dirHint(dir))
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

type refreshOptions struct {
	previousOptions
	keys string
}

func (a *app) releaseRefresh() *cobra.Command {
	var o refreshOptions
	cmd := &cobra.Command{
		Use:   "refresh [DIR]",
		Short: "Sign a new timestamp for a release that is still the newest",
		Long: `Signs a new timestamp over the same snapshot, one version up. Do it every
signingInterval: hosts activate nothing once the timestamp is older than the
channel's freshnessWindow, and keep what they run.

The release is the one in DIR. With --previous server it is the newest that the
server has, verified and then written into DIR: a job needs the timestamp key and
the roots, and no folder that it shares with whoever builds. What DIR holds from
the last time is the oldest that is accepted. DIR changes at once, or not at all.`,
		Example: "  steady release refresh && steady release push\n  steady release refresh --previous server && steady release push",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.chosen(cmd); err != nil {
				return err
			}
			v, err := a.refresh(cmd.Context(), releaseDir(args), o)
			if err != nil {
				return err
			}
			return a.printRelease(v, "Next: steady release push%s\n", dirHint(releaseDir(args)))
		},
	}
	keysFlag(cmd, &o.keys)
	o.previousOptions.flags(a, cmd, "", "release that gets the timestamp: a folder, a URL, or server (default: DIR itself)")
	return a.PrintsData(cmd)
}

func (a *app) refresh(ctx context.Context, dir string, o refreshOptions) (*release.Verified, error) {
	signer, roots, err := stamping(o.keys)
	if err != nil {
		return nil, err
	}
	state, err := release.Trust(roots[0])
	if err != nil {
		return nil, err
	}
	from, drop := dir, func() {}
	switch o.where {
	case "":
	case fromServer:
		trusted, err := keyring.Newest(o.keys)
		if err != nil {
			return nil, exit.With(exit.Refused, err)
		}
		_, from, drop, err = a.newestOf(ctx, trusted, o.previousOptions, dir)
		if err != nil {
			return nil, err
		}
	default:
		if from, drop, err = a.fetched(ctx, o.where); err != nil {
			return nil, err
		}
	}
	defer drop()
	v, err := release.Refresh(dir, release.RefreshOptions{From: from, State: state, Roots: roots, Now: a.Wall(), Signers: []trust.Signer{signer}})
	if err != nil {
		return nil, exit.With(exit.Refused, fmt.Errorf("no timestamp is signed, and %s is as it was: %w", dir, err))
	}
	return v, nil
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
			return a.printRelease(v, "Verified: every file is signed or named by what is signed.\n")
		},
	}
	cmd.Flags().StringVar(&root, "root", filepath.Join("keys", keyring.RootFile(1)), "root of trust")
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
