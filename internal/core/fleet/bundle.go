package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
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
	Containers *container.Set `json:"containers,omitempty"`
	// Critical names fields that a reader must understand or refuse the whole:
	// an agent that does not know a kind must not run half a bundle.
	Critical []string `json:"critical,omitempty"`
}

// Blobs lists all content that travels beside the bundle, by digest, each once.
func (b *Bundle) Blobs() []container.Blob {
	out := b.Containers.Blobs()
	for i := range b.Files {
		out = append(out, container.Blob{Digest: b.Files[i].Blob, Size: b.Files[i].Size})
	}
	if b.Nix != nil && b.Nix.Closure != nil {
		out = append(out, *b.Nix.Closure)
	}
	slices.SortFunc(out, func(x, y container.Blob) int {
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
// whether the step is still in effect; it never stands in for running it.
// Commands are argument vectors run without a shell in the agent's root folder.
type Exec struct {
	Name     string         `json:"name"`
	Activate []string       `json:"activate"`
	Revert   []string       `json:"revert"`
	Check    []string       `json:"check"`
	Timeout  clock.Duration `json:"timeout"`
}
