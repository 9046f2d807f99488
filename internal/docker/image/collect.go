package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// Garbage is what is known of one image in the ledger for a collection.
type Garbage struct {
	Fetched    bool
	Referenced bool          // by what is desired, or by an image that is
	Used       bool          // by a container, running or not
	Free       time.Duration // since nothing refers to it
}

// MayGo reports whether an image may be removed.
func MayGo(g Garbage, grace time.Duration) bool {
	return g.Fetched && !g.Referenced && !g.Used && g.Free >= grace
}

// Collect removes images that this host brought and to which nothing has referred
// for the grace: no container, nothing desired or pinned, and no image that is. Desired
// reports whether anything desired or pinned names a reference. Names that others gave
// to an image stay, and the image with them. Removed are references and IDs.
func (m *Reconciler) Collect(ctx context.Context, grace time.Duration, desired func(ref string) bool) (removed []string, err error) {
	all, err := m.o.Ledger.All(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, i := range all {
		used, err := m.inUse(ctx, i.ID)
		if err != nil {
			return removed, dockerapi.ErrorOf(ctx, err)
		}
		g := Garbage{Fetched: i.Fetched, Referenced: m.isPinned(i.Ref) || referenced(all, i, desired), Used: used}
		g.Free = m.unusedFor(i, g.Used || g.Referenced)
		if !MayGo(g, grace) {
			continue
		}
		dropped, err := m.remove(ctx, i)
		removed = append(removed, dropped...)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect image %s: %w", i.Ref, err))
		}
	}
	return removed, errors.Join(errs...)
}

// referenced asks for the image, its further names, and what was built on it. Nothing
// refers to one that gave its reference to a newer one.
func referenced(all []Image, i Image, desired func(ref string) bool) bool {
	if slices.ContainsFunc(all, func(o Image) bool {
		return o.Kind == i.Kind && o.Name == i.Name && o.Ref == i.Ref && o.N > i.N
	}) {
		return false
	}
	return desired(i.Ref) || slices.ContainsFunc(i.Tags, desired) || slices.ContainsFunc(all, func(o Image) bool {
		return slices.Contains(o.Bases, i.Ref) && desired(o.Ref)
	})
}

func (m *Reconciler) isPinned(ref string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pinned[ref] > 0
}

// inUse searches for containers of an image. An engine takes a name away from an image
// that a container uses, if the image has another one.
func (m *Reconciler) inUse(ctx context.Context, id string) (bool, error) {
	all, err := m.o.Engine.ContainerList(ctx, true)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		if c.ImageID == id {
			return true, nil
		}
	}
	return false, nil
}

// unusedFor is how long nothing has referred to an image, as far as this process has
// seen: a restart begins anew.
func (m *Reconciler) unusedFor(i Image, referred bool) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := i.Ref + " " + i.ID
	if referred {
		delete(m.freeSince, key)
		return 0
	}
	now := m.o.Now()
	if since, ok := m.freeSince[key]; ok {
		return now.Sub(since)
	}
	m.freeSince[key] = now
	return 0
}

// remove takes the names of an entry away, and the image with its last one.
func (m *Reconciler) remove(ctx context.Context, i Image) ([]string, error) {
	var removed []string
	for _, name := range append([]string{i.Ref}, i.Tags...) {
		seen, err := m.o.Engine.ImageInspect(ctx, name)
		if dockerapi.NotFound(err) || err == nil && seen.ID != i.ID {
			continue // it is gone, or names another one
		}
		if err != nil {
			return removed, dockerapi.ErrorOf(ctx, err)
		}
		if _, err := m.o.Engine.ImageRemove(ctx, name); err != nil && !dockerapi.NotFound(err) {
			return removed, dockerapi.ErrorOf(ctx, err)
		}
		removed = append(removed, name)
	}
	seen, err := m.o.Engine.ImageInspect(ctx, i.ID)
	theirs := func(d string) bool { return repository(d) != repository(i.Ref) }
	if err == nil && len(seen.RepoTags) == 0 && !slices.ContainsFunc(seen.RepoDigests, theirs) {
		if _, err = m.o.Engine.ImageRemove(ctx, i.ID); err == nil {
			removed = append(removed, i.ID)
		}
	}
	switch {
	case dockerapi.Conflict(err):
		return removed, nil // others were built on it: it goes after them
	case err != nil && !dockerapi.NotFound(err):
		return removed, dockerapi.ErrorOf(ctx, err)
	}
	m.unusedFor(i, true)
	return removed, m.o.Ledger.Drop(ctx, i)
}
