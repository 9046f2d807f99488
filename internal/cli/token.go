package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// tokenOptions are those of tokens of hosts and of nodes.
type tokenOptions struct {
	of, keygen                string // host or node; what prints its key
	keys, ttl, keyDigest, out string

	// of hosts alone
	release    string
	undeclared bool
	renamed    map[string]string // what hosts were called, by name; of the newest release

	life clock.Duration // ttl, checked
	key  digest.Digest  // keyDigest, checked
}

func (o *tokenOptions) flags(cmd *cobra.Command) {
	keysFlag(cmd, &o.keys)
	cmd.Flags().StringVar(&o.ttl, "ttl", identity.TokenLife.String(), "how long the token is good, at most "+identity.MaxTokenLife.String())
	cmd.Flags().StringVar(&o.out, "out", "", "folder for a file "+strings.ToUpper(o.of)+".token of each "+o.of+"; it is created")
}

type tokenView struct {
	Token   string        `json:"token"`
	ID      string        `json:"id"`
	Host    string        `json:"host,omitempty"`
	Node    string        `json:"node,omitempty"`
	Fleet   string        `json:"fleet"`
	Server  string        `json:"server"`
	Expires clock.Instant `json:"expires"`
	// EventKey is the only event key that the token enrols; empty takes any.
	EventKey digest.Digest `json:"eventKey,omitempty"`
	// Key is the only key of a node that the token registers; empty takes any.
	Key digest.Digest `json:"key,omitempty"`
	// RenamedFrom is what the host was called, whose state folder takes the token.
	RenamedFrom string `json:"renamedFrom,omitempty"`
}

func (a *app) tokenCreate() *cobra.Command {
	o := tokenOptions{of: "host", keygen: "steady agent keygen --state DIR prints it on the host"}
	cmd := &cobra.Command{
		Use:   "create HOST...",
		Short: "Sign single-use tokens, with each of which one host enrols",
		Long: `Signs a token with the enrol key and prints it as one line. It is good for one
enrolment of this host name until it expires, and holds all that the host needs:
where the server is, the authority of its certificate, and the root of trust.
Treat it as a secret until it is used.

With --key, the token enrols only the host's event key of that digest, which
steady agent keygen prints on the host. Without it, whoever enrols first with the
token chooses the key, and a taken server can.

With --out, which several hosts need, each token goes into a file DIR/HOST.token
that only its owner reads.

The token is made here and not sent to the server, whose address and authority come
from the context, or from --server and --ca. Where the context has an operator's
token and the server answers, it is asked whether its newest release declares the
host, for no other can enrol; --undeclared makes the token all the same. The token of
a host that this release renames enrols the state folder of its earlier name.`,
		Example: "  steady token create web-1 > web-1.token\n  steady token create web-1 web-2 web-3 --out tokens\n  steady token create web-1 --ttl 15m --server https://steady.example:8443 --ca server-ca.pem\n" +
			"  steady token create web-1 --key DIGEST",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args, a.TableOutput()); err != nil {
				return err
			}
			if !o.undeclared {
				var err error
				if o.renamed, err = a.checkDeclared(cmd.Context(), args); err != nil {
					return err
				}
			}
			return a.createTokens(args, o, a.hostToken)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.release, "not-before", "", "release folder: the host then refuses anything older")
	cmd.Flags().StringVar(&o.keyDigest, "key", "", "digest of the host's event key, from steady agent keygen on the host: no other enrols")
	cmd.Flags().BoolVar(&o.undeclared, "undeclared", false, "also for a host that the newest release does not declare")
	a.NamesServer(cmd)
	return a.PrintsData(cmd)
}

// check refuses what no server needs to be asked about.
func (o *tokenOptions) check(names []string, table bool) error {
	if len(names) > 1 && o.keyDigest != "" {
		return exit.Badf("--key names the key of one %s, and %s are given", o.of, prose.Count(len(names), o.of))
	}
	if len(names) > 1 && o.out == "" && table {
		return exit.Badf("several tokens need a folder for their files: give --out DIR")
	}
	for _, name := range names {
		if err := fleet.CheckName(name); err != nil {
			return exit.Badf("%s: %w", o.of, err)
		}
	}
	var err error
	if o.life, err = clock.ParseDuration(o.ttl); err != nil || o.life <= 0 || o.life > identity.MaxTokenLife {
		return exit.Badf("--ttl %s: expected a duration from 1s to %s", o.ttl, identity.MaxTokenLife)
	}
	if o.keyDigest != "" {
		if o.key, err = digest.Parse(o.keyDigest); err != nil {
			return exit.Badf("--key: %w; %s", err, o.keygen)
		}
	}
	return nil
}

// createTokens makes a token for each name, and prints or writes them.
func (a *app) createTokens(names []string, o tokenOptions, sign func(*tokenIssuer, string, tokenOptions) (tokenView, error)) error {
	issuer, err := a.tokenIssuer(o.keys)
	if err != nil {
		return err
	}
	var views []tokenView
	for _, name := range names {
		view, err := sign(issuer, name, o)
		if err != nil {
			return err
		}
		view.Fleet, view.Server = issuer.root.Fleet, issuer.server
		views = append(views, view)
	}
	if o.out != "" {
		return a.writeTokens(views, o)
	}
	if len(views) > 1 {
		return a.Print(views, nil)
	}
	return a.Print(views[0], func() error { a.Printf("%s\n", views[0].Token); return nil })
}

func (a *app) writeTokens(views []tokenView, o tokenOptions) error {
	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return exit.Badf("--out: %w", err)
	}
	if err := disk.Unversioned(o.out, "/*.token"); err != nil {
		return exit.Badf("--out: %w", err)
	}
	for _, v := range views {
		name, verb := cmp.Or(v.Host, v.Node), "enrols"
		if v.Node != "" {
			verb = "registers"
		}
		path := filepath.Join(o.out, name+".token")
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, []byte(v.Token+"\n"), 0o600); err != nil {
			return err
		}
		if a.TableOutput() {
			a.Printf("%s: %s %s once, until %s\n", path, verb, name, prose.Date(v.Expires))
		}
	}
	return a.Print(views, func() error {
		next := "on each host: steady agent install HOST.token"
		if o.of == "node" {
			next = "beside each device: steady node run --driver NAME --token NODE.token"
		}
		a.Printf("Next, %s\n", next)
		return nil
	})
}

// tokenIssuer is what tokens are signed with, and what comes with them.
type tokenIssuer struct {
	keys       string // folder
	server, ca string
	signer     trust.Signer
	roots      [][]byte // envelopes
	root       trust.Root
	payload    []byte // of root
}

func (a *app) tokenIssuer(keys string) (*tokenIssuer, error) {
	where, err := a.Context()
	if err != nil {
		return nil, err
	}
	t := &tokenIssuer{keys: keys, server: cmp.Or(where.Agents, where.Server), ca: where.CA}
	if u, err := url.Parse(t.server); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, exit.Badf("--server %q: expected https://HOST:PORT", t.server)
	}
	if t.ca == "" {
		return nil, exit.Bad(errors.New("who takes the token must know the authority of the server's certificate; give --ca FILE, or --context with the server's operator.json"))
	}
	if t.signer, err = keyring.Signer(keys, trust.RoleEnrol); err != nil {
		return nil, exit.Bad(err)
	}
	if t.roots, err = keyring.Roots(keys); err != nil {
		return nil, exit.Bad(err)
	}
	newest, err := trust.ParseEnvelope(t.roots[len(t.roots)-1])
	if err != nil {
		return nil, err
	}
	t.payload = newest.Payload
	return t, trust.Decode(newest.Payload, trust.MaxEnvelope, &t.root)
}

// text is the token as one line, unless check refuses it.
func (t *tokenIssuer) text(env []byte, check func(identity.TokenText) error) (string, error) {
	text := identity.TokenText{Envelope: env, Server: t.server, ServerCA: []byte(t.ca), Root: t.roots[len(t.roots)-1]}
	if err := check(text); err != nil {
		return "", fmt.Errorf("the token would be refused: %w; the keys in %s do not belong to its root", err, t.keys)
	}
	return text.String(), nil
}

// draw returns what is in every token: its head and a random ID.
func (t *tokenIssuer) draw(now clock.Instant) (fleet.Document, string, error) {
	id := make([]byte, 16)
	_, err := rand.Read(id)
	return fleet.Document{Fleet: t.root.Fleet, Epoch: t.root.Epoch, IssuedAt: now}, hex.EncodeToString(id), err
}

func (a *app) hostToken(issuer *tokenIssuer, host string, o tokenOptions) (tokenView, error) {
	t, err := a.unsignedToken(issuer, host, o.life, o.release)
	if err != nil {
		return tokenView{}, err
	}
	t.EventKeyDigest, t.RenamedFrom = o.key, o.renamed[host]
	env, err := identity.SignToken(t, issuer.signer)
	if err != nil {
		return tokenView{}, err
	}
	text, err := issuer.text(env, func(text identity.TokenText) error { _, _, err := text.Begin(a.Wall()); return err })
	return tokenView{Token: text, ID: t.ID, Host: host, Expires: t.Expires, EventKey: o.key, RenamedFrom: t.RenamedFrom}, err
}

// unsignedToken fills a token for a host that begins with the newest root.
func (a *app) unsignedToken(issuer *tokenIssuer, host string, ttl clock.Duration, releaseDir string) (identity.Token, error) {
	now := a.Wall()
	head, id, err := issuer.draw(now)
	if err != nil {
		return identity.Token{}, err
	}
	t := identity.Token{Document: head, ID: id, Host: host, Expires: now.Add(ttl), RootDigest: digest.Of(issuer.payload), MinVersions: map[string]uint64{}}
	if releaseDir == "" {
		return t, nil
	}
	state, err := release.Trust(issuer.roots[0])
	if err != nil {
		return t, err
	}
	v, err := release.VerifyDir(releaseDir, state, now)
	if err != nil {
		return t, refusedRelease(releaseDir, err)
	}
	t.MinVersions[fleet.TypeResolved] = v.Resolved.Value().Version
	t.MinVersions[fleet.TypeTimestamp] = v.Timestamp.Value().Version
	return t, nil
}

// requestTimeout bounds how long a command that can do without the server waits for it.
const requestTimeout = 3 * time.Second

// checkDeclared asks the server, where one can be asked, whether its newest release
// declares the hosts: others could not enrol. It returns what those that it renames were called.
func (a *app) checkDeclared(ctx context.Context, hosts []string) (renamed map[string]string, err error) {
	where, err := a.Context()
	if err != nil || where.Token == "" {
		return nil, err
	}
	c, err := operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)})
	if err != nil {
		return nil, nil // what is wrong with the address is said later, in full
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := c.Status(ctx)
	if err != nil || s.Release.Version == 0 {
		return nil, nil // it cannot tell
	}
	renamed = map[string]string{}
	for _, host := range hosts {
		h, err := c.Host(ctx, host)
		if refused, ok := errors.AsType[*operator.Error](err); ok && refused.Status == http.StatusNotFound {
			return nil, exit.With(exit.NotFound, fmt.Errorf("host %s is not declared in the newest release, %s, and could not enrol; declare it in fleet.yaml, build, sign and push, or give --undeclared for a host of the next release", host, s.Release.Ref))
		}
		renamed[host] = h.RenamedFrom
	}
	return renamed, nil
}
