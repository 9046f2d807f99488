package operator

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Server is the process that answers, and what it finds of itself.
type Server struct {
	Version   string        `json:"version"`
	Term      uint64        `json:"term"`
	StartedAt clock.Instant `json:"startedAt"`
	// LastBackup is of the data folder; zero where none is marked.
	LastBackup clock.Instant `json:"lastBackup"`
	// Problems keep it from taking in or granting anything, as the route of readiness says.
	Problems []health.ServerProblem `json:"problems"`
}

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
