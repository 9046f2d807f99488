package trust

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Caps of a bundle.
const (
	MaxFiles    = 10_000
	MaxExecs    = 1_000
	MaxPath     = 1024 // bytes, each part at most 255
	MaxFileSize = 1 << 40
)

var ownerPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,31})?$`)

// Bundle accepts the bundle that the host's plan names.
func (v Verifier) Bundle(p Verified[fleet.HostPlan], raw []byte) (Verified[fleet.Bundle], error) {
	var none Verified[fleet.Bundle]
	if err := needParent(p, "host plan"); err != nil {
		return none, err
	}
	d, err := named("bundle", raw, p.p.value.Target)
	if err != nil {
		return none, err
	}
	b, err := ReadBundle(raw)
	if err != nil {
		return none, err
	}
	return prove(b, d, p.p.at), nil
}

// ReadBundle decodes and checks a bundle without trusting it, for those who
// build or store bundles.
func ReadBundle(raw []byte) (fleet.Bundle, error) {
	var b fleet.Bundle
	if err := Decode(raw, MaxBundle, &b); err != nil {
		return fleet.Bundle{}, err
	}
	if err := CheckBundle(&b); err != nil {
		return fleet.Bundle{}, err
	}
	return b, nil
}

// ReadClosure decodes and checks the list of store paths of a bundle's Nix system, whose bytes
// have the digest that the bundle names.
func ReadClosure(n *fleet.Nix, raw []byte) (fleet.Closure, error) {
	var c fleet.Closure
	if _, err := named("list of store paths", raw, n.Paths.Digest); err != nil {
		return c, err
	}
	if err := Decode(raw, fleet.MaxClosure, &c); err != nil {
		return c, err
	}
	if err := fleet.CheckClosure(n, &c); err != nil {
		return c, refuse(Malformed, "system %q: %v", n.Name, err)
	}
	return c, nil
}

// CheckBundle refuses a bundle that could touch anything outside its root
// folder or that contradicts itself.
func CheckBundle(b *fleet.Bundle) error {
	if b.Type != fleet.TypeBundle {
		return refuse(ManifestVerifyFailed, "this is a %q, not a %q", b.Type, fleet.TypeBundle)
	}
	if err := fleet.CheckName(b.Name); err != nil {
		return refuse(Malformed, "bundle %v", err)
	}
	if len(b.Files) > MaxFiles || len(b.Exec) > MaxExecs {
		return refuse(Malformed, "bundle %s: %d files and %d steps, at most %d and %d", b.Name, len(b.Files), len(b.Exec), MaxFiles, MaxExecs)
	}
	for _, field := range b.Criticals() {
		if !slices.Contains(b.Critical, field) {
			return refuse(Malformed, "bundle %s has the field %s and does not name it critical", b.Name, field)
		}
	}
	if err := checkFiles(b); err != nil {
		return err
	}
	if err := checkContainers(b); err != nil {
		return err
	}
	seen := map[string]bool{}
	if b.Nix != nil {
		if _, err := fleet.CheckNix(b.Nix); err != nil {
			return refuse(Malformed, "bundle %s: system %q: %v", b.Name, b.Nix.Name, err)
		}
		seen[b.Nix.Name] = true
	}
	for _, e := range b.Exec {
		if err := fleet.CheckName(e.Name); err != nil {
			return refuse(Malformed, "bundle %s: step %v", b.Name, err)
		}
		if seen[e.Name] {
			return refuse(Malformed, "bundle %s: step %q is there twice", b.Name, e.Name)
		}
		seen[e.Name] = true
		if len(e.Activate) == 0 || e.Timeout < 0 {
			return refuse(Malformed, "bundle %s: step %q needs a command and a timeout that is not negative", b.Name, e.Name)
		}
		for _, argv := range [][]string{e.Activate, e.Revert, e.Check} {
			if len(argv) > 0 && argv[0] == "" || strings.ContainsRune(strings.Join(argv, ""), 0) {
				return refuse(Malformed, "bundle %s: step %q has an empty command or a NUL in one", b.Name, e.Name)
			}
		}
	}
	return nil
}

// checkContainers refuses containers that contradict themselves, content beyond
// its bounds, and a bundle that an agent without containers would run half of.
func checkContainers(b *fleet.Bundle) error {
	if b.Containers == nil {
		return nil
	}
	if b.Containers.Empty() {
		return refuse(Malformed, "bundle %s has an empty set of containers; expected none at all", b.Name)
	}
	if !b.Containers.Sorted() {
		return refuse(Malformed, "bundle %s: a list of containers is not in order of name", b.Name)
	}
	if problems := b.Containers.Check(); len(problems) > 0 {
		return refuse(Malformed, "bundle %s: containers: %s", b.Name, problems[0])
	}
	sizes := map[digest.Digest]int64{}
	for _, blob := range b.Blobs() {
		if size, seen := sizes[blob.Digest]; seen && size != blob.Size {
			return refuse(Malformed, "bundle %s: content %s has two sizes, %d and %d", b.Name, blob.Digest.Short(), size, blob.Size)
		}
		sizes[blob.Digest] = blob.Size
	}
	return nil
}

func checkFiles(b *fleet.Bundle) error {
	folders, last := map[string]bool{}, ""
	for _, f := range b.Files {
		if err := CheckPath(f.Path); err != nil {
			return refuse(Malformed, "bundle %s: %v", b.Name, err)
		}
		switch {
		case f.Path <= last:
			return refuse(Malformed, "bundle %s: file %q is not in order or there twice", b.Name, f.Path)
		case f.Mode > 0o777:
			return refuse(Malformed, "bundle %s: file %q has mode %o, beyond the permission bits", b.Name, f.Path, f.Mode)
		case f.Blob == "" || f.Size < 0 || f.Size > MaxFileSize:
			return refuse(Malformed, "bundle %s: file %q needs a blob and a size of 0 to %d", b.Name, f.Path, int64(MaxFileSize))
		case f.Owner != "" && !ownerPattern.MatchString(f.Owner):
			return refuse(Malformed, "bundle %s: file %q has owner %q; expected user or user:group", b.Name, f.Path, f.Owner)
		}
		last = f.Path
		for dir := path.Dir(f.Path); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, f := range b.Files {
		if folders[f.Path] {
			return refuse(Malformed, "bundle %s: %q is a file and a folder", b.Name, f.Path)
		}
	}
	return nil
}

// CheckPath refuses a path that is not relative, clean and slash-separated, or
// that a file system could read in more than one way.
func CheckPath(p string) error {
	if p == "" || len(p) > MaxPath || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return refuse(Malformed, "path %q is not relative and clean, or longer than %d bytes", p, MaxPath)
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > 255 {
			return refuse(Malformed, "path %q has a part longer than 255 bytes", p)
		}
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f || r == '\\' {
			return refuse(Malformed, "path %q has a control character or a backslash", p)
		}
	}
	return nil
}
