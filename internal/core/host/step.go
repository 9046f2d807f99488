package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// IllegalError reports an input that the machine cannot take in its phase. The
// state is unchanged; the caller logs and drops the input.
type IllegalError struct {
	Phase Phase
	Input string
	Why   string
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("input %s is not legal in phase %q: %s", e.Input, e.Phase, e.Why)
}

// Step moves a host by one input. It is pure: the same arguments give the same
// state and effects on the agent and on the server. plan is what the verified
// manifest says for this host and the rollout of s (for Claimed: of the input);
// now is on the agent's clock and must not be before any earlier now. The
// returned state may share its probes with s: nobody may write to them.
func Step(s State, in Input, now clock.Instant, plan *fleet.HostPlan) (State, []Effect, error) {
	t := &turn{s: s, now: now, plan: plan}
	if err := in.accept(t); err != nil {
		return s, nil, err
	}
	return t.s, t.effects, nil
}

// Due returns the next instant at which Elapsed would change the state, or zero.
func Due(s *State, plan *fleet.HostPlan) clock.Instant {
	switch s.Phase {
	case Activating, Deferred:
		return s.Deadline
	case Failed:
		if s.Reverting {
			return s.Deadline
		}
	case Soaking:
		due := s.ConfirmBy
		for i := range s.Probes {
			if p := &s.Probes[i]; p.Mode == fleet.Enforce && p.FailingSince != 0 {
				due = clock.Earliest(due, p.FailingSince.Add(plan.Policy.SustainedFailure))
			}
		}
		if s.ConfirmBy == 0 && s.Healthy(plan) {
			due = clock.Earliest(due, s.SoakFrom.Add(plan.Soak))
		}
		return due
	case Reverted:
		return s.BlameBy
	}
	return 0
}

// turn carries one Step.
type turn struct {
	s       State
	now     clock.Instant
	plan    *fleet.HostPlan
	effects []Effect
}

func (t *turn) illegal(in Input, why string) error {
	return &IllegalError{Phase: t.s.Phase, Input: in.Kind(), Why: why}
}

func (t *turn) emit(e Effect) { t.effects = append(t.effects, e) }

func (in Claimed) accept(t *turn) error {
	if t.s.Phase == Failed && t.s.Reverting {
		return t.illegal(in, "the host is on its way back")
	}
	if !Legal(t.s.Phase, Activating) || t.s.Phase == Activating || t.s.Rebooting() {
		return t.illegal(in, "an activation is under way")
	}
	if in.Target != t.plan.Target || in.Manifest != t.plan.Manifest {
		return t.illegal(in, "the claim is not of this plan")
	}
	t.s = State{
		Phase: Activating, Rollout: in.Rollout, Manifest: in.Manifest, Release: in.Release, Grant: in.Grant, Wave: in.Wave,
		From: in.From, Target: in.Target, Current: t.s.Current, BootID: in.BootID,
		ClaimedAt: t.now, Deadline: t.now.Add(t.plan.Policy.ActivationDeadline),
	}
	t.emit(Activate{Target: in.Target, Deadline: t.s.Deadline})
	return nil
}

func (in Activated) accept(t *turn) error {
	if t.s.Phase != Activating && t.s.Phase != Deferred {
		return t.illegal(in, "no activation is under way")
	}
	t.s.Current = in.Observed
	if in.Observed != t.s.Target {
		t.fail(WrongGeneration, "observed "+in.Observed.Short()+" instead of "+t.s.Target.Short())
		return nil
	}
	t.s.Phase = Soaking
	t.s.CompletedAt, t.s.SoakFrom = t.now, t.now
	if w := t.plan.Policy.ConfirmWindow; w > 0 {
		t.s.ConfirmBy = t.now.Add(w)
	}
	t.s.Probes = freshProbes(t.plan)
	t.emit(StartProbes{Probes: t.plan.Probes})
	return nil
}

func freshProbes(plan *fleet.HostPlan) []ProbeState {
	var ps []ProbeState
	for i := range plan.Probes {
		if p := &plan.Probes[i]; p.Mode != fleet.Disabled {
			ps = append(ps, ProbeState{Name: p.Name, Mode: p.Mode, Evidence: p.Evidence != nil})
		}
	}
	slices.SortFunc(ps, func(a, b ProbeState) int { return strings.Compare(a.Name, b.Name) })
	return ps
}

func (in ActivationFailed) accept(t *turn) error {
	if t.s.Phase != Activating && t.s.Phase != Deferred {
		return t.illegal(in, "no activation is under way")
	}
	t.fail(ActivationFailedCause, cmp.Or(in.Detail, in.Code))
	return nil
}

func (in ProbeObserved) accept(t *turn) error {
	if t.s.probe(in.Name) == nil {
		return t.illegal(in, "probe "+in.Name+" is not in the plan")
	}
	t.s.Probes = slices.Clone(t.s.Probes)
	p := t.s.probe(in.Name)
	flipped := p.Seen && p.Passing != in.Pass || in.Pass && p.FailingSince != 0
	p.Seen, p.Passing, p.Reason = true, in.Pass, in.Reason
	p.Failing = failing(in)
	if in.Pass {
		p.FailingSince, p.Reason = 0, ""
	} else if p.FailingSince == 0 {
		p.FailingSince = t.now
	}
	if flipped && p.Mode == fleet.Enforce && t.s.Phase == Soaking {
		t.s.SoakFrom = t.now // soak means continuously healthy
	}
	t.settle()
	return nil
}

// failing lists the controls of a look that do not pass, by name.
func failing(in ProbeObserved) []string {
	if in.Pass {
		return nil
	}
	var out []string
	for i := range in.Results[:min(len(in.Results), MaxResults)] {
		if r := &in.Results[i]; !r.Passed() {
			out = append(out, r.Control)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (in Contact) accept(t *turn) error {
	t.s.ConfirmBy = 0
	away := in.Served != 0 && t.now.Sub(t.s.CompletedAt) > in.Served // for a part of the window
	if t.s.BlameBy != 0 && away {
		t.s.BlameBy = 0
	}
	if t.s.BlameBy != 0 {
		t.s.BlameBy = 0
		t.refuse("contact came back after the revert: " + string(ContactLost))
	}
	t.settle()
	return nil
}

func (Elapsed) accept(t *turn) error {
	if t.s.Phase == Activating && t.s.Deadline.Reached(t.now) {
		t.fail(DeadlinePassed, "not complete after "+t.plan.Policy.ActivationDeadline.String())
		return nil
	}
	if t.s.Rebooting() && t.s.Deadline.Reached(t.now) {
		t.overdue()
		return nil
	}
	if t.s.Phase == Reverted && t.s.BlameBy.Reached(t.now) {
		t.s.BlameBy = 0 // the server was away: nothing is blamed on the bundle
	}
	t.settle()
	return nil
}

// settle applies what time and probes decide while soaking.
func (t *turn) settle() {
	if t.s.Phase != Soaking {
		return
	}
	for i := range t.s.Probes {
		p := &t.s.Probes[i]
		if p.Mode == fleet.Enforce && p.FailingSince != 0 && t.now.Sub(p.FailingSince) >= t.plan.Policy.SustainedFailure {
			t.fail(ProbeFailing, "probe "+p.Name+" failing for "+t.now.Sub(p.FailingSince).String()+": "+p.Reason)
			return
		}
	}
	if t.s.ConfirmBy.Reached(t.now) {
		t.fail(ContactLost, "no accepted contact with the server within "+t.plan.Policy.ConfirmWindow.String())
		return
	}
	// Convergence before confirmation would end the dead-man's switch early.
	if t.s.ConfirmBy == 0 && t.s.Current == t.s.Target && t.s.Healthy(t.plan) &&
		t.now.Sub(t.s.SoakFrom) >= t.plan.Soak {
		t.s.Phase, t.s.ConvergedAt = Converged, t.now
	}
}

// fail marks the host failed and, where the signed policy says so, sends it
// back. The dead-man's switch reverts under either policy: it has its own
// setting, and the one who could order otherwise cannot be heard.
func (t *turn) fail(c Cause, detail string) {
	t.s.Phase, t.s.FailedAt, t.s.Cause, t.s.Detail = Failed, t.now, c, detail
	t.s.ConfirmBy, t.s.Deadline = 0, 0
	if t.plan.Policy.OnHealthFailure == fleet.RollbackAndHalt || c == ContactLost {
		t.goBack()
	}
}

func (t *turn) goBack() {
	t.s.Reverting, t.s.Rebooted = true, false
	if t.s.Cause != ContactLost {
		t.refuse(string(t.s.Cause))
	}
	t.emit(Revert{To: t.s.From})
}

// refuse quarantines the target, unless it is what the host goes back to as well: a
// plan may name again what ran before the one that failed.
func (t *turn) refuse(reason string) {
	if t.s.Target != t.s.From {
		t.emit(Quarantine{Digest: t.s.Target, Reason: reason})
	}
}

func (in RevertClaimed) accept(t *turn) error {
	if t.s.Phase == Pending || t.s.Phase == "" {
		return t.illegal(in, "there is nothing to revert")
	}
	t.s.Grant = in.Grant
	if t.s.Phase == Reverted || t.s.Phase == Failed && t.s.Reverting {
		return nil // the host went back by itself while it claimed: the order is met, and its grant is answered
	}
	if t.s.Phase != Failed { // a failed host keeps the cause of its own failure
		t.s.Phase, t.s.FailedAt, t.s.Cause, t.s.Detail = Failed, t.now, RevertOrdered, in.Reason
	}
	t.s.ConfirmBy, t.s.Deadline, t.s.RevertFailures = 0, 0, 0
	t.goBack()
	return nil
}

func (in RevertCompleted) accept(t *turn) error {
	if t.s.Phase != Failed || !t.s.Reverting {
		return t.illegal(in, "no revert is under way")
	}
	if in.Observed != t.s.From {
		return t.illegal(in, "a revert goes to "+shortOrNothing(t.s.From)+" only")
	}
	t.s.Phase, t.s.Reverting, t.s.Current, t.s.RevertedAt = Reverted, false, in.Observed, t.now
	t.s.Deadline = 0
	t.s.Probes = nil
	if t.s.Cause == ContactLost {
		t.s.BlameBy = t.now.Add(t.plan.Policy.ConfirmWindow)
	}
	return nil
}

func (in RevertFailed) accept(t *turn) error {
	if t.s.Phase != Failed || !t.s.Reverting {
		return t.illegal(in, "no revert is under way")
	}
	t.s.RevertFailures++
	t.s.Deadline, t.s.Rebooted = 0, false
	t.s.Detail = "going back failed: " + cmp.Or(in.Detail, in.Code)
	if t.s.RevertFailures < MaxReverts {
		t.emit(Revert{To: t.s.From})
		return nil
	}
	t.s.Reverting = false
	return nil
}

func (in Booted) accept(t *turn) error {
	another := t.s.BootID != in.BootID
	t.s.BootID = in.BootID
	switch {
	case t.s.Phase == Activating:
		t.emit(Activate{Target: t.s.Target, Deadline: t.s.Deadline})
	case t.s.Phase == Deferred:
		t.bootedStaged(another)
	case t.s.Phase == Failed && t.s.Reverting:
		if another {
			t.s.Deadline, t.s.Rebooted = 0, true
		}
		t.emit(Revert{To: t.s.From})
	case t.s.Phase == Soaking:
		t.s.SoakFrom = t.now // nobody watched in between: each probe must be seen again
		t.s.Probes = slices.Clone(t.s.Probes)
		for i := range t.s.Probes {
			t.s.Probes[i].Seen = false
		}
		t.emit(StartProbes{Probes: t.plan.Probes})
	case t.s.Phase == Converged:
		t.emit(StartProbes{Probes: t.plan.Probes})
	case t.s.Phase == "" || t.s.Phase == Pending:
		t.s.Current = in.Current
	}
	return nil
}

func shortOrNothing(d digest.Digest) string {
	if d == "" {
		return "nothing"
	}
	return d.Short()
}

// Notable reports whether an input changed more than the reason why a probe
// fails. Only notable inputs are journalled and reported.
func Notable(before, after *State, in Input) bool {
	if before.Phase != after.Phase || before.ConfirmBy != after.ConfirmBy || before.BlameBy != after.BlameBy ||
		before.RevertFailures != after.RevertFailures || before.SoakFrom != after.SoakFrom {
		return true
	}
	switch in := in.(type) {
	case ProbeObserved:
		b, p := before.probe(in.Name), after.probe(in.Name)
		return b == nil || p == nil || b.Seen != p.Seen || b.Passing != p.Passing || !slices.Equal(b.Failing, p.Failing)
	case Contact, Elapsed:
		return false
	}
	return true
}
