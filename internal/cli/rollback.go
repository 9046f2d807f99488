package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

type rollbackOptions struct {
	previousOptions
	to, from, out, ref, keys string
}

func (a *app) releaseRollback() *cobra.Command {
	var o rollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback CHANNEL --to REF",
		Short: "Sign a higher version that names the bundles of an earlier one",
		Long: `Builds and signs a release, one version above the current one, in which the hosts
of a channel are given the bundles and probes of an earlier plan again. Waves,
policy, budgets, edges and delegations stay as they are now, other channels keep
their manifests, and no volume is deleted on the way back. It prints what changes
per host, and pushes nothing.

The current release holds the last three plans of each channel; an older one is
found in the release that --from names. Without the current release's folder take
it from the server, --previous server: it is verified from the newest root in KEYS on.`,
		Example: "  steady release rollback stable --to v1 && steady release push release.rollback\n  steady release rollback stable --to v1 --previous server\n  steady release rollback stable --to 41 --from archive/41 --keys /media/usb/keys",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.chosen(cmd); err != nil {
				return err
			}
			return a.rollback(cmd.Context(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "ref or version of the earlier plan (required)")
	o.previousOptions.flags(a, cmd, "release", "the newest release: a signed folder, the URL of a packed one, or server")
	f.StringVar(&o.from, "from", "", "an earlier release that has the plan: a signed folder, or the URL of a packed one (default: the newest)")
	f.StringVar(&o.out, "out", "release.rollback", "release folder to write")
	f.StringVar(&o.ref, "ref", "", "name of the new release (default: made of the earlier one's)")
	keysFlag(cmd, &o.keys)
	return a.PrintsData(cmd)
}

type rolledBack struct {
	Fleet   string `json:"fleet"`
	Channel string `json:"channel"`
	Ref     string `json:"ref"`
	Version uint64 `json:"version"`
	Out     string `json:"out"`
	// Leaves is the rollout that hosts go back from.
	Leaves string         `json:"leaves"`
	Hosts  []release.Move `json:"hosts"`
}

func (a *app) rollback(ctx context.Context, channel string, o rollbackOptions) error {
	if o.to == "" {
		return exit.Badf("a rollback needs the plan to go back to; give its ref or version with --to")
	}
	signing, err := a.signing(o.keys)
	if err != nil {
		return err
	}
	state, err := release.Trust(signing.Roots[0])
	if err != nil {
		return err
	}
	opts := release.RollbackOptions{Channel: channel, To: o.to, Ref: o.ref, Now: signing.Now}
	take := func(where string) (*release.Verified, func(), error) {
		if where == fromServer {
			trusted, err := keyring.Newest(o.keys)
			if err != nil {
				return nil, nil, exit.With(exit.Refused, err)
			}
			v, _, drop, err := a.newestOf(ctx, trusted, o.previousOptions, "release", o.out)
			return v, drop, err
		}
		dir, drop, err := a.fetched(ctx, where)
		if err != nil {
			return nil, nil, err
		}
		v, err := release.VerifyDir(dir, state, signing.Now)
		if err != nil {
			drop()
			return nil, nil, refusedRelease(dir, err)
		}
		return v, drop, nil
	}
	for _, x := range []struct {
		where string
		into  **release.Verified
	}{{o.where, &opts.Current}, {o.from, &opts.From}} {
		if x.where == "" {
			continue
		}
		v, drop, err := take(x.where)
		if err != nil {
			return err
		}
		defer drop()
		*x.into = v
	}
	rel, moves, err := release.Rollback(opts)
	if err != nil {
		return exit.Bad(err)
	}
	if _, err := release.WriteSigned(o.out, rel.Files, signing, rel.NarList()...); err != nil {
		return err
	}
	r := rolledBack{Fleet: rel.Fleet, Channel: channel, Ref: rel.Ref, Version: rel.Version, Out: o.out, Hosts: moves,
		Leaves: opts.Current.Resolved.Value().Channels[channel].Manifests[0].Rollout}
	return a.Print(r, func() error { return a.showRolledBack(r) })
}

const maxMoves = 50

func (a *app) showRolledBack(r rolledBack) error {
	a.Printf("Built and signed release %s of fleet %s, version %d, in %s: rollout %s@%s\n", r.Ref, r.Fleet, r.Version, r.Out, r.Channel, r.Ref)
	var rows [][]string
	stay, left := 0, 0
	for _, m := range r.Hosts {
		switch {
		case m.From == m.To && !m.New:
			stay++
		case len(rows) == maxMoves:
			left++
		case m.New:
			rows = append(rows, []string{m.Host, m.Wave, command.Short(string(m.From)), "stays: the earlier plan did not have it"})
		default:
			rows = append(rows, []string{m.Host, m.Wave, command.Short(string(m.From)), command.Short(string(m.To))})
		}
	}
	if err := a.Table([]string{"host", "wave", "is given", "goes back to"}, rows); err != nil {
		return err
	}
	if left > 0 {
		a.Printf("%s %s; -o json lists them all\n", prose.Count(left, "more host"), prose.Verb(left, "changes", "change"))
	}
	if stay > 0 {
		a.Printf("%s given the same bundle and %s\n", prose.Count(stay, "host")+prose.Verb(stay, " is", " are"), prose.Verb(stay, "stays", "stay"))
	}
	a.Printf("While %s is still on its way this release waits behind it; faster then: steady rollout rollback %s --reason R\n", r.Leaves, r.Leaves)
	a.Printf("Next: steady release push%s\n", dirHint(r.Out))
	return nil
}

// signing reads the keys that a release is signed with.
func (a *app) signing(keys string) (release.SignOptions, error) {
	rel, err := keyring.Signer(keys, trust.RoleRelease)
	if err != nil {
		return release.SignOptions{}, exit.Bad(err)
	}
	stamp, roots, err := stamping(keys)
	return release.SignOptions{Release: []trust.Signer{rel}, Timestamp: []trust.Signer{stamp}, Roots: roots, Now: a.Wall()}, err
}

// stamping reads what a timestamp is signed with, and the roots that go with it.
func stamping(keys string) (trust.Signer, [][]byte, error) {
	stamp, err := keyring.Signer(keys, trust.RoleTimestamp)
	if err != nil {
		return stamp, nil, exit.Bad(err)
	}
	roots, err := keyring.Roots(keys)
	return stamp, roots, exit.Bad(err)
}

// fetched returns the folder of a release that is in one, or at a URL. drop removes
// what was fetched.
func (a *app) fetched(ctx context.Context, where string) (dir string, drop func(), err error) {
	if !strings.HasPrefix(where, "http://") && !strings.HasPrefix(where, "https://") {
		return where, func() {}, nil
	}
	source, err := fetch.Open(where, fetch.Options{})
	if err != nil {
		return "", nil, exit.Bad(err)
	}
	return a.temporary(func(dir string) error {
		if _, _, err := source.Fetch(ctx, dir, ""); err != nil {
			return fmt.Errorf("fetch %s: %w", source.Name(), err)
		}
		return nil
	})
}

// temporary has a release written into a folder that drop removes.
func (a *app) temporary(fill func(dir string) error) (dir string, drop func(), err error) {
	temp, err := os.MkdirTemp("", "steady-release-")
	if err != nil {
		return "", nil, err
	}
	drop = func() {
		if err := os.RemoveAll(temp); err != nil {
			a.Warn("%v", err)
		}
	}
	dir = filepath.Join(temp, "release")
	if err = os.Mkdir(dir, 0o755); err == nil {
		err = fill(dir)
	}
	if err != nil {
		drop()
		return "", nil, err
	}
	return dir, drop, nil
}
