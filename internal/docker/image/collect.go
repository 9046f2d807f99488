package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// ErrIncomplete refuses a collection while not all that is desired is known.
var ErrIncomplete = errors.New("not all that is desired is known yet, so no image is removed")

// Keep is what a collection must not remove.
type Keep struct {
	// Complete says that the newest desired state is known whole, pinned
	// generations with it.
	Complete bool
	// Referenced reports whether anything desired or pinned names a reference or an
	// ID. Ref is empty for an image whose reference names a newer one.
	Referenced func(ref, id string) bool
	// Grace is how long an image stays after nothing refers to it any more.
	Grace time.Duration
}

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

// Collected is what a collection removed, by reference or ID.
type Collected struct{ Removed []string }

// Collect removes images that this host brought, when nothing refers to them: no
// container, nothing desired or pinned, and no image that is. Names that others
// gave to an image stay, and the image with them.
func (m *Reconciler) Collect(ctx context.Context, k Keep) (Collected, error) {
	var out Collected
	if !k.Complete || k.Referenced == nil {
		return out, ErrIncomplete
	}
	all, err := m.o.Ledger.All(ctx)
	if err != nil {
		return out, err
	}
	var errs []error
	for _, i := range all {
		used, err := m.used(ctx, i.ID)
		if err != nil {
			return out, dockerapi.ErrorOf(ctx, err)
		}
		g := Garbage{Fetched: i.Fetched, Referenced: m.busyWith(i.Ref) || referenced(all, i, k), Used: used}
		g.Free = m.free(i, g.Used || g.Referenced)
		if !MayGo(g, k.Grace) {
			continue
		}
		removed, err := m.drop(ctx, i)
		out.Removed = append(out.Removed, removed...)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect image %s: %w", i.Ref, err))
		}
	}
	return out, errors.Join(errs...)
}

// referenced asks for the image, its further names, and what was built on it. An
// image that gave its reference to a newer one is referred to by its ID alone.
func referenced(all []Image, i Image, k Keep) bool {
	if slices.ContainsFunc(all, func(o Image) bool {
		return o.Kind == i.Kind && o.Name == i.Name && o.Ref == i.Ref && o.N > i.N
	}) {
		return k.Referenced("", i.ID)
	}
	if k.Referenced(i.Ref, i.ID) || slices.ContainsFunc(i.Tags, func(t string) bool { return k.Referenced(t, i.ID) }) {
		return true
	}
	return slices.ContainsFunc(all, func(o Image) bool {
		return slices.Contains(o.Bases, i.Ref) && k.Referenced(o.Ref, o.ID)
	})
}

func (m *Reconciler) busyWith(ref string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy[ref] > 0
}

// used looks for containers of an image. An engine takes a name away from an image
// that a container uses, if the image has another one.
func (m *Reconciler) used(ctx context.Context, id string) (bool, error) {
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

// free is how long nothing has referred to an image, as far as this process has
// seen: a restart begins anew.
func (m *Reconciler) free(i Image, held bool) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := i.Ref + " " + i.ID
	if held {
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

// drop takes the names of an entry away, and the image with its last one.
func (m *Reconciler) drop(ctx context.Context, i Image) ([]string, error) {
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
	m.free(i, true)
	return removed, m.o.Ledger.Drop(ctx, i)
}
