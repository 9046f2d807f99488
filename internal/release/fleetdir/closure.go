package fleetdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/trust"
)

// Nar is the archive of a store path, and where its bytes are.
type Nar struct {
	spec.Blob
	Of string // the store path
	// Link is a file that has the bytes and is never written to; empty for none.
	Link string
	Open func() (io.ReadCloser, error)
}

// storePaths makes the list of a system's store paths out of a binary cache in the bundle folder,
// or out of this machine's store.
func (l *bundleLoader) storePaths(at []string, d *systemDecl, n *fleet.Nix, blobs map[digest.Digest][]byte) {
	var c fleet.Closure
	var nars []Nar
	var err error
	if d.Copy {
		c, nars, err = ofStore(d.Path)
	} else {
		c, nars, err = l.ofCache(d.Closure, d.Path)
	}
	c.Type = fleet.TypeClosure
	c.Order()
	if err == nil {
		err = fleet.CheckClosure(n, &c)
	}
	var raw []byte
	if err == nil {
		raw, err = trust.Canonical(c)
	}
	if err == nil && len(raw) > min(fleet.MaxClosure, MaxBlob) {
		err = fmt.Errorf("the list of its store paths has %d bytes, at most %d are allowed", len(raw), min(fleet.MaxClosure, MaxBlob))
	}
	if err != nil {
		l.addf(at, "%v", err)
		return
	}
	n.Paths = &spec.Blob{Digest: digest.Of(raw), Size: int64(len(raw))}
	blobs[n.Paths.Digest] = raw
	l.nars = append(l.nars, nars...)
}

// ofCache reads a path and all that it refers to out of a binary cache, as nix copy --to
// file:// writes it.
func (l *bundleLoader) ofCache(folder, system string) (c fleet.Closure, nars []Nar, err error) {
	seen, todo := map[string]bool{system: true}, []string{system}
	for len(todo) > 0 {
		if len(seen) > fleet.MaxClosurePaths {
			return c, nil, fmt.Errorf("the cache %s has more than %d paths for %s", folder, fleet.MaxClosurePaths, system)
		}
		at := todo[0]
		todo = todo[1:]
		name := path.Join(folder, fleet.NarinfoName(at))
		text, err := l.root.ReadFile(name, fleet.MaxNarinfo)
		if err != nil {
			return c, nil, fmt.Errorf("%s of %s: %w: expected a binary cache that has it and all that it needs: nix copy --to file://$PWD/%s %s", "the narinfo", at, err, folder, system)
		}
		p, url, err := fleet.ParseNarinfo(text)
		if err != nil {
			return c, nil, fmt.Errorf("%s: %w: expected a narinfo, as nix copy --to file:// writes it", name, err)
		}
		if p.Path != at {
			return c, nil, fmt.Errorf("%s is of %s, expected %s: the cache holds another path of that hash", name, p.Path, at)
		}
		nar, err := l.cachedNar(path.Join(folder, url), &p)
		if err != nil {
			return c, nil, err
		}
		c.Paths, nars = append(c.Paths, p), append(nars, nar)
		for _, r := range p.References {
			if !seen[r] {
				seen[r] = true
				todo = append(todo, r)
			}
		}
	}
	return c, nars, nil
}

// cachedNar names an archive of a cache by its bytes, which are what its narinfo says.
func (l *bundleLoader) cachedNar(name string, p *fleet.StorePath) (Nar, error) {
	open := func() (io.ReadCloser, error) { return l.root.OpenFile(name) }
	f, err := open()
	if err != nil {
		return Nar{}, fmt.Errorf("%w: expected the archive of %s", err, p.Path)
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return Nar{}, fmt.Errorf("%q: %w", name, err)
	}
	got := digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil)))
	if p.Content != "" && p.Content != got || p.Size != 0 && p.Size != size {
		return Nar{}, fmt.Errorf("%q is damaged: %d bytes with digest %s, its narinfo says %d with %s; remove both and copy it again", name, size, got.Short(), p.Size, p.Content.Short())
	}
	p.Content, p.Size = got, size
	at := l.root.Path(name) // the folder is closed before the release is written
	return Nar{Blob: p.Nar(), Of: p.Path, Open: func() (io.ReadCloser, error) { return os.Open(at) }}, nil
}

// mostArguments bounds how many paths one command is given.
const mostArguments = 500

// ofStore lists a path and all that it refers to in this machine's store. Archives are named
// by the hash that Nix keeps of them, so that they are made once, when the release is written.
func ofStore(system string) (c fleet.Closure, nars []Nar, err error) {
	list, err := nixStore("--query", "--requisites", system)
	if err != nil {
		return c, nil, err
	}
	for paths := range slices.Chunk(strings.Fields(list), mostArguments) {
		dump, err := nixStore(append([]string{"--dump-db"}, paths...)...)
		if err != nil {
			return c, nil, err
		}
		more, err := registered(dump)
		if err != nil {
			return c, nil, err
		}
		c.Paths = append(c.Paths, more...)
	}
	for i := range c.Paths {
		p := c.Paths[i]
		nars = append(nars, Nar{Blob: p.Nar(), Of: p.Path, Open: func() (io.ReadCloser, error) { return dumped(p.Path) }})
	}
	return c, nars, nil
}

// registered reads what nix-store --dump-db prints: path, hash, size, deriver, the number of
// references and those, each on a line.
func registered(text string) (out []fleet.StorePath, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for len(lines) > 1 {
		broken := fmt.Errorf("nix-store --dump-db printed %.100q where a store path was expected", lines[0])
		if len(lines) < 5 {
			return nil, broken
		}
		n, err := strconv.Atoi(lines[4])
		if err != nil || n < 0 || len(lines) < 5+n {
			return nil, broken
		}
		p := fleet.StorePath{Path: lines[0], Deriver: lines[3], Compression: "none", References: slices.Sorted(slices.Values(lines[5 : 5+n]))}
		p.References = append([]string{}, p.References...)
		if p.NarHash, err = fleet.NixHash(digest.Prefix + strings.TrimPrefix(lines[1], digest.Prefix)); err != nil {
			return nil, broken
		}
		if p.NarSize, err = strconv.ParseInt(lines[2], 10, 64); err != nil {
			return nil, broken
		}
		p.Content, p.Size = p.NarHash, p.NarSize
		out, lines = append(out, p), lines[5+n:]
	}
	return out, nil
}

func nixStore(args ...string) (string, error) {
	cmd := exec.Command("nix-store", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("nix-store is not here, and copy takes the system from this machine's store: install Nix, or give closure a binary cache")
	case err != nil:
		return "", fmt.Errorf("nix-store %s: %w: %s: expected a path that this machine has built or fetched", args[0], err, strings.TrimSpace(said.String()))
	}
	return string(out), nil
}

// dumped is the archive of a store path as nix-store makes it.
func dumped(p string) (io.ReadCloser, error) {
	cmd := exec.Command("nix-store", "--dump", p)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return &dump{ReadCloser: out, cmd: cmd}, err
}

type dump struct {
	io.ReadCloser
	cmd *exec.Cmd
}

func (d *dump) Close() error { return errors.Join(d.ReadCloser.Close(), d.cmd.Wait()) }

// Closure reads the list of the store paths of the bundle's system; nil where it has none.
func (b *Bundle) Closure() (*fleet.Closure, error) {
	if b.Bundle.Nix == nil || b.Bundle.Nix.Paths == nil {
		return nil, nil
	}
	c, err := trust.ReadClosure(b.Bundle.Nix, b.Blobs[b.Bundle.Nix.Paths.Digest])
	return &c, err
}

// WithClosure is the bundle with another list of the same store paths. Archives that the list
// does not name are left out.
func (b *Bundle) WithClosure(c *fleet.Closure) (Bundle, error) {
	raw, err := trust.Canonical(c)
	if err != nil {
		return Bundle{}, err
	}
	next, n := *b, *b.Bundle.Nix
	next.Blobs = maps.Clone(b.Blobs)
	delete(next.Blobs, n.Paths.Digest)
	n.Paths = &spec.Blob{Digest: digest.Of(raw), Size: int64(len(raw))}
	next.Blobs[n.Paths.Digest] = raw
	next.Bundle.Nix = &n
	if next.Bytes, err = trust.Canonical(next.Bundle); err != nil {
		return Bundle{}, err
	}
	next.Digest = digest.Of(next.Bytes)
	named := map[digest.Digest]bool{}
	for _, nar := range c.Nars() {
		named[nar.Digest] = true
	}
	next.Nars = slices.DeleteFunc(slices.Clone(b.Nars), func(n Nar) bool { return !named[n.Digest] })
	return next, nil
}
