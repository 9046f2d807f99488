package host_test

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
)

// reboots checks S23: a host begins a reboot only under a claimed grant for what
// is staged, or on its way back, and never a second time for one activation.
func (h *history) reboots(t *rapid.T, before, s *host.State, in host.Input, effects []host.Effect) {
	for _, e := range effects {
		if _, ok := e.(host.BeginReboot); !ok {
			continue
		}
		switch {
		case s.Phase == host.Deferred && s.Reboot != "" && !s.Rebooted:
		case s.Phase == host.Failed && s.Reverting && !s.Rebooted:
		default:
			t.Fatalf("S23: reboots on %s in %+v", in.Kind(), *s)
		}
	}
	if before.Phase != host.Deferred || s.Phase != host.Activating {
		return
	}
	if b, ok := in.(host.Booted); ok && b.BootID == before.BootID {
		t.Fatalf("S23: goes on in the boot %q that it staged in", b.BootID)
	}
}

// staged is a host whose activation waits for a reboot, at 2000.
func staged(t *testing.T, policy func(*host.Offer)) *host.Agent {
	t.Helper()
	a := &host.Agent{Machine: host.State{Current: old}}
	o := forward("g1", fresh)
	if policy != nil {
		policy(&o)
	}
	a.Granted(o, 1000)
	a.Prepared("g1", 1000)
	step(t, a, a.ClaimAnswered("g1", true, "b1"), 1000)
	step(t, a, host.ActivationDeferred{Component: "kernel"}, 2000)
	if !a.Machine.Staged() || a.Due() != 0 {
		t.Fatalf("staged as %+v, due %d", a.Machine, a.Due())
	}
	return a
}

func step(t *testing.T, a *host.Agent, in host.Input, now clock.Instant) []host.Effect {
	t.Helper()
	effects, report, err := a.Step(in, now)
	if err != nil || !report {
		t.Fatalf("%s in %s: %v, reported %t", in.Kind(), a.Machine.Phase, err, report)
	}
	return effects
}

func reboot(id string) host.Offer {
	o := forward(id, fresh)
	o.Purpose = host.Reboot
	return o
}

// claimReboot has a host claim its reboot at 3000.
func claimReboot(t *testing.T, a *host.Agent) []host.Effect {
	t.Helper()
	only[host.Claim](t, a.Granted(reboot("g2"), 3000))
	only[host.Claim](t, a.Resume()) // the server may have committed it
	return step(t, a, a.ClaimAnswered("g2", true, "b1"), 3000)
}

func TestS23RebootOnlyUnderItsClaimedGrant(t *testing.T) {
	a := staged(t, nil)
	if e := step(t, a, host.Booted{BootID: "b1"}, 2500); len(e) != 0 || !a.Machine.Staged() {
		t.Fatalf("a restart of the agent does %+v", e)
	}
	other := reboot("g2")
	other.Plan = planTo(newest)
	if d := only[host.Decline](t, a.Granted(other, 2600)); d.Code != host.DeclineOtherRollout {
		t.Errorf("a reboot for another plan: %+v", d)
	}
	only[host.BeginReboot](t, claimReboot(t, a))
	if again := a.Granted(reboot("g2"), 3001); again != nil {
		t.Errorf("the same grant again: %+v", again)
	}
	if d := only[host.Decline](t, a.Granted(reboot("g3"), 3001)); d.Code != host.DeclineBusy {
		t.Errorf("a second reboot: %+v", d)
	}
	if d := only[host.Decline](t, a.Granted(forward("g4", newest), 3001)); d.Code != host.DeclineBusy {
		t.Errorf("a release while the host reboots: %+v", d)
	}
	only[host.BeginReboot](t, step(t, a, host.Booted{BootID: "b1"}, 3100)) // the agent restarted before the machine did
	only[host.Activate](t, step(t, a, host.Booted{BootID: "b2"}, 4000))
	only[host.StartProbes](t, step(t, a, host.Activated{Observed: fresh}, 5000))
	if m := &a.Machine; m.Phase != host.Soaking || m.Current != fresh || m.Grant != "g1" {
		t.Fatalf("after the reboot %+v", *m)
	}
}

// TestWrongBootGoesBack boots into something else than what was staged.
func TestWrongBootGoesBack(t *testing.T) {
	for name, in := range map[string]host.Input{
		"observed": host.Activated{Observed: old}, "failed": host.ActivationFailed{Code: "booted_other", Detail: "the old system"},
		"again": host.ActivationDeferred{Component: "kernel"},
	} {
		a := staged(t, nil)
		claimReboot(t, a)
		step(t, a, host.Booted{BootID: "b2"}, 4000)
		step(t, a, in, 5000)
		if m := &a.Machine; m.Phase != host.Failed || !m.Reverting {
			t.Errorf("%s: %+v", name, *m)
		}
	}
}

// TestRebootThatDoesNotComeFails lets the deadline pass, and has the command fail.
func TestRebootThatDoesNotComeFails(t *testing.T) {
	a := staged(t, nil)
	claimReboot(t, a)
	if a.Due() != clock.Instant(3000).Add(clock.Minute) {
		t.Fatalf("due at %d", a.Due())
	}
	step(t, a, host.Elapsed{}, a.Due())
	if a.Machine.Cause != host.RebootNotDone || !a.Machine.Reverting {
		t.Fatalf("%+v", a.Machine)
	}
	a = staged(t, nil)
	claimReboot(t, a)
	step(t, a, host.RebootFailed{Detail: "exit code 1"}, 3500)
	if a.Machine.Cause != host.RebootNotDone || a.Machine.Detail != "exit code 1" {
		t.Fatalf("%+v", a.Machine)
	}
}

// TestForeignRebootBootsWhatIsStaged has somebody else reboot the host, also while
// its claim is on its way: the grant is answered all the same.
func TestForeignRebootBootsWhatIsStaged(t *testing.T) {
	a := staged(t, nil)
	only[host.Claim](t, a.Granted(reboot("g2"), 3000))
	only[host.Activate](t, step(t, a, host.Booted{BootID: "b2"}, 4000))
	step(t, a, host.Activated{Observed: fresh}, 5000)
	if e := step(t, a, a.ClaimAnswered("g2", true, "b2"), 6000); len(e) != 0 {
		t.Fatalf("S23: reboots again: %+v", e)
	}
	if m := &a.Machine; m.Phase != host.Soaking || m.Reboot != "g2" {
		t.Fatalf("%+v", *m)
	}
}

// TestNextReleaseReplacesWhatIsStaged: a release may follow without the reboot;
// the way back is still to what ran.
func TestNextReleaseReplacesWhatIsStaged(t *testing.T) {
	a := staged(t, nil)
	only[host.Prepare](t, a.Granted(forward("g2", newest), 3000))
	a.Prepared("g2", 3000)
	step(t, a, a.ClaimAnswered("g2", true, "b1"), 3000)
	if m := &a.Machine; m.Phase != host.Activating || m.From != old || m.Target != newest {
		t.Fatalf("%+v", *m)
	}
	back := staged(t, nil) // also to the very bundle that runs: the staged one has to go
	only[host.Prepare](t, back.Granted(forward("g2", old), 3000))
}

// TestRevertMayRebootByItself: a host that failed needs no grant to get well, but
// at most one reboot for each attempt.
func TestRevertMayRebootByItself(t *testing.T) {
	a := staged(t, nil)
	claimReboot(t, a)
	step(t, a, host.Booted{BootID: "b2"}, 4000)
	step(t, a, host.ActivationFailed{Code: "x"}, 5000)
	only[host.BeginReboot](t, step(t, a, host.RevertDeferred{Component: "kernel"}, 6000))
	if !a.Machine.Rebooting() || a.Due() != clock.Instant(6000).Add(clock.Minute) {
		t.Fatalf("due at %d in %+v", a.Due(), a.Machine)
	}
	only[host.Revert](t, step(t, a, host.Booted{BootID: "b3"}, 7000))
	only[host.Revert](t, step(t, a, host.RevertDeferred{Component: "kernel"}, 8000))
	if a.Machine.RevertFailures != 1 {
		t.Fatalf("a second reboot in one attempt: %+v", a.Machine)
	}
	step(t, a, host.RevertCompleted{Observed: old}, 9000)
	if m := &a.Machine; m.Phase != host.Reverted || m.Deadline != 0 {
		t.Fatalf("%+v", *m)
	}
}

// TestRebootInputsOutsideTheirPhase are refused and change nothing.
func TestRebootInputsOutsideTheirPhase(t *testing.T) {
	plan := planTo(fresh)
	for _, in := range []host.Input{host.RebootClaimed{}, host.RebootFailed{}, host.RevertDeferred{}} {
		s := host.State{Phase: host.Pending, Current: old}
		next, _, err := host.Step(s, in, 1, &plan)
		if illegal := (*host.IllegalError)(nil); !errors.As(err, &illegal) || !reflect.DeepEqual(s, next) {
			t.Errorf("%s: %v", in.Kind(), err)
		}
	}
}

// TestS21WhatAHostGoesBackToIsNotQuarantined gives a host that is staged for another
// bundle the one that it runs: that this cannot be activated is no reason to refuse
// what it goes back to.
func TestS21WhatAHostGoesBackToIsNotQuarantined(t *testing.T) {
	a := staged(t, nil)
	o := forward("g2", old)
	o.Plan.Manifest, o.Plan.Rollout = "sha256:next", "c@next"
	a.Granted(o, 3000)
	a.Prepared("g2", 3000)
	step(t, a, a.ClaimAnswered("g2", true, "b1"), 3000)
	effects := step(t, a, host.ActivationFailed{Code: "exit-1"}, 4000)
	if m := &a.Machine; m.Target != old || m.From != old || !m.Reverting || len(effects) == 0 {
		t.Fatalf("%+v, %+v", *m, effects)
	}
	if a.Quarantined(old) {
		t.Fatal("the host goes back to what it quarantined")
	}
}
