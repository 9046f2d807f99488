package agent

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Agent is one host's agent.
type Agent struct {
	cfg Config
}

// Open takes the state folder for this process and loads what is in it. It
// fails if another agent has it, or if the host was not enrolled.
func Open(cfg Config) (*Agent, error) {
	panic("filled in by the next commit")
}

// Run runs the agent until ctx ends or its database fails; the latter is an
// error and the process should end. It may be called once.
func (a *Agent) Run(ctx context.Context) error { panic("filled in by the next commit") }

// Close releases the state folder. Call it after Run has returned.
func (a *Agent) Close() error { panic("filled in by the next commit") }

// Status is a snapshot for people and tests.
type Status struct {
	Fleet       string                 `json:"fleet"`
	Host        string                 `json:"host"`
	Incarnation uint64                 `json:"incarnation"`
	BootID      string                 `json:"bootId"`
	Now         clock.Instant          `json:"now"` // on the agent's clock
	Machine     host.State             `json:"machine"`
	Offer       *host.Offer            `json:"offer,omitempty"`
	Quarantine  []host.QuarantineEntry `json:"quarantine,omitempty"`
	MaxTerm     uint64                 `json:"maxTerm"`
	LastSeq     uint64                 `json:"lastSeq"`  // of the newest event
	AckedSeq    uint64                 `json:"ackedSeq"` // the server holds it
	// LastContact is when the server last accepted a request; zero if never
	// since the agent started.
	LastContact clock.Instant `json:"lastContact"`
	// Server is the last error in talking to the server; empty when it answers.
	Server string `json:"server,omitempty"`
	// Refused is the last refusal of what the server gave, until it is cured.
	Refused string        `json:"refused,omitempty"`
	Current digest.Digest `json:"current,omitempty"`
}

// Status returns the agent's state as of its last committed input. It may be
// called from any goroutine, before, during and after Run.
func (a *Agent) Status() Status { panic("filled in by the next commit") }
