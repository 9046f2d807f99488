package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// TypeClosure is the type of the list of what a Nix system consists of.
const TypeClosure = "steady/closure/v1"

// Bounds of a closure.
const (
	// MaxClosurePaths is how many store paths it lists at most.
	MaxClosurePaths = 50_000
	// MaxClosure is the most bytes of its list.
	MaxClosure = 32 << 20
	// MaxNar is the most bytes of one archive, packed or unpacked.
	MaxNar = 64 << 30
)

// Closure lists the store paths that a Nix system consists of. The bundle names its bytes by
// digest, so that what signs the bundle signs every archive.
type Closure struct {
	Type  string      `json:"_type"`
	Paths []StorePath `json:"paths"` // what a path refers to comes before it
}

// StorePath is one path of a store and the archive that it is made of.
type StorePath struct {
	Path    string        `json:"path"`    // absolute
	NarHash digest.Digest `json:"narHash"` // of the unpacked archive
	NarSize int64         `json:"narSize"`
	// Content is the archive as it is kept and sent, in the compression named.
	Content     digest.Digest `json:"content"`
	Size        int64         `json:"size"`
	Compression string        `json:"compression"`
	References  []string      `json:"references"` // absolute, sorted; may have the path itself
	Deriver     string        `json:"deriver,omitempty"`
	// Signatures are those that the path had where it was taken, and CA is set where its
	// content names it.
	Signatures []string `json:"signatures,omitempty"`
	CA         string   `json:"ca,omitempty"`
}

// Nar is the archive as content.
func (p *StorePath) Nar() spec.Blob { return spec.Blob{Digest: p.Content, Size: p.Size} }

// Nars lists the archives, each once, in the order of the paths.
func (c *Closure) Nars() []spec.Blob {
	seen, out := map[digest.Digest]bool{}, []spec.Blob{}
	for i := range c.Paths {
		if n := c.Paths[i].Nar(); !seen[n.Digest] {
			seen[n.Digest] = true
			out = append(out, n)
		}
	}
	return out
}

// Compressions that Nix 2.8 and newer unpack.
var compressions = []string{"none", "xz", "bzip2", "gzip", "zstd", "br", "lzip", "lz4", "lzma", "compress", "grzip", "lrzip", "lzop"}

// oneLine is a value of a narinfo: it ends at the end of its line.
var oneLine = regexp.MustCompile(`^[\x21-\x7e]+( [\x21-\x7e]+)*$`)

// CheckClosure reports the first thing that is wrong with the list of a Nix system: it has to
// have the path of the system, and all that each path refers to before it.
func CheckClosure(n *Nix, c *Closure) error {
	if c.Type != TypeClosure {
		return fmt.Errorf("the list is a %q, expected a %q", c.Type, TypeClosure)
	}
	if len(c.Paths) > MaxClosurePaths {
		return fmt.Errorf("the list has %d paths, at most %d are allowed", len(c.Paths), MaxClosurePaths)
	}
	store := storeOf(n.Path)
	seen, sizes := map[string]bool{}, map[digest.Digest]int64{}
	for i := range c.Paths {
		p := &c.Paths[i]
		if err := checkStorePath(p, store, seen); err != nil {
			return fmt.Errorf("path %q: %w", p.Path, err)
		}
		if size, known := sizes[p.Content]; known && size != p.Size {
			return fmt.Errorf("path %q: its archive has two sizes, %d and %d", p.Path, size, p.Size)
		}
		seen[p.Path], sizes[p.Content] = true, p.Size
	}
	if !seen[n.Path] {
		return fmt.Errorf("the list does not have the system %s", n.Path)
	}
	return nil
}

func checkStorePath(p *StorePath, store string, before map[string]bool) error {
	switch {
	case !storePath.MatchString(p.Path) || storeOf(p.Path) != store:
		return fmt.Errorf("expected a path in the store %s", store)
	case before[p.Path]:
		return fmt.Errorf("it is listed twice")
	case !slices.Contains(compressions, p.Compression):
		return fmt.Errorf("compression %q is not known: expected one of %s", p.Compression, strings.Join(compressions, ", "))
	case p.NarSize <= 0 || p.NarSize > MaxNar || p.Size <= 0 || p.Size > MaxNar:
		return fmt.Errorf("sizes of %d and %d bytes: expected 1 to %d", p.Size, p.NarSize, int64(MaxNar))
	case p.Deriver != "" && !storePath.MatchString(p.Deriver):
		return fmt.Errorf("deriver %q: expected a store path", p.Deriver)
	}
	for _, d := range []digest.Digest{p.NarHash, p.Content} {
		if _, err := digest.Parse(string(d)); err != nil {
			return err
		}
	}
	for i, r := range p.References {
		if i > 0 && r <= p.References[i-1] {
			return fmt.Errorf("its references are not in order")
		}
		if r != p.Path && !before[r] {
			return fmt.Errorf("it refers to %s, which the list does not have before it", r)
		}
	}
	for _, text := range append(slices.Clone(p.Signatures), p.CA) {
		if text != "" && (len(text) > 1024 || !oneLine.MatchString(text)) {
			return fmt.Errorf("%.100q is no value of one line", text)
		}
	}
	return nil
}

func storeOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// Order sorts the paths of a closure so that what a path refers to comes before it, and by
// name where that leaves a choice. What it refers to and does not have stays out.
func (c *Closure) Order() {
	slices.SortFunc(c.Paths, func(a, b StorePath) int { return strings.Compare(a.Path, b.Path) })
	at := make(map[string]int, len(c.Paths))
	for i := range c.Paths {
		at[c.Paths[i].Path] = i
	}
	done, out := make([]bool, len(c.Paths)), make([]StorePath, 0, len(c.Paths))
	type step struct{ path, next int }
	for i := range c.Paths {
		stack := []step{{i, 0}} // a chain of references may be longer than a stack of calls is deep
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			refs := c.Paths[top.path].References
			if done[top.path] || top.next == len(refs) {
				if !done[top.path] {
					done[top.path] = true
					out = append(out, c.Paths[top.path])
				}
				stack = stack[:len(stack)-1]
				continue
			}
			r, known := at[refs[top.next]]
			top.next++
			if known && !done[r] && !slices.ContainsFunc(stack, func(s step) bool { return s.path == r }) {
				stack = append(stack, step{r, 0})
			}
		}
	}
	c.Paths = out
}
