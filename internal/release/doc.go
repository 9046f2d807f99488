// Package release turns a fleet folder into a signed release and back. It reads
// what people write (Load), resolves it (Build), writes and reads release
// folders, signs and refreshes them, and verifies a whole release the way
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
// Before it is signed, an envelope's place is taken by its bare payload under
// the same name with .payload.json at the end.
package release

import (
	_ "embed"
	"sync"

	"github.com/steadyfleet/steady/internal/strictdoc"
)

//go:embed fleet.schema.json
var fleetSchemaJSON []byte

//go:embed bundle.schema.json
var bundleSchemaJSON []byte

// Most commands read no document: schemas are compiled when the first one is read.
var (
	fleetSchema  = sync.OnceValue(func() *strictdoc.Schema { return strictdoc.MustSchema(fleetSchemaJSON) })
	bundleSchema = sync.OnceValue(func() *strictdoc.Schema { return strictdoc.MustSchema(bundleSchemaJSON) })
)

// Problem is one finding, with its file, line and column.
type Problem = strictdoc.Problem

// Fatal reports whether any problem is more than a warning.
func Fatal(ps []Problem) bool { return strictdoc.Fatal(ps) }
