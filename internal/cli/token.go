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
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

type tokenOptions struct {
	keys, ttl, release, eventKey, out string
	undeclared                        bool

	life    clock.Duration    // ttl, checked
	key     digest.Digest     // eventKey, checked
	renamed map[string]string // what hosts were called, by name; of the newest release
}

type tokenView struct {
	Token   string        `json:"token"`
	ID      string        `json:"id"`
	Host    string        `json:"host"`
	Fleet   string        `json:"fleet"`
	Server  string        `json:"server"`
	Expires clock.Instant `json:"expires"`
	// EventKey is the only event key that the token enrols; empty takes any.
	EventKey digest.Digest `json:"eventKey,omitempty"`
	// RenamedFrom is what the host was called, whose state folder takes the token.
	RenamedFrom string `json:"renamedFrom,omitempty"`
}

func (a *app) tokenCreate() *cobra.Command {
	var o tokenOptions
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
			return a.createTokens(args, o)
		},
	}
	keysFlag(cmd, &o.keys)
	cmd.Flags().StringVar(&o.ttl, "ttl", identity.TokenLife.String(), "how long the token is good, at most "+identity.MaxTokenLife.String())
	cmd.Flags().StringVar(&o.release, "not-before", "", "release folder: the host then refuses anything older")
	cmd.Flags().StringVar(&o.eventKey, "key", "", "digest of the host's event key, from steady agent keygen on the host: no other enrols")
	cmd.Flags().StringVar(&o.out, "out", "", "folder for a file HOST.token of each host; it is created")
	cmd.Flags().BoolVar(&o.undeclared, "undeclared", false, "also for a host that the newest release does not declare")
	a.NamesServer(cmd)
	return a.PrintsData(cmd)
}

// check refuses what no server needs to be asked about.
func (o *tokenOptions) check(hosts []string, table bool) error {
	if len(hosts) > 1 && o.eventKey != "" {
		return exit.Badf("--key names the key of one host, and %s are given", prose.Count(len(hosts), "host"))
	}
	if len(hosts) > 1 && o.out == "" && table {
		return exit.Badf("several tokens need a folder for their files: give --out DIR")
	}
	for _, host := range hosts {
		if err := fleet.CheckName(host); err != nil {
			return exit.Badf("host: %w", err)
		}
	}
	var err error
	if o.life, err = clock.ParseDuration(o.ttl); err != nil || o.life <= 0 || o.life > identity.MaxTokenLife {
		return exit.Badf("--ttl %s: expected a duration from 1s to %s", o.ttl, identity.MaxTokenLife)
	}
	if o.eventKey != "" {
		if o.key, err = digest.Parse(o.eventKey); err != nil {
			return exit.Badf("--key: %w; steady agent keygen --state DIR prints it on the host", err)
		}
	}
	return nil
}

func (a *app) createTokens(hosts []string, o tokenOptions) error {
	var views []tokenView
	for _, host := range hosts {
		view, err := a.makeToken(host, o)
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	if o.out != "" {
		return a.writeTokens(views, o.out)
	}
	if len(views) > 1 {
		return a.Print(views, nil)
	}
	return a.Print(views[0], func() error { a.Printf("%s\n", views[0].Token); return nil })
}

func (a *app) writeTokens(views []tokenView, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return exit.Badf("--out: %w", err)
	}
	for _, v := range views {
		path := filepath.Join(dir, v.Host+".token")
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, []byte(v.Token+"\n"), 0o600); err != nil {
			return err
		}
		if a.TableOutput() {
			a.Printf("%s: enrols %s once, until %s\n", path, v.Host, prose.Date(v.Expires))
		}
	}
	return a.Print(views, func() error {
		a.Printf("Next, on each host: steady agent install HOST.token\n")
		return nil
	})
}

func (a *app) makeToken(host string, o tokenOptions) (tokenView, error) {
	where, err := a.Context()
	if err != nil {
		return tokenView{}, err
	}
	server := cmp.Or(where.Agents, where.Server)
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
		return tokenView{}, exit.Badf("--server %q: expected https://HOST:PORT", server)
	}
	if where.CA == "" {
		return tokenView{}, exit.Bad(errors.New("the host must know the authority of the server's certificate; give --ca FILE, or --context with the server's operator.json"))
	}
	signer, err := keyring.Signer(o.keys, trust.RoleEnrol)
	if err != nil {
		return tokenView{}, exit.Bad(err)
	}
	roots, err := keyring.Roots(o.keys)
	if err != nil {
		return tokenView{}, exit.Bad(err)
	}
	t, err := a.unsignedToken(host, o.life, roots, o.release)
	if err != nil {
		return tokenView{}, err
	}
	t.EventKeyDigest, t.RenamedFrom = o.key, o.renamed[host]
	env, err := identity.SignToken(t, signer)
	if err != nil {
		return tokenView{}, err
	}
	text := identity.TokenText{Envelope: env, Server: server, ServerCA: []byte(where.CA), Root: roots[len(roots)-1]}
	if _, _, err := text.Begin(a.Wall()); err != nil {
		return tokenView{}, fmt.Errorf("the token would be refused: %w; the keys in %s do not belong to its root", err, o.keys)
	}
	return tokenView{Token: text.String(), ID: t.ID, Host: host, Fleet: t.Fleet, Server: server, Expires: t.Expires, EventKey: o.key, RenamedFrom: t.RenamedFrom}, nil
}

// unsignedToken fills a token for a host that begins with the newest root.
func (a *app) unsignedToken(host string, ttl clock.Duration, roots [][]byte, releaseDir string) (identity.Token, error) {
	newest, err := trust.ParseEnvelope(roots[len(roots)-1])
	if err != nil {
		return identity.Token{}, err
	}
	var root trust.Root
	if err := trust.Decode(newest.Payload, trust.MaxEnvelope, &root); err != nil {
		return identity.Token{}, err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return identity.Token{}, err
	}
	now := a.Wall()
	t := identity.Token{
		Document: fleet.Document{Fleet: root.Fleet, Epoch: root.Epoch, IssuedAt: now},
		ID:       hex.EncodeToString(id), Host: host, Expires: now.Add(ttl),
		RootDigest: digest.Of(newest.Payload), MinVersions: map[string]uint64{},
	}
	if releaseDir == "" {
		return t, nil
	}
	state, err := release.Trust(roots[0])
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
