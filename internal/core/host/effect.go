package host

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Effect is what a step of the machine asks of the host, as data. Package agent
// turns it into effects of its own. The sum is sealed.
type Effect interface{ Run(Effects) error }

// Effects carries out every variant of Effect.
type Effects interface {
	Activate(Activate) error
	Revert(Revert) error
	StartProbes(StartProbes) error
	Quarantine(Quarantine) error
	BeginReboot(BeginReboot) error
}

// Activate makes Target the desired generation. It is repeated after a restart
// and must be idempotent.
type Activate struct {
	Target   digest.Digest
	Deadline clock.Instant
}

// Revert makes To the desired generation again; an empty To means that nothing
// ran before and what was activated is taken away.
type Revert struct{ To digest.Digest }

// StartProbes runs these probes from now on, instead of any that ran before;
// each is looked at once right away.
type StartProbes struct{ Probes []fleet.Probe }

// Quarantine refuses Digest on this host until an operator clears it here.
type Quarantine struct {
	Digest digest.Digest
	Reason string
}

// Run calls the variant's method.
func (e Activate) Run(h Effects) error    { return h.Activate(e) }
func (e Revert) Run(h Effects) error      { return h.Revert(e) }
func (e StartProbes) Run(h Effects) error { return h.StartProbes(e) }
func (e Quarantine) Run(h Effects) error  { return h.Quarantine(e) }
