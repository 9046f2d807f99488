// Package host is the machine of one host in one rollout. Step is the single
// function that moves it: the agent runs it on what happens to the host, and
// the server runs it again on the agent's reports, so the two cannot come to
// different conclusions from the same facts. Taking grants through prepare and
// claim is not the machine's: package agent does.
package host

import (
	"slices"
	"sort"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Phase is where a host stands in a rollout.
type Phase string

// The phases. Failed covers a host that is on its way back; Reverted is when it
// has arrived. Deferred is staged and needs a reboot.
const (
	Pending    Phase = "pending"
	Activating Phase = "activating"
	Soaking    Phase = "soaking"
	Converged  Phase = "converged"
	Failed     Phase = "failed"
	Reverted   Phase = "reverted"
	Deferred   Phase = "deferred"
)

// Phases lists every phase in the order of the happy path.
var Phases = []Phase{Pending, Activating, Soaking, Deferred, Converged, Failed, Reverted}

// Cause says why a host failed.
type Cause string

// The causes of failure. RevertOrdered is the only one that blames nothing on
// the host and does not count against a wave.
const (
	ActivationFailedCause Cause = "activation-failed"
	DeadlinePassed        Cause = "activation-deadline-passed"
	WrongGeneration       Cause = "wrong-generation"
	ProbeFailing          Cause = "probe-failing"
	ContactLost           Cause = "contact-lost"
	RebootNotDone         Cause = "reboot-not-done"
	RevertOrdered         Cause = "revert-ordered"
)

// ProbeState is what is known of one probe since activation.
type ProbeState struct {
	Name    string          `json:"name"`
	Mode    fleet.ProbeMode `json:"mode"`
	Seen    bool            `json:"seen"`
	Passing bool            `json:"passing"`
	// FailingSince is when it began to fail without a pass in between; zero
	// while it passes. It survives restarts.
	FailingSince clock.Instant `json:"failingSince,omitempty"`
	Reason       string        `json:"reason,omitempty"`
	// Evidence says that the probe reads evidence of compliance, and Failing which
	// controls it found not to pass, at most MaxResults.
	Evidence bool     `json:"evidence,omitempty"`
	Failing  []string `json:"failing,omitempty"`
}

// State is the machine's state. All instants are on the agent's clock.
type State struct {
	Phase    Phase         `json:"phase"`
	Rollout  string        `json:"rollout,omitempty"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	// Release is the signed version of that plan; zero where it was claimed before
	// claims told it.
	Release fleet.ReleaseVersion `json:"release,omitzero"`
	Grant   string               `json:"grant,omitempty"`
	Wave    int                  `json:"wave"`
	// From is the last known good bundle and the only revert target; empty when
	// the host ran nothing before.
	From   digest.Digest `json:"from,omitempty"`
	Target digest.Digest `json:"target,omitempty"`
	// Current is the bundle that the host was last seen to run in full.
	Current digest.Digest `json:"current,omitempty"`
	BootID  string        `json:"bootId,omitempty"`

	ClaimedAt clock.Instant `json:"claimedAt,omitempty"`
	Deadline  clock.Instant `json:"deadline,omitempty"` // of the activation, or of the reboot that is under way
	// Reboot is the claimed grant to boot what is staged, Rebooted that the machine
	// was rebooted for this activation or this attempt to go back.
	Reboot      string        `json:"reboot,omitempty"`
	Rebooted    bool          `json:"rebooted,omitempty"`
	CompletedAt clock.Instant `json:"completedAt,omitempty"`
	SoakFrom    clock.Instant `json:"soakFrom,omitempty"`
	// ConfirmBy is when the dead-man's switch fires; zero when it is off or the
	// server has been heard from since activation.
	ConfirmBy   clock.Instant `json:"confirmBy,omitempty"`
	ConvergedAt clock.Instant `json:"convergedAt,omitempty"`

	Probes []ProbeState `json:"probes,omitempty"` // sorted by name

	FailedAt  clock.Instant `json:"failedAt,omitempty"`
	Cause     Cause         `json:"cause,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Reverting bool          `json:"reverting,omitempty"`
	// RevertFailures counts failed attempts to go back; the agent gives up
	// after MaxReverts and the host stays Failed for a person.
	RevertFailures int           `json:"revertFailures,omitempty"`
	RevertedAt     clock.Instant `json:"revertedAt,omitempty"`
	// BlameBy ends the wait for contact after a dead-man revert: contact before it
	// with a server that has served since the activation shows that the bundle had
	// cut the host off, silence that the server was away.
	BlameBy clock.Instant `json:"blameBy,omitempty"`
}

// MaxReverts bounds the attempts to go back after a failure.
const MaxReverts = 3

// InFlight reports whether the host may be disrupted by its rollout: claimed
// and neither converged nor reverted. A failed host stays in flight until it
// has recovered.
func (s *State) InFlight() bool {
	switch s.Phase {
	case Activating, Soaking, Deferred, Failed:
		return true
	}
	return false
}

// AtRest reports whether the host is between rollouts: only then a repair
// needs a grant of its own. A host in flight holds its slot already.
func (s *State) AtRest() bool { return s.Phase == Converged || s.Phase == Reverted }

// Refuses reports whether the host quarantined its target as it went back from it. Of one
// that lost contact nobody else knows: it blames its bundle only if contact came back.
func (s *State) Refuses() bool {
	return s.Target != s.From && s.Cause != ContactLost && (s.Phase == Reverted || s.Phase == Failed && (s.Reverting || s.RevertFailures > 0))
}

// Healthy reports whether every enforce probe was seen since activation and
// passes now.
func (s *State) Healthy(plan *fleet.HostPlan) bool {
	for i := range plan.Probes {
		if plan.Probes[i].Mode != fleet.Enforce {
			continue
		}
		p := s.probe(plan.Probes[i].Name)
		if p == nil || !p.Seen || !p.Passing {
			return false
		}
	}
	return true
}

// Outstanding lists the controls of enforced evidence that do not pass now, each
// with its probe, sorted. A probe whose evidence cannot be read stands for its
// controls as a whole.
func (s *State) Outstanding() []string {
	var out []string
	for i := range s.Probes {
		p := &s.Probes[i]
		if !p.Evidence || p.Mode != fleet.Enforce || !p.Seen || p.Passing {
			continue
		}
		if len(p.Failing) == 0 {
			out = append(out, "probe "+p.Name+" as a whole")
		}
		for _, control := range p.Failing {
			out = append(out, control+" of probe "+p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// FailingProbes lists the enforce probes that fail now, in order of their names.
func (s *State) FailingProbes() []ProbeState {
	var out []ProbeState
	for i := range s.Probes {
		if p := &s.Probes[i]; p.Mode == fleet.Enforce && p.Seen && !p.Passing {
			out = append(out, *p)
		}
	}
	return out
}

func (s *State) probe(name string) *ProbeState {
	i, ok := sort.Find(len(s.Probes), func(i int) int { return strings.Compare(name, s.Probes[i].Name) })
	if !ok {
		return nil
	}
	return &s.Probes[i]
}

// edges is the graph of legal transitions. Claiming a new grant is legal from
// every phase in which no activation runs.
var edges = map[Phase][]Phase{
	"":         {Activating},
	Pending:    {Activating},
	Activating: {Soaking, Failed, Deferred},
	Deferred:   {Activating, Soaking, Failed},
	Soaking:    {Converged, Failed},
	Converged:  {Activating, Failed},
	Failed:     {Reverted, Activating},
	Reverted:   {Activating},
}

// Known reports whether a machine can be in a phase; one that has not begun is in none.
func (p Phase) Known() bool {
	switch p {
	case "", Pending, Activating, Soaking, Converged, Failed, Reverted, Deferred:
		return true
	}
	return false
}

// Legal reports whether a host may go from one phase to the other. Staying is
// always legal.
func Legal(from, to Phase) bool { return from == to || slices.Contains(edges[from], to) }

// moves are the phases between which each input can bring a machine, by its kind; stays are
// those in which it can leave one. An input of neither list is reported by no machine.
var (
	moves = map[string][][2]Phase{
		Claimed{}.Kind():            {{"", Activating}, {Pending, Activating}, {Deferred, Activating}, {Converged, Activating}, {Failed, Activating}, {Reverted, Activating}},
		Activated{}.Kind():          {{Activating, Soaking}, {Activating, Failed}, {Deferred, Soaking}, {Deferred, Failed}},
		ActivationFailed{}.Kind():   {{Activating, Failed}, {Deferred, Failed}},
		ActivationDeferred{}.Kind(): {{Activating, Deferred}, {Activating, Failed}},
		ProbeObserved{}.Kind():      {{Soaking, Converged}, {Soaking, Failed}},
		Contact{}.Kind():            {{Soaking, Converged}, {Soaking, Failed}},
		Elapsed{}.Kind():            {{Activating, Failed}, {Deferred, Failed}, {Soaking, Converged}, {Soaking, Failed}},
		RevertClaimed{}.Kind():      {{Activating, Failed}, {Deferred, Failed}, {Soaking, Failed}, {Converged, Failed}},
		RevertCompleted{}.Kind():    {{Failed, Reverted}},
		Booted{}.Kind():             {{Deferred, Activating}},
		RebootFailed{}.Kind():       {{Deferred, Failed}},
	}
	anywhere = []Phase{"", Pending, Activating, Soaking, Converged, Failed, Reverted, Deferred}
	stays    = map[string][]Phase{
		ProbeObserved{}.Kind(): anywhere, Contact{}.Kind(): anywhere, Elapsed{}.Kind(): anywhere, Booted{}.Kind(): anywhere,
		RevertClaimed{}.Kind(): {Failed, Reverted}, RevertFailed{}.Kind(): {Failed}, RevertDeferred{}.Kind(): {Failed},
		RebootClaimed{}.Kind(): anywhere[2:], RebootFailed{}.Kind(): {Failed},
	}
)

// Accepts reports whether any machine goes from one phase to the other by an input, whatever
// else it knows.
func Accepts(in Input, from, to Phase) bool {
	if from == to {
		return slices.Contains(stays[in.Kind()], from)
	}
	return slices.Contains(moves[in.Kind()], [2]Phase{from, to})
}
