package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

type change struct {
	dir, life, reason string
	roles, shares     []string
	holders           keyring.Holders
}

func (c *change) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.dir, "keys", defaultDir, "folder with the keys and roots")
	f.StringVar(&c.life, "life", keyring.RootLife.String(), "how long the new root is good")
	f.StringSliceVar(&c.roles, "role", nil, "role that gets a new key; may be repeated: release, timestamp, enrol, override, root")
	f.StringSliceVar(&c.shares, "share", nil, "folder of a holder of the root role that signs at once; may be repeated")
	f.IntVar(&c.holders.Threshold, "threshold", 0, "with --role root: how many of the new shares must sign (default: as before, or more than half of another number)")
	f.IntVar(&c.holders.Shares, "shares", 0, "with --role root: how many new shares (default: as many as there were)")
	shareKeyFlag(cmd, &c.holders)
	f.IntVar(&c.holders.Overrides, "override-keys", 0, "with --role override: how many operators get a key (default: as many as there were)")
	command.Complete(cmd, "role", "release", "timestamp", "enrol", "override", "root")
}

func (a verbs) rotateCmd() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use: "rotate", Short: "Replace the keys of roles in a new root, or renew the root",
		Long: `Makes a new key for each --role and the successor of the newest root, N+1.root.json,
which names it. It is signed by the root keys at hand: KEYS/root.key, the shares
below KEYS/shares and those that --share names. New shares are made here, but for
those whose holders bring a public key (--share-key); to replace one holder, give
the public keys of the others again. When that is enough the new keys
take their place and the old ones go to KEYS/retired; otherwise the root waits in
KEYS/next for its holders, see steady keys root.

What an old key signs is refused by every server and host that has the new root.
Sign the newest release again and push it: it brings the root along. Without
--role the keys stay and the root is good for longer.

Use steady keys epoch instead when a key may be in other hands.`,
		Example: "  steady keys rotate --role release\n  steady keys rotate --role root --shares 3 --threshold 2\n  steady keys rotate --role override --override-keys 2\n  steady keys rotate --role timestamp --share /media/usb/holder-1",
		RunE:    func(*cobra.Command, []string) error { return a.rotate(c, false) },
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&c.reason, "reason", "", "why, for the holders who sign; it is part of the root")
	return a.PrintsData(cmd)
}

func (a verbs) epochCmd() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use: "epoch", Short: "End the key epoch after a theft",
		Long: `Does what steady keys rotate does, and raises the key epoch: everything that was
signed before ends, whatever version it has, and versions begin at 1 again. Name
every role whose key may be in other hands.

Build, sign and push the release again afterwards: hosts keep what they run and
activate nothing until it is there.`,
		Example: "  steady keys epoch --role release --reason 'CI runner was taken over'\n  steady keys epoch --role release --role timestamp --reason 'backup lost'",
		RunE: func(*cobra.Command, []string) error {
			if len(c.roles) == 0 || strings.TrimSpace(c.reason) == "" {
				return exit.Badf("ending an epoch needs --role for each key that may be in other hands, and --reason")
			}
			return a.rotate(c, true)
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&c.reason, "reason", "", "why, for the holders who sign; it is part of the root (required)")
	return a.PrintsData(cmd)
}

func (a verbs) rotate(c change, endEpoch bool) error {
	life, err := lifeOf(c.life)
	if err != nil {
		return err
	}
	what := keyring.Change{EndEpoch: endEpoch, Reason: strings.TrimSpace(c.reason), Holders: c.holders, Life: life, Shares: c.shares}
	for _, name := range c.roles {
		role := trust.Role(name)
		if !slices.Contains(trust.Roles(), role) {
			return exit.Badf("--role %q: expected one of %v", name, trust.Roles())
		}
		if !slices.Contains(what.Roles, role) {
			what.Roles = append(what.Roles, role)
		}
	}
	if c.holders.Overrides != 0 && !slices.Contains(what.Roles, trust.RoleOverride) {
		return exit.Badf("--override-keys changes the override role: give --role override as well")
	}
	if (c.holders.Shares != 0 || c.holders.Threshold != 0 || len(c.holders.ShareKeys) > 0) && !slices.Contains(what.Roles, trust.RoleRoot) {
		return exit.Badf("--shares, --threshold and --share-key change the root role: give --role root as well")
	}
	p, err := keyring.Rotate(c.dir, what, a.Wall())
	if err != nil {
		return refused(err)
	}
	next := ""
	if p.Done {
		next = nextStep(endEpoch, len(what.Roles) > 0)
	}
	return a.printDraft(p, next)
}

// nextStep brings a complete root to the server and the hosts.
func nextStep(endEpoch, newKeys bool) string {
	switch {
	case endEpoch:
		return "steady keys root push, then steady release build && steady release sign && steady release push"
	case newKeys:
		return "steady release sign && steady release push, which bring the root to the server and the hosts"
	}
	return "steady keys root push"
}

// refused gives what trust refuses its exit code; all else is bad input.
func refused(err error) error {
	var t *trust.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &t):
		return exit.With(exit.Refused, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; run as the owner of the keys", err)
	}
	return exit.Bad(err)
}
