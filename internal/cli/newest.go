package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// fromServer is what --previous says for the newest release of the server.
const fromServer = "server"

// previousOptions say which release the next one follows.
type previousOptions struct {
	where string
	least uint64 // version
}

// flags adds them, and those that name the server.
func (o *previousOptions) flags(a *app, cmd *cobra.Command, value, usage string) {
	cmd.Flags().StringVar(&o.where, "previous", value, usage)
	cmd.Flags().Uint64Var(&o.least, "min-version", 0, "with --previous server: the lowest version that is accepted, also when its timestamp is stale")
	a.NamesServer(cmd)
}

// chosen is what --previous says; naming a server and no release means its newest.
func (o *previousOptions) chosen(cmd *cobra.Command) error {
	if cmd.Flags().Changed("server") && !cmd.Flags().Changed("previous") {
		o.where = fromServer
	}
	if o.least > 0 && o.where != fromServer {
		return exit.Badf("--min-version is for what a server says: give --previous server as well")
	}
	return nil
}

// newestOf takes the newest release of the server into a folder, which drop removes,
// and verifies it under the newest root at hand. A server cannot make a release, but
// it can hand out an old one: it must not be below the least version, nor below a
// release in one of the folders here or in the copy beside it, and its timestamp must be
// fresh unless a least version was given.
func (a *app) newestOf(ctx context.Context, trusted trust.Verifier, o previousOptions, folders ...string) (v *release.Verified, dir string, drop func(), err error) {
	dir, drop, err = a.temporary(func(dir string) error {
		return a.WithClient(func(c *operator.Client) error {
			return c.NewestRelease(ctx, func(packed io.Reader) error { return release.Unpack(packed, dir, release.DefaultCaps()) })
		})
	})
	if err != nil {
		return nil, "", nil, err
	}
	var here []own
	for _, folder := range folders {
		more, err := owns(folder)
		if err != nil {
			drop()
			return nil, "", nil, err
		}
		here = append(here, more...)
	}
	if v, err = a.believe(dir, trusted, o, here); err != nil {
		drop()
		return nil, "", nil, err
	}
	return v, dir, drop, nil
}

func (a *app) believe(dir string, trusted trust.Verifier, o previousOptions, here []own) (*release.Verified, error) {
	if _, err := os.Lstat(filepath.Join(dir, release.RootPath(trusted.RootVersion()))); err != nil {
		return nil, exit.Badf("the server does not have root version %d yet; send it first: steady keys root push", trusted.RootVersion())
	}
	if epoch, err := release.EpochOf(dir); err == nil && epoch < trusted.Epoch() {
		return nil, exit.With(exit.Refused, fmt.Errorf("the newest release of the server is of key epoch %d, which root version %d ended: nothing that those keys signed counts any more; build the first release of epoch %d without it: steady release build --previous none, or from a folder that you trust: --previous FOLDER; then sign and push",
			epoch, trusted.RootVersion(), trusted.Epoch()))
	}
	v, err := release.VerifyDir(dir, trusted.State(), a.Wall())
	if err != nil {
		return nil, exit.With(exit.Refused, fmt.Errorf("the newest release of the server does not verify: %w; give a copy that you trust with --previous FOLDER", err))
	}
	is := v.Resolved.Value()
	if is.Version < o.least {
		return nil, exit.With(exit.Refused, fmt.Errorf("the newest release of the server is version %d, below --min-version %d: another server, or one restored from a backup; give --previous FOLDER", is.Version, o.least))
	}
	for i := range here {
		folder := here[i].folder
		if _, err := release.VerifyDir(folder, trusted.State(), a.Wall()); err != nil {
			continue // nothing that an older one is held against
		}
		if own := &here[i]; own.newer(is.Epoch, is.Version) && own.counts() {
			return nil, exit.With(exit.Refused, fmt.Errorf("the newest release of the server is version %d, and %s holds version %d: push that first, or give --previous %s", is.Version, folder, own.Version, folder))
		}
	}
	return v, a.fresh(v, o.least > 0)
}

// fresh refuses a release that a server may have held back newer ones behind.
func (a *app) fresh(v *release.Verified, known bool) error {
	is, stamp := v.Resolved.Value(), v.Timestamp.Value().IssuedAt
	for _, name := range slices.Sorted(maps.Keys(is.Channels)) {
		window := is.Channels[name].FreshnessWindow
		if known || !stamp.Add(window).Reached(a.Wall()) {
			continue
		}
		return exit.With(exit.Refused, fmt.Errorf("the newest release of the server is version %d with a timestamp of %s, and channel %s accepts none older than %s: a server could hold newer ones back; if you know that %d is the newest give --min-version %d, or sign a timestamp where its folder is: steady release refresh && steady release push",
			is.Version, stamp, name, window, is.Version, is.Version))
	}
	return nil
}

// trustedBeside is the newest root that follows the first one in its folder, or the
// root itself when it is kept under another name.
func trustedBeside(root string) (trust.Verifier, error) {
	if _, err := os.Stat(root); err == nil && filepath.Base(root) == keyring.RootFile(1) {
		v, err := keyring.Newest(filepath.Dir(root))
		if err != nil {
			return v, exit.With(exit.Refused, err)
		}
		return v, nil
	}
	s, err := trustRoot(root)
	if err != nil {
		return trust.Verifier{}, err
	}
	r, err := trust.ReadRoot(s.Root)
	if err != nil {
		return trust.Verifier{}, err
	}
	return trust.NewVerifier(r.Fleet, s)
}

// printPrevious names a release that came from the server: nobody looked at it before.
func (a *app) printPrevious(folder string, o buildOptions, v *release.Verified) {
	if v != nil && folder == "" && (o.where == fromServer || o.publishes) {
		r := v.Resolved.Value()
		a.Printf("It follows version %d, %s, which the server has\n", r.Version, r.Ref)
	}
}
