// Package forge tries to make a Verified value that holds something. None of it
// compiles; the test of the trust package reads each line's error.
package forge

import (
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
)

var bundle fleet.Bundle

var (
	_ = trust.Verified[fleet.Bundle]{p: nil}
	_ = trust.Verified[fleet.Bundle]{bundle}
	_ = trust.Verified[fleet.Bundle](bundle)
	_ = trust.prove(bundle, "", 0, false)
	_ = &trust.proven[fleet.Bundle]{}
)

func change(v trust.Verified[fleet.Bundle], w trust.Verified[fleet.File]) {
	v.p = nil
	v = trust.Verified[fleet.Bundle](w)
}
