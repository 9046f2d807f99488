package keys

import (
	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/keyring"
)

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
