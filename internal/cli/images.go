package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// askedAtOnce bounds the registries asked at the same time.
const askedAtOnce = 8

type lockOptions struct {
	update  bool
	images  []string // asked for again; empty with update: all
	layouts []string
}

func (a *app) imageLock() *cobra.Command {
	var o lockOptions
	var dir string
	cmd := &cobra.Command{
		Use:   "lock [IMAGE...]",
		Short: "Write the digests of the fleet's images to images.lock",
		Long: `Reads the fleet folder, asks the registries what the tags of its images mean now,
and writes their digests to images.lock beside fleet.yaml. A release is built with
these digests, and hosts run no other, whatever becomes of the tags.

What is locked stays as it is: name images, or give --update for all, to take what
their tags mean now. What no bundle names any more is left out. Put images.lock
under version control.

Credentials are those of docker login: the file config.json in DOCKER_CONFIG, or
in .docker of the home folder. --layout reads digests from a folder in the OCI
image layout, as skopeo copy writes it, before a registry is asked; its images
are those with a full name, such as registry.example/team/app:1.`,
		Example: "  steady image lock\n  steady image lock --update\n  steady image lock nginx:1.27 --dir fleet\n  steady image lock --layout images",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.images = args
			changes, failed := a.lock(cmd.Context(), dir, o)
			if failed != nil && len(changes) == 0 {
				return failed
			}
			err := a.Print(struct {
				Images []imageref.Change `json:"images"`
			}{command.NonNil(changes)}, func() error { return a.showLock(dir, changes) })
			return errors.Join(err, failed)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "fleet folder")
	cmd.Flags().BoolVar(&o.update, "update", false, "take what all tags mean now")
	cmd.Flags().StringArrayVar(&o.layouts, "layout", nil, "OCI image layout to read digests from; may be given several times")
	return a.PrintsData(cmd)
}

func (o *buildOptions) lockFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.lock, "lock", false, "lock images that are not locked yet first, as steady image lock does")
}

// lock brings images.lock of a fleet folder up to date and says what it has.
func (a *app) lock(ctx context.Context, dir string, o lockOptions) ([]imageref.Change, error) {
	used, problems := fleetdir.References(dir)
	if release.Fatal(problems) {
		return nil, a.refuseBuild(problems, true)
	}
	before, problems := fleetdir.LockOf(dir)
	if release.Fatal(problems) {
		return nil, a.refuseBuild(problems, true)
	}
	again, err := o.again(used)
	if err != nil {
		return nil, err
	}
	found, failed := a.digests(ctx, before.Missing(used, again), o.layouts)
	next, changes := before.Renew(used, found)
	if !maps.Equal(before, next) {
		if err := fleetdir.WriteLock(dir, next); err != nil {
			return nil, err
		}
	}
	return changes, failed
}

// again tells which references are asked for although they are locked.
func (o *lockOptions) again(used []string) (func(key string) bool, error) {
	var named []string
	for _, ref := range o.images {
		key, err := imageref.Key(ref)
		if err != nil {
			return nil, exit.Bad(err)
		}
		if !slices.Contains(used, key) {
			return nil, exit.With(exit.NotFound, fmt.Errorf("no bundle pulls %s by its tag; those that do: %s", key, cmp.Or(strings.Join(used, ", "), "none")))
		}
		named = append(named, key)
	}
	return func(key string) bool { return o.update || slices.Contains(named, key) }, nil
}

// digests finds what references mean, in layouts first. With an error it has those
// that were found.
func (a *app) digests(ctx context.Context, keys, layouts []string) (map[string]string, error) {
	here, found := imageref.Lock{}, map[string]string{}
	for _, dir := range layouts {
		l, err := dockerapi.Layout(dir)
		if err != nil {
			return nil, exit.Bad(err)
		}
		maps.Copy(here, l)
	}
	client := dockerapi.Registry{Credentials: dockerapi.OpenCredentials(dockerConfig()).For}
	var mu sync.Mutex
	var errs []error
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, key := range keys {
		g.Go(func() (err error) {
			d, known := here[key]
			if !known {
				d, err = client.Digest(ctx, key)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			found[key] = d
			return nil
		})
	}
	_ = g.Wait() // no work returns an error: all of them are told
	slices.SortFunc(errs, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
	if err := errors.Join(errs...); err != nil {
		return found, fmt.Errorf("%s of %s could not be locked; the others are in %s: %w", prose.Count(len(errs), "image"), strconv.Itoa(len(keys)), fleetdir.LockFile, err)
	}
	return found, nil
}

func dockerConfig() string {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".docker")
	}
	return filepath.Join(dir, "config.json")
}

func (a *app) showLock(dir string, changes []imageref.Change) error {
	if len(changes) == 0 {
		a.Printf("No bundle pulls an image by its tag: there is nothing to lock.\n")
		return nil
	}
	var rows [][]string
	for _, c := range changes {
		rows = append(rows, []string{c.Image, command.Short(cmp.Or(c.After, c.Before)), became(c)})
	}
	if err := term.Rows(a.Out, []string{"image", "digest", "change"}, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c imageref.Change) bool { return c.Before != c.After }) {
		a.Printf("Wrote %s. Next: commit it, then steady release build\n", filepath.Join(dir, fleetdir.LockFile))
	}
	return nil
}

// became says what a change is.
func became(c imageref.Change) string {
	switch {
	case c.Before == c.After:
		return "as locked"
	case c.Before == "":
		return "new"
	case c.After == "":
		return "removed: no bundle names it"
	}
	return "was " + command.Short(c.Before)
}
