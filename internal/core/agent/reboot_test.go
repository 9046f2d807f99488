package agent_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// staged is a host whose activation waits for a reboot, at 2000.
func staged(t *testing.T) *agent.State {
	t.Helper()
	s := &agent.State{Machine: host.State{Current: old, BootID: "b1"}}
	step(t, s, grant("g1", fresh), 1000)
	step(t, s, agent.Prepared{Grant: "g1"}, 1000)
	step(t, s, agent.ClaimAnswered{Grant: "g1", Accepted: true}, 1000)
	step(t, s, outcome(s, agent.Staged, "kernel"), 2000)
	if !s.Machine.Staged() || s.Due() != 0 {
		t.Fatalf("staged as %+v, due %d", s.Machine, s.Due())
	}
	return s
}

func reboot(id string) agent.Granted { return grantOf(host.Reboot, id, fresh) }

func boot(id string) agent.Started { return agent.Started{BootID: id} }

// claimReboot has a host claim its reboot at 3000.
func claimReboot(t *testing.T, s *agent.State) agent.Turn {
	t.Helper()
	only[agent.Claim](t, step(t, s, reboot("g2"), 3000))
	only[agent.Claim](t, step(t, s, boot("b1"), 3000)) // the server may have committed it
	return step(t, s, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 3000)
}

func TestS23RebootOnlyUnderItsClaimedGrant(t *testing.T) {
	a := staged(t)
	if e := step(t, a, boot("b1"), 2500); len(e.Effects) != 3 || !a.Machine.Staged() {
		t.Fatalf("a restart of the agent does %+v", e)
	}
	other := reboot("g2")
	other.Plan = planTo(newest)
	if d := reported[event.GrantDeclined](t, step(t, a, other, 2600)); d.Code != host.DeclineOtherRollout {
		t.Errorf("a reboot for another plan: %+v", d)
	}
	only[agent.BeginReboot](t, claimReboot(t, a))
	if again := step(t, a, reboot("g2"), 3001); again.Save {
		t.Errorf("the same grant again: %+v", again)
	}
	if d := reported[event.GrantDeclined](t, step(t, a, reboot("g3"), 3001)); d.Code != host.DeclineBusy {
		t.Errorf("a second reboot: %+v", d)
	}
	if d := reported[event.GrantDeclined](t, step(t, a, grant("g4", newest), 3001)); d.Code != host.DeclineBusy {
		t.Errorf("a release while the host reboots: %+v", d)
	}
	only[agent.BeginReboot](t, step(t, a, boot("b1"), 3100)) // the agent restarted before the machine did
	only[agent.Activate](t, step(t, a, boot("b2"), 4000))
	only[agent.StartProbes](t, step(t, a, outcome(a, agent.Complete, ""), 5000))
	if m := &a.Machine; m.Phase != host.Soaking || m.Current != fresh || m.Grant != "g1" {
		t.Fatalf("after the reboot %+v", *m)
	}
}

// TestWrongBootGoesBack boots into something else than what was staged.
func TestWrongBootGoesBack(t *testing.T) {
	for name, in := range map[string]agent.Outcome{"failed": agent.Broken, "again": agent.Staged} {
		a := staged(t)
		claimReboot(t, a)
		step(t, a, boot("b2"), 4000)
		step(t, a, outcome(a, in, "kernel"), 5000)
		if m := &a.Machine; m.Phase != host.Failed || !m.Reverting {
			t.Errorf("%s: %+v", name, *m)
		}
	}
}

// TestRebootThatDoesNotComeFails lets the deadline pass, and has the command fail.
func TestRebootThatDoesNotComeFails(t *testing.T) {
	a := staged(t)
	claimReboot(t, a)
	if a.Due() != clock.Instant(3000).Add(clock.Minute) {
		t.Fatalf("due at %d", a.Due())
	}
	step(t, a, agent.Elapsed{}, a.Due())
	if a.Machine.Cause != host.RebootNotDone || !a.Machine.Reverting {
		t.Fatalf("%+v", a.Machine)
	}
	a = staged(t)
	claimReboot(t, a)
	step(t, a, agent.RebootFailed{Detail: "exit code 1"}, 3500)
	if a.Machine.Cause != host.RebootNotDone || a.Machine.Detail != "exit code 1" {
		t.Fatalf("%+v", a.Machine)
	}
}

// TestForeignRebootBootsWhatIsStaged has somebody else reboot the host, also while
// its claim is on its way: the grant is answered all the same.
func TestForeignRebootBootsWhatIsStaged(t *testing.T) {
	a := staged(t)
	only[agent.Claim](t, step(t, a, reboot("g2"), 3000))
	only[agent.Activate](t, step(t, a, boot("b2"), 4000))
	step(t, a, outcome(a, agent.Complete, ""), 5000)
	if e := step(t, a, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 6000); len(e.Effects) != 0 {
		t.Fatalf("S23: reboots again: %+v", e)
	}
	if m := &a.Machine; m.Phase != host.Soaking || m.Reboot != "g2" {
		t.Fatalf("%+v", *m)
	}
}

// TestNextReleaseReplacesWhatIsStaged: a release may follow without the reboot;
// the way back is still to what ran.
func TestNextReleaseReplacesWhatIsStaged(t *testing.T) {
	a := staged(t)
	only[agent.Prepare](t, step(t, a, grant("g2", newest), 3000))
	step(t, a, agent.Prepared{Grant: "g2"}, 3000)
	step(t, a, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 3000)
	if m := &a.Machine; m.Phase != host.Activating || m.From != old || m.Target != newest {
		t.Fatalf("%+v", *m)
	}
	back := staged(t) // also to the very bundle that runs: the staged one has to go
	only[agent.Prepare](t, step(t, back, grant("g2", old), 3000))
}

// TestRevertMayRebootByItself: a host that failed needs no grant to get well, but
// at most one reboot for each attempt.
func TestRevertMayRebootByItself(t *testing.T) {
	a := staged(t)
	claimReboot(t, a)
	step(t, a, boot("b2"), 4000)
	step(t, a, outcome(a, agent.Broken, "x"), 5000)
	only[agent.BeginReboot](t, step(t, a, outcome(a, agent.Staged, "kernel"), 6000))
	if !a.Machine.Rebooting() || a.Due() != clock.Instant(6000).Add(clock.Minute) {
		t.Fatalf("due at %d in %+v", a.Due(), a.Machine)
	}
	only[agent.Revert](t, step(t, a, boot("b3"), 7000))
	only[agent.Revert](t, step(t, a, outcome(a, agent.Staged, "kernel"), 8000))
	if a.Machine.RevertFailures != 1 {
		t.Fatalf("a second reboot in one attempt: %+v", a.Machine)
	}
	step(t, a, outcome(a, agent.Complete, ""), 9000)
	if m := &a.Machine; m.Phase != host.Reverted || m.Deadline != 0 {
		t.Fatalf("%+v", *m)
	}
}

// TestS21WhatAHostGoesBackToIsNotQuarantined gives a host that is staged for another
// bundle the one that it runs: that this cannot be activated is no reason to refuse
// what it goes back to.
func TestS21WhatAHostGoesBackToIsNotQuarantined(t *testing.T) {
	a := staged(t)
	o := grant("g2", old)
	o.Plan.Manifest, o.Plan.Rollout = "sha256:next", "c@next"
	step(t, a, o, 3000)
	step(t, a, agent.Prepared{Grant: "g2"}, 3000)
	step(t, a, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 3000)
	turn := step(t, a, outcome(a, agent.Broken, "x"), 4000)
	if m := &a.Machine; m.Target != old || m.From != old || !m.Reverting || turn.Desired == nil {
		t.Fatalf("%+v, %+v", *m, turn)
	}
	if a.Quarantined(old) {
		t.Fatal("the host goes back to what it quarantined")
	}
}
