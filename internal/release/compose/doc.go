// Package compose reads Compose files with the Compose Specification's own
// library and turns them into the container resources of a bundle. Every
// attribute of the specification is applied, or refused with the line and the
// reason, or named in a warning: Attributes says which. Nothing outside the
// bundle's folder is read, nothing is fetched, and no variable is read from the
// environment of the process.
package compose

import (
	"os"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// Problem is one finding, with its file, line and column.
type Problem = strictyaml.Problem

// Bounds of what is read.
const (
	MaxFiles     = 64        // Compose files of one bundle, included ones counted
	MaxFileBytes = 1 << 20   // of one Compose or environment file
	MaxNodes     = 50_000    // of one file, aliases expanded
	MaxDepth     = 32        // of nesting
	MaxPorts     = 1_024     // that one entry of ports may expand to
	MaxReplicas  = 100       // of one service
	MaxContent   = 64 << 20  // bytes of a config or an archive
	MaxTemplate  = 4 << 10   // bytes of a text with variables
	maxParents   = 8         // ".." in one path
	maxEnv       = 128 << 10 // bytes of one variable
	maxVariables = 1_000     // in the values of one environment file
)

// Options are what the result depends on besides the files.
type Options struct {
	// Name is the bundle's; it takes the place of Compose's project name.
	Name string
	// Environ are the variables that the files may use besides those of the .env
	// file next to the first one, over which they have precedence.
	Environ map[string]string
	// Profiles are those that are active.
	Profiles []string
	// Pin gives the reference of an image that is pulled with its digest, or says
	// what is wrong without one; it has no place in a file. Nil keeps references.
	Pin func(ref string) (pinned string, p *Problem)
}

// Loaded is what the files declare.
type Loaded struct {
	Set   spec.Set // normalized and valid
	Blobs map[digest.Digest][]byte
	// Files are all files of the folder that were read as Compose files, sorted.
	Files []string
	// Attributes are those of the specification that the files use, sorted.
	Attributes []string
}

// Load reads the files, merged in order, from the bundle's folder. The result is
// nil when a problem is more than a warning.
func Load(root *os.Root, files []string, o Options) (*Loaded, []Problem) {
	l := newLoad(root, files, o)
	defer l.close()
	loaded := l.run()
	problems := strictyaml.Sort(l.problems)
	if strictyaml.Fatal(problems) {
		return nil, problems
	}
	return loaded, problems
}
