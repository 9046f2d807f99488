package agent

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Effect is something to do, as data. Effects are carried out in order, after the
// state that caused them is durable; all may come again after a restart, and must
// be idempotent. The sum is sealed.
type Effect interface{ Run(Effects) error }

// Effects carries out every variant of Effect.
type Effects interface {
	Activate(Activate) error
	Revert(Revert) error
	Leave(Leave) error
	StartProbes(StartProbes) error
	Prepare(Prepare) error
	Claim(Claim) error
	Observe(Observe) error
	BeginRepairs(BeginRepairs) error
	CloseRepairs(CloseRepairs) error
	BeginReboot(BeginReboot) error
	Sweep(Sweep) error
	RunResources(RunResources) error
	StopResources(StopResources) error
}

// Activate makes a generation what the host runs, until Deadline.
type Activate struct {
	Generation
	Deadline clock.Instant
}

// Revert makes the earlier generation what the host runs again; an empty bundle
// means that nothing ran before and what was activated is removed.
type Revert struct{ Generation }

// Leave takes away what the host runs: its incarnation was removed from the fleet by a
// signed override.
type Leave struct{ Generation }

// StartProbes runs these probes from now on, instead of any that ran before; each
// runs once right away. What is observed is given back with the Round.
type StartProbes struct {
	Round  int64
	Probes []fleet.Probe
	Bundle digest.Digest // whose environment commands get
}

// Prepare fetches and verifies all that the plan's target needs, and checks that
// there is room, without changing anything that runs. Prepared or PrepareFailed
// follows. It ends when the offer is gone.
type Prepare struct{ Offer Offer }

// Claim asks the server to commit this host's claim of a grant, until it answers:
// it may have committed it, and only its answer can tell. With Verify the plan of
// the offer is verified once more before each attempt, and PrepareFailed follows if
// it does not hold any more. ClaimAnswered follows otherwise. It ends when the offer
// is gone.
type Claim struct {
	Offer  Offer
	Verify bool
}

// Observe asks for what is to be seen of the desired generation and of repairs:
// GenerationObserved and RepairsObserved follow.
type Observe struct{}

// BeginRepairs says that the repairs of these resources may begin under a grant,
// until an instant.
type BeginRepairs struct {
	Grant string
	Until clock.Instant
	Names []string
}

// CloseRepairs says that no repair may begin any more.
type CloseRepairs struct{ Grant string }

// BeginReboot starts the reboot of the machine; RebootFailed follows if it cannot.
type BeginReboot struct{ Reason string }

// Sweep removes content that none of these bundles needs.
type Sweep struct{ Keep []digest.Digest }

// RunResources has resources observed and acted on from now on, also those whose repair
// State.AdmitRepair put off until the server has answered. Nothing acts before the first.
type RunResources struct{}

// StopResources ends every act and begins none any more in this run of the process, and
// ends what is done about an offer: the host is parked.
type StopResources struct{ Parked Parked }

// Run calls the variant's method.
func (e Activate) Run(h Effects) error      { return h.Activate(e) }
func (e Revert) Run(h Effects) error        { return h.Revert(e) }
func (e Leave) Run(h Effects) error         { return h.Leave(e) }
func (e StartProbes) Run(h Effects) error   { return h.StartProbes(e) }
func (e Prepare) Run(h Effects) error       { return h.Prepare(e) }
func (e Claim) Run(h Effects) error         { return h.Claim(e) }
func (e Observe) Run(h Effects) error       { return h.Observe(e) }
func (e BeginRepairs) Run(h Effects) error  { return h.BeginRepairs(e) }
func (e CloseRepairs) Run(h Effects) error  { return h.CloseRepairs(e) }
func (e BeginReboot) Run(h Effects) error   { return h.BeginReboot(e) }
func (e Sweep) Run(h Effects) error         { return h.Sweep(e) }
func (e RunResources) Run(h Effects) error  { return h.RunResources(e) }
func (e StopResources) Run(h Effects) error { return h.StopResources(e) }
