package cli

import (
	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/identity"
)

func (a *app) nodeToken() *cobra.Command {
	o := tokenOptions{of: "node", keygen: "steady node key --state DIR prints it beside the device"}
	cmd := &cobra.Command{
		Use:   "token NODE...",
		Short: "Sign single-use tokens, with each of which one node registers",
		Long: `Signs a token with the enrol key and prints it as one line. It is good for one
registration of this node name until it expires, and holds all that steady node run
needs: where the server is, and the authority of its certificate. Treat it as a secret
until it is used.

With --key, the token registers only the key of that digest, which steady node key
prints beside the device. With --out, which several
nodes need, each token goes into a file DIR/NODE.token that only its owner reads.

A token for a node that is registered already gives it a new key; one for a node that
was retired brings it back.`,
		Example: "  steady node token gw-1 > gw-1.token\n  steady node token gw-1 gw-2 --out tokens --ttl 15m",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(args, a.TableOutput()); err != nil {
				return err
			}
			return a.createTokens(args, o, a.signNodeToken)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.keyDigest, "key", "", "digest of the node's key, from steady node key beside the device: no other registers")
	a.NamesServer(cmd)
	return a.PrintsData(cmd)
}

func (a *app) signNodeToken(issuer *tokenIssuer, node string, o tokenOptions) (tokenView, error) {
	now := a.Wall()
	head, id, err := issuer.draw(now)
	if err != nil {
		return tokenView{}, err
	}
	t := identity.NodeToken{Document: head, ID: id, Node: node, Expires: now.Add(o.life), KeyDigest: o.key}
	env, err := identity.SignNodeToken(t, issuer.signer)
	if err != nil {
		return tokenView{}, err
	}
	text, err := issuer.text(env, func(text identity.TokenText) error { _, err := text.CheckNode(now); return err })
	return tokenView{Token: text, ID: id, Node: node, Expires: t.Expires, Key: o.key}, err
}
