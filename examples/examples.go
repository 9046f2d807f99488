// Package examples holds fleets that load and build as they are. The quickstart
// is what steady init writes.
package examples

import "embed"

// Files holds the examples, one folder each.
//
//go:embed quickstart edge
var Files embed.FS
