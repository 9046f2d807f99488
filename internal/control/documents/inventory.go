package documents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
)

// Inventory knows which blobs have to be kept: the documents that the log names, as long
// as it is kept itself, and the content of what hosts may still be given. It is safe for
// concurrent use.
type Inventory struct {
	library *Library

	mu    sync.Mutex
	base  map[digest.Digest]struct{} // named by what the log begins with
	named map[digest.Digest]uint64   // by events, the last such event, and the budgets of their manifests
	err   error                      // the first: what is named is not all known
}

// NewInventory returns the inventory of an empty log. The library learns of its releases.
func NewInventory(library *Library) *Inventory {
	return &Inventory{library: library, named: map[digest.Digest]uint64{}}
}

// IsManifest reports whether a file of a release is the signed manifest of a rollout.
func IsManifest(file string) bool {
	return strings.HasPrefix(file, "rollouts/") && !strings.HasSuffix(file, ".leaves.json")
}

// Observe takes the event of the log at a sequence.
func (v *Inventory) Observe(ctx context.Context, seq uint64, ev event.Event) {
	named := event.Blobs(ev)
	if len(named) == 0 {
		return
	}
	var failed error
	if r, ok := ev.(event.ReleaseAccepted); ok {
		v.library.Learn(r)
		for file, d := range r.Envelopes { // order-free: a set is made of them
			if !IsManifest(file) {
				continue
			}
			raw, err := v.library.Blob(ctx, d)
			if err == nil {
				var members []digest.Digest
				members, err = BudgetsOf(raw)
				named = append(named, members...)
			}
			if err != nil {
				failed = fmt.Errorf("%s of release %s: %w", file, r.Ref, err)
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range named {
		v.named[d] = seq
	}
	if v.err == nil {
		v.err = failed
	}
}

// Keep returns the blobs that have to be kept: all that the log names, and what hangs on
// live manifests, and on bundles that are reported or set by name. It is an error when one
// of them cannot be read, since what it names is unknown then.
func (v *Inventory) Keep(ctx context.Context, manifests, reported []digest.Digest) (map[digest.Digest]struct{}, error) {
	v.mu.Lock()
	keep, err := make(map[digest.Digest]struct{}, len(v.base)+len(v.named)), v.err
	maps.Copy(keep, v.base)
	for d := range v.named { // order-free: a set is copied
		keep[d] = struct{}{}
	}
	v.mu.Unlock()
	if err != nil {
		return nil, err
	}
	content := map[digest.Digest]struct{}{}
	for _, d := range manifests {
		m, err := v.library.Manifest(d)
		if err != nil {
			return nil, err
		}
		if m.Header.Controls != "" {
			keep[m.Header.Controls] = struct{}{}
		}
		for i := range m.Leaves {
			content[m.Leaves[i].Target] = struct{}{}
		}
	}
	delete(content, "")
	for d := range content { // order-free: a set is made of them
		if err := v.bundle(ctx, d, keep); err != nil {
			return nil, fmt.Errorf("bundle %s: %w", d.Short(), err)
		}
	}
	for _, d := range reported {
		// It may be of another server, or no bundle at all: nobody need be able to read it.
		if err := v.bundle(ctx, d, keep); errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
			return nil, fmt.Errorf("bundle %s: %w", d.Short(), err)
		}
	}
	return keep, nil
}

// bundle keeps a bundle with its content.
func (v *Inventory) bundle(ctx context.Context, d digest.Digest, keep map[digest.Digest]struct{}) error {
	raw, err := v.library.Blob(ctx, d)
	if err != nil {
		return err
	}
	keep[d] = struct{}{}
	b, err := trust.ReadBundle(raw)
	if err != nil {
		return err
	}
	for _, blob := range b.Blobs() {
		keep[blob.Digest] = struct{}{}
	}
	if b.Nix == nil || b.Nix.Paths == nil {
		return nil
	}
	list, err := v.library.Blob(ctx, b.Nix.Paths.Digest)
	if err != nil {
		return fmt.Errorf("list of store paths: %w", err)
	}
	c, err := trust.ReadClosure(b.Nix, list)
	for _, n := range c.Nars() {
		keep[n.Digest] = struct{}{}
	}
	return err
}
