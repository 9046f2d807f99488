package operator

import (
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// FleetHealth sums up how well hosts are.
type FleetHealth struct {
	Status health.Status `json:"status"`
	health.Totals
	// Degraded are the first degraded hosts by name, at most MaxDegradedHosts.
	Degraded []DegradedHost `json:"degraded"`
}

// MaxDegradedHosts bounds how many degraded hosts a summary names.
const MaxDegradedHosts = 100

// DegradedHost is a host that does not run what it should.
type DegradedHost struct {
	Host string `json:"host"`
	plan.Degradation
}
