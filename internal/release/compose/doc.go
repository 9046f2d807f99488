// Package compose reads a Compose file with the Compose Specification's own
// library and turns it into the container resources of a bundle. What it cannot
// turn it refuses, with the line and the reason.
package compose

import (
	_ "github.com/compose-spec/compose-go/v2/cli"
	_ "github.com/compose-spec/compose-go/v2/loader"
	_ "github.com/compose-spec/compose-go/v2/types"
)
