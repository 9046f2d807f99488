package fleet

import (
	"cmp"
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
	// NixModes says that the Nix system is put into effect in another way than by default, which
	// an older agent would pass over; then Critical names it.
	NixModes bool `json:"nixModes,omitempty"`
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
	if b.NixModes || b.Nix != nil && b.Nix.OwnModes() {
		out = append(out, CriticalNixModes)
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
