package release

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

// writeNar brings an archive into the release folder next, by a link where that is possible.
func writeNar(next string, n *fleetdir.Nar) error {
	at, err := placeOf(next, NarPath(n.Digest))
	if err != nil {
		return err
	}
	if n.Link != "" && os.Link(n.Link, at) == nil {
		return nil
	}
	from, err := n.Open()
	if err != nil {
		return fmt.Errorf("store path %s: %w", n.Of, err)
	}
	defer from.Close()
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	got, err := hashed(io.TeeReader(from, f))
	if err = errors.Join(err, f.Close()); err == nil && got != n.Blob {
		err = fmt.Errorf("%d bytes with digest %s came, expected %d with %s: it changed while the release was built", got.Size, got.Digest.Short(), n.Size, n.Digest.Short())
	}
	if err != nil {
		return fmt.Errorf("store path %s: %w", n.Of, err)
	}
	return nil
}

// hashed reads to the end and names what came.
func hashed(r io.Reader) (spec.Blob, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return spec.Blob{Digest: digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil))), Size: n}, err
}

// closureOf reads the list of a bundle's store paths; nil where it has none.
func closureOf(fsys fs.FS, b *fleet.Bundle) (*fleet.Closure, error) {
	if b.Nix == nil || b.Nix.Paths == nil {
		return nil, nil
	}
	raw, err := readFile(fsys, BlobPath(b.Nix.Paths.Digest))
	if err != nil {
		return nil, err
	}
	c, err := trust.ReadClosure(b.Nix, raw)
	return &c, err
}

// nars checks the archives of a bundle that the folder has.
func (v *verification) nars(b *fleet.Bundle) error {
	c, err := closureOf(v.fsys, b)
	if err != nil || c == nil {
		return err
	}
	for _, n := range c.Nars() {
		name := NarPath(n.Digest)
		if size, seen := v.blobs[n.Digest]; v.used[name] && seen {
			if size != n.Size {
				return fmt.Errorf("%s has %d bytes: expected %d", name, size, n.Size)
			}
			continue
		}
		v.used[name] = true
		if _, here := slices.BinarySearch(v.Names, name); !here {
			v.Absent, v.blobs[n.Digest] = append(v.Absent, n), n.Size
			continue
		}
		f, err := v.fsys.Open(name)
		if err != nil {
			return err
		}
		got, err := hashed(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if got != n {
			return fmt.Errorf("%s has %d bytes with digest %s: expected what the list of store paths signs", name, got.Size, got.Digest.Short())
		}
		v.blobs[n.Digest] = n.Size
	}
	return nil
}

// OpenNar opens an archive that the verified folder has.
func (v *Verified) OpenNar(d digest.Digest) (fs.File, error) { return v.fsys.Open(NarPath(d)) }

// IsNar reports the digest of an archive by its name in a release.
func IsNar(name string) (digest.Digest, bool) {
	return digest.Digest(digest.Prefix + strings.TrimPrefix(name, narsFolder+"/")), isNar(name)
}

// carryNars takes over the archives of a bundle that the previous release's folder has. The
// server has the others.
func (b *builder) carryNars(bundle *fleet.Bundle) error {
	prev := b.o.Previous
	c, err := closureOf(prev.fsys, bundle)
	if err == nil {
		b.carryArchives(c)
	}
	return err
}

// carryArchives is carryNars for a list of store paths.
func (b *builder) carryArchives(c *fleet.Closure) {
	prev := b.o.Previous
	for i := range cPaths(c) {
		n := c.Paths[i].Nar()
		name := NarPath(n.Digest)
		if _, have := b.rel.Nars[n.Digest]; have {
			continue
		}
		if _, here := slices.BinarySearch(prev.Names, name); !here {
			continue
		}
		carried := fleetdir.Nar{Blob: n, Of: c.Paths[i].Path, Open: func() (io.ReadCloser, error) { return prev.fsys.Open(name) }}
		if prev.dir != "" {
			carried.Link = filepath.Join(prev.dir, filepath.FromSlash(name))
		}
		b.rel.Nars[n.Digest] = carried
	}
}

// NarList are the archives that are at hand, by digest.
func (r *Release) NarList() []fleetdir.Nar {
	out := make([]fleetdir.Nar, 0, len(r.Nars))
	for _, n := range r.Nars { // order-free: it is sorted below
		out = append(out, n)
	}
	slices.SortFunc(out, func(x, y fleetdir.Nar) int { return strings.Compare(string(x.Digest), string(y.Digest)) })
	return out
}

// NamedNar is an archive that a release names, and whether its folder has it.
type NamedNar struct {
	spec.Blob
	Of   string // the store path
	Here bool
}

// NarsOf lists the archives that the bundles of a release folder name, each once, in the order
// of their digests. It checks no signature.
func NarsOf(fsys fs.FS) ([]NamedNar, error) {
	names, err := fileNames(fsys)
	if err != nil {
		return nil, err
	}
	var out []NamedNar
	seen := map[digest.Digest]bool{}
	for _, name := range names {
		if !strings.HasPrefix(name, "bundles/") {
			continue
		}
		raw, err := readFile(fsys, name)
		if err != nil {
			return nil, err
		}
		bundle, err := trust.ReadBundle(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c, err := closureOf(fsys, &bundle)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range cPaths(c) {
			n := NamedNar{Blob: c.Paths[i].Nar(), Of: c.Paths[i].Path}
			if _, n.Here = slices.BinarySearch(names, NarPath(n.Digest)); !seen[n.Digest] {
				seen[n.Digest] = true
				out = append(out, n)
			}
		}
	}
	slices.SortFunc(out, func(x, y NamedNar) int { return strings.Compare(string(x.Digest), string(y.Digest)) })
	return out, nil
}

func cPaths(c *fleet.Closure) []fleet.StorePath {
	if c == nil {
		return nil
	}
	return c.Paths
}

// sameArchives has store paths that the previous release brings keep the archives that they
// have there: the same commit is the same release whoever packs it, and nothing is sent again
// that was packed by another program. The source is not changed.
func (b *builder) sameArchives() error {
	known := map[string]fleet.StorePath{}
	learn := func(d digest.Digest) error {
		bundle := b.o.Previous.Bundles[d]
		c, err := closureOf(b.o.Previous.fsys, &bundle)
		if err != nil {
			return fmt.Errorf("the previous release: %w", err)
		}
		for _, p := range cPaths(c) {
			if _, have := known[p.Path]; !have {
				known[p.Path] = p
			}
		}
		return nil
	}
	bundles := maps.Clone(b.src.Bundles)
	for _, name := range slices.Sorted(maps.Keys(bundles)) {
		sb := bundles[name]
		c, err := sb.Closure()
		if err != nil {
			return err
		}
		if c == nil || b.o.Previous == nil {
			continue
		}
		if len(known) == 0 {
			for _, d := range b.newestFirst() {
				if err := learn(d); err != nil {
					return err
				}
			}
		}
		changed := false
		for i, p := range c.Paths {
			if old, have := known[p.Path]; have && old.NarHash == p.NarHash && slices.Equal(old.References, p.References) && !reflect.DeepEqual(old, p) {
				c.Paths[i], changed = old, true
			}
		}
		if !changed {
			continue
		}
		if bundles[name], err = sb.WithClosure(c); err != nil {
			return err
		}
		b.reused = append(b.reused, c)
	}
	src := *b.src
	src.Bundles, b.src = bundles, &src
	return nil
}

// newestFirst lists the bundles of the previous release: those that hosts have now, then those
// that they may go back to.
func (b *builder) newestFirst() []digest.Digest {
	var out []digest.Digest
	seen := map[digest.Digest]bool{}
	add := func(list []digest.Digest) {
		slices.Sort(list)
		for _, d := range list {
			if !seen[d] {
				seen[d] = true
				out = append(out, d)
			}
		}
	}
	var now []digest.Digest
	for _, h := range b.o.Previous.Roster.Value().Hosts {
		now = append(now, h.Bundle)
	}
	add(now)
	add(slices.Collect(maps.Keys(b.o.Previous.Bundles)))
	return out
}
