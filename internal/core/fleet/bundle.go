package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Kinds of what a bundle declares in addition to containers.
const (
	KindFile   = "file"
	KindSystem = "system" // a step, or a system of Nix
)

// CriticalContainers is the critical name of a bundle with containers.
const CriticalContainers = "containers"

// Bundle is everything one host should run. It is named by the digest of its
// canonical bytes, which a manifest leaf signs; blobs are named by digest in
// turn.
type Bundle struct {
	Type  string `json:"_type"`
	Name  string `json:"name"`
	Files []File `json:"files"` // sorted by path, unique
	Exec  []Exec `json:"exec"`  // in order, names unique
	// Nix is nil in a bundle without a Nix system; else Critical names it.
	Nix *Nix `json:"nix,omitempty"`
	// Containers is nil in a bundle without any; else Critical names it.
	Containers *spec.Set `json:"containers,omitempty"`
	// Wipe says that nothing may be left of the host's earlier bundles; then Critical
	// names it.
	Wipe bool `json:"wipe,omitempty"`
	// Critical names fields that a reader must understand or refuse the whole:
	// an agent that does not know a kind must not run half a bundle.
	Critical []string `json:"critical,omitempty"`
}

// part is one row of what a bundle declares.
type part struct {
	// critical is named in Critical by every bundle that has any; empty: all agents know it.
	critical string
	ids      func(*Bundle) []spec.ID
	blobs    func(*Bundle) []spec.Blob
}

var parts = []part{
	{ids: func(b *Bundle) (out []spec.ID) {
		for _, f := range b.Files {
			out = append(out, spec.ID{Kind: KindFile, Name: f.Path})
		}
		return out
	}, blobs: func(b *Bundle) (out []spec.Blob) {
		for _, f := range b.Files {
			out = append(out, spec.Blob{Digest: f.Blob, Size: f.Size})
		}
		return out
	}},
	{ids: func(b *Bundle) (out []spec.ID) {
		for _, e := range b.Exec {
			out = append(out, spec.ID{Kind: KindSystem, Name: e.Name})
		}
		return out
	}},
	{critical: CriticalNix, ids: func(b *Bundle) []spec.ID {
		if b.Nix == nil {
			return nil
		}
		return []spec.ID{{Kind: KindSystem, Name: b.Nix.Name}}
	}, blobs: func(b *Bundle) []spec.Blob {
		if b.Nix == nil {
			return nil
		}
		return b.Nix.blobs()
	}},
	{critical: CriticalContainers, ids: func(b *Bundle) []spec.ID { return b.Containers.IDs() },
		blobs: func(b *Bundle) []spec.Blob { return b.Containers.Blobs() }},
}

// Resources names everything that the bundle declares.
func (b *Bundle) Resources() []spec.ID {
	var out []spec.ID
	for _, p := range parts {
		out = append(out, p.ids(b)...)
	}
	return out
}

// Criticals lists what Critical has to name.
func (b *Bundle) Criticals() []string {
	var out []string
	for _, p := range parts {
		if p.critical != "" && len(p.ids(b)) > 0 {
			out = append(out, p.critical)
		}
	}
	if b.Wipe {
		out = append(out, CriticalWipe)
	}
	slices.Sort(out)
	return out
}

// Blobs lists all content that travels with the bundle, by digest, each once.
func (b *Bundle) Blobs() []spec.Blob {
	var out []spec.Blob
	for _, p := range parts {
		if p.blobs != nil {
			out = append(out, p.blobs(b)...)
		}
	}
	slices.SortFunc(out, func(x, y spec.Blob) int {
		return cmp.Or(strings.Compare(string(x.Digest), string(y.Digest)), cmp.Compare(x.Size, y.Size))
	})
	return slices.Compact(out)
}

// File is one file that the agent keeps as declared, below its root folder.
type File struct {
	Path string `json:"path"` // slash-separated, relative, no "." or ".." parts
	Mode uint32 `json:"mode"` // permission bits
	// Owner is "user:group" by name or number; empty leaves what the agent runs as.
	Owner string        `json:"owner"`
	Blob  digest.Digest `json:"blob"`
	Size  int64         `json:"size"`
}

// Exec is a step of the system that commands make, for systems without a driver of
// their own. It runs when its generation becomes the active one. Revert
// runs when a later generation no longer declares the step, and when the host
// goes back from a generation that had begun it. Check, when set, tells later
// whether the step is still in effect; it never replaces running it.
// Commands are argument vectors run without a shell in the agent's root folder.
type Exec struct {
	Name     string         `json:"name"`
	Activate []string       `json:"activate"`
	Revert   []string       `json:"revert"`
	Check    []string       `json:"check"`
	Timeout  clock.Duration `json:"timeout"`
}

// CriticalNix is the critical name of a bundle with a Nix system.
const CriticalNix = "nix"

// Defaults of a Nix system, which are those of NixOS.
const (
	DefaultNixProfile = "/nix/var/nix/profiles/system"
	DefaultNixRunning = "/run/current-system"
	// DefaultNixReboot is the exit code with which switch-to-configuration of NixOS
	// says that the new init cannot take over until a reboot.
	DefaultNixReboot = 100
	// DefaultNixTimeout bounds a switch that declares none.
	DefaultNixTimeout = 5 * clock.Minute
	// MaxNixTimeout bounds what a system may ask for.
	MaxNixTimeout = clock.Hour
)

// Nix is the system of a host as a generation of a Nix profile.
type Nix struct {
	Name    string `json:"name"`
	Profile string `json:"profile"` // absolute
	// Path is the store path that the profile is set to; its
	// bin/switch-to-configuration makes it run.
	Path string `json:"path"`
	// Closure is what nix-store --export made of the path and all that it needs; nil
	// where the host's own substituters have the path.
	Closure *spec.Blob `json:"closure,omitempty"`
	// Paths is a Closure: the server has each path's archive. It is nil where Closure is not.
	// It is not critical: who does not know it looks for the same path in other caches.
	Paths *spec.Blob `json:"paths,omitempty"`
	// Running is a link that the switch and the boot point at what runs; nothing is
	// concluded where there is no such link.
	Running string `json:"running"`
	// Reboot are the exit codes that mean staged, needs a reboot.
	Reboot  []int          `json:"reboot"`
	Timeout clock.Duration `json:"timeout"` // of a switch, up to MaxNixTimeout
}

// blobs lists the content that travels with the system. The archives of Paths are not among
// it: a host takes those that its store lacks.
func (n *Nix) blobs() (out []spec.Blob) {
	for _, b := range []*spec.Blob{n.Closure, n.Paths} {
		if b != nil {
			out = append(out, *b)
		}
	}
	return out
}

// storePath has the alphabet of Nix's base 32. A store may be elsewhere than at
// /nix/store.
var storePath = regexp.MustCompile(`^(/[A-Za-z0-9+._-]+)+/[0-9abcdfghijklmnpqrsvwxyz]{32}-[A-Za-z0-9+._?=-]{1,211}$`)

// CheckNix reports the first thing that is wrong with a Nix system and the field
// that has it.
func CheckNix(n *Nix) (field string, err error) {
	if err := CheckName(n.Name); err != nil {
		return "name", err
	}
	for _, p := range []struct{ field, value string }{{"profile", n.Profile}, {"path", n.Path}, {"running", n.Running}} {
		if !absolute(p.value) {
			return p.field, fmt.Errorf("%s is %q: expected an absolute path without . or .. parts", p.field, p.value)
		}
	}
	if !storePath.MatchString(n.Path) {
		return "path", fmt.Errorf("path is %q: expected an exact store path such as /nix/store/<32 characters>-<name>", n.Path)
	}
	if n.Closure != nil && (n.Closure.Digest == "" || n.Closure.Size <= 0) {
		return "closure", fmt.Errorf("the closure is empty: expected the output of nix-store --export")
	}
	if n.Paths != nil && (n.Closure != nil || n.Paths.Digest == "" || n.Paths.Size <= 0 || n.Paths.Size > MaxClosure) {
		return "closure", fmt.Errorf("the list of store paths is empty, beyond %d bytes or beside a closure: expected one of them", int64(MaxClosure))
	}
	if n.Timeout <= 0 || n.Timeout > MaxNixTimeout {
		return "timeout", fmt.Errorf("timeout is %s: expected more than 0s and at most %s", n.Timeout, MaxNixTimeout)
	}
	for _, c := range n.Reboot {
		if c < 1 || c > 255 {
			return "rebootExitCodes", fmt.Errorf("exit code %d cannot ask for a reboot: expected 1 to 255", c)
		}
	}
	return "", nil
}

// absolute reports whether p is an absolute path in its shortest form.
func absolute(p string) bool {
	if len(p) < 2 || len(p) > 1024 || p[0] != '/' || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}
