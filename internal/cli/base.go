package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// acceptances are the releases of a folder that a server accepted, newest first. They are
// kept beside the folder: what is in it is signed, and copied as it is.
type acceptances struct {
	Releases []acceptance `json:"releases"`
}

type acceptance struct {
	Version  uint64        `json:"version"`
	Resolved digest.Digest `json:"resolved"`
	Server   string        `json:"server"`
	At       clock.Instant `json:"at"`
}

const maxAcceptances = 16

func acceptedName(dir string) string { return filepath.Clean(dir) + ".accepted.json" }

func readAcceptances(dir string) (a acceptances, err error) {
	raw, err := os.ReadFile(acceptedName(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		return a, fmt.Errorf("%s, which says what a server accepted of %s, cannot be read: %w; remove it where it is damaged", acceptedName(dir), dir, err)
	}
	return a, nil
}

// noteAccepted keeps that a server accepted the release in a folder. A folder that cannot be
// written to is no error: the release is accepted all the same.
func (a *app) noteAccepted(dir, server string) {
	r, err := release.Snapshot(dir)
	var known acceptances
	if err == nil {
		known, err = readAcceptances(dir)
	}
	if err == nil {
		known.Releases = slices.DeleteFunc(known.Releases, func(k acceptance) bool { return k.Resolved == r.Digest })
		known.Releases = append([]acceptance{{r.Version, r.Digest, server, a.Wall()}}, known.Releases...)
		known.Releases = known.Releases[:min(len(known.Releases), maxAcceptances)]
		var raw []byte
		if raw, err = json.MarshalIndent(known, "", "  "); err == nil {
			err = disk.Replace(acceptedName(dir), append(raw, '\n'), 0o644)
		}
	}
	if err != nil {
		a.Warn("that the server accepted the release is not kept: %v", err)
	}
}

// own is a release in a folder here.
type own struct {
	folder string
	release.Named
	origin   *fleet.Origin
	accepted *acceptance // nil where no server is known to have accepted it
}

// owns reads the signed releases that the output folder and its copy of before hold. Nothing
// of them is verified yet.
func owns(out string) ([]own, error) {
	known, err := readAcceptances(out)
	if err != nil {
		return nil, err
	}
	var all []own
	for _, folder := range []string{out, keptName(out)} {
		if !isSigned(folder) {
			continue
		}
		r, err := release.Snapshot(folder)
		if err != nil {
			return nil, err
		}
		origin, err := release.OriginOf(folder)
		if err != nil {
			return nil, err
		}
		o := own{folder: folder, Named: r, origin: origin}
		if i := slices.IndexFunc(known.Releases, func(k acceptance) bool { return k.Resolved == r.Digest }); i >= 0 {
			o.accepted = &known.Releases[i]
		}
		all = append(all, o)
	}
	return all, nil
}

// counts reports whether a server that does not have the release is behind it: one that no
// server is known to have accepted is only a try, unless it is of before that was noted.
func (o *own) counts() bool { return o.accepted != nil || o.origin == nil }

// newer reports whether a release came after another one.
func (o *own) newer(epoch, version uint64) bool {
	return cmp.Or(cmp.Compare(o.Epoch, epoch), cmp.Compare(o.Version, version)) > 0
}

// onServer finds the base of the next release: the newest one that the server accepted. It
// is read from here where a folder has it, else from the server. Without one it is nil.
func (a *app) onServer(ctx context.Context, o buildOptions) (prev *release.Verified, folder string, drop func(), err error) {
	var newest operator.ReleaseInfo
	err = a.WithClient(func(c *operator.Client) error {
		s, err := c.Status(ctx)
		newest = s.Release
		return err
	})
	if err != nil {
		return nil, "", nil, err
	}
	here, err := owns(o.out)
	if err != nil {
		return nil, "", nil, err
	}
	for i := range here {
		h := &here[i]
		switch {
		case newest.Version == 0 && h.accepted != nil:
			return nil, "", nil, exit.With(exit.Refused, fmt.Errorf("the server has no release, and %s accepted version %d, which %s holds, at %s: push that first: steady release push%s; where it is another fleet's, build into another folder with --out",
				h.accepted.Server, h.Version, h.folder, h.accepted.At, dirHint(h.folder)))
		case h.Digest == newest.Resolved && !slices.ContainsFunc(here, func(o own) bool { return o.newer(h.Epoch, h.Version) && o.counts() }):
			prev, drop, err = a.verified(ctx, h.folder, o.root)
			return prev, h.folder, drop, err
		}
	}
	if newest.Version == 0 {
		return nil, "", func() {}, nil
	}
	trusted, err := trustedBeside(o.root)
	if err != nil {
		return nil, "", nil, err
	}
	prev, _, drop, err = a.newestOf(ctx, trusted, o.previousOptions, o.out)
	return prev, "", drop, err
}

// contains refuses a checkout that lacks the commit of which the base was built: what came
// with that commit would be undone. Whoever names the base themselves knows.
func (a *app) contains(dir string, src *fleetdir.Source, base *release.Verified, o buildOptions) error {
	if !o.publishes || o.where != "" || base == nil || !src.Tracked {
		return nil
	}
	r, origin := base.Resolved.Value(), base.Roster.Value().Origin
	if origin == nil || len(origin.Commit) < 12 {
		return nil // it was built of something else than a commit
	}
	has, err := disk.CheckoutContains(dir, origin.Commit)
	switch {
	case errors.Is(err, disk.ErrShallow):
		a.Warn("whether this checkout has commit %s, of which release %s was built, is not known: %v", origin.Commit[:12], r.Ref, err)
		return nil
	case err != nil || has:
		return err
	}
	return exit.With(exit.Refused, fmt.Errorf("the newest release of the server is version %d, %s, built of commit %s, which this checkout does not contain: what that brought would be undone; take it in first (git pull), or build on the release all the same: steady release publish --previous server",
		r.Version, r.Ref, origin.Commit[:12]))
}

// foresee refuses a release of which hosts would be given again what was taken from them,
// or what they do not run, on channels for which that is not said to be meant.
func (a *app) foresee(ctx context.Context, rel *release.Release, meant []string) error {
	given, err := rel.Given()
	if err != nil {
		return err
	}
	var refusing []plan.Refusing
	err = a.WithClient(func(c *operator.Client) error {
		refusing, err = c.Foresee(ctx, given)
		if refusal, is := errors.AsType[*operator.Error](err); is && refusal.Status == http.StatusNotFound {
			return nil // an older server
		}
		return err
	})
	if err != nil {
		return err
	}
	var words, channels []string
	say := func(channel, format string, args ...any) {
		if !slices.Contains(meant, channel) {
			words, channels = append(words, fmt.Sprintf(format, args...)), append(channels, channel)
		}
	}
	for _, r := range refusing {
		say(r.Channel, "channel %s: %s would not run bundle %s: %s. Change the bundle, or have it run again: %s", r.Channel, prose.Names(r.Hosts, maxForeseen), r.Bundle.Short(), r.Reason, r.Next)
	}
	for _, g := range rel.Again {
		if !slices.ContainsFunc(refusing, func(r plan.Refusing) bool { return r.Channel == g.Channel && r.Bundle == g.Bundle }) {
			say(g.Channel, "%s. Take in what was published since (git pull), or change the bundle", wayBack(g))
		}
	}
	if len(words) == 0 {
		return nil
	}
	slices.Sort(channels)
	return exit.With(exit.Refused, fmt.Errorf("nothing was published:\n%s\nIf it is meant: steady release publish --again %s", strings.Join(words, "\n"), strings.Join(slices.Compact(channels), ",")))
}

// maxForeseen is how many hosts a line names.
const maxForeseen = 5

// wayBack words that a release gives again what another one took back.
func wayBack(g release.Again) string {
	return fmt.Sprintf("channel %s: %s %s given bundle %s of %s again, which %s took back", g.Channel, prose.Names(g.Hosts, maxForeseen), prose.Verb(len(g.Hosts), "is", "are"), g.Bundle.Short(), g.Rollout, g.Since)
}
