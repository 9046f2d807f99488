// Package release turns what people wrote into a signed release and back. It
// resolves a source into a release (Build), writes and reads release folders, signs and refreshes them, and verifies a whole release the way
// servers and agents verify its parts.
//
// A release folder holds:
//
//	fleet.resolved.json              envelope, the snapshot
//	timestamp.json                   envelope, freshness of the snapshot
//	rollouts/CHANNEL@REF.json        envelope, a manifest's header
//	rollouts/CHANNEL@REF.leaves.json list of the canonical leaves
//	bundles/HEX.json, blobs/HEX, budgets/HEX.json
//	roster.json, revocations.json    named by digest in the snapshot
//	N.root.json                      the chain of roots
//
// Before it is signed, an envelope is replaced by its bare payload under
// the same name with .payload.json at the end.
package release

import (
	"slices"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

// Problem is one finding, with its file, line and column.
type Problem = strictyaml.Problem

// Join adds the findings of building to those of reading, each once.
func Join(first, then []Problem) []Problem {
	for _, p := range then {
		if !slices.Contains(first, p) {
			first = append(first, p)
		}
	}
	return first
}

// Fatal reports whether any problem is more than a warning.
func Fatal(ps []Problem) bool { return strictyaml.Fatal(ps) }
