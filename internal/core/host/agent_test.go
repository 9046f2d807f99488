package host_test

import (
	"reflect"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

func planTo(target digest.Digest) fleet.HostPlan {
	return fleet.HostPlan{Manifest: digest.Of([]byte("m" + string(target))), Rollout: "c@1", Target: target,
		Policy: fleet.Policy{ActivationDeadline: clock.Minute, OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: clock.Minute}}
}

func forward(id string, target digest.Digest) host.Offer {
	return host.Offer{Grant: id, Purpose: host.Forward, Term: 3, Plan: planTo(target), Expires: 5000}
}

func jump(id string, target digest.Digest) host.Offer {
	o := forward(id, target)
	o.Term = 1 << 62
	return o
}

func repair(id string, target digest.Digest) host.Offer {
	o := forward(id, target)
	o.Purpose = host.Repair
	return o
}

// only returns the single effect, or fails.
func only[E host.Effect](t *testing.T, effects []host.Effect) E {
	t.Helper()
	if len(effects) == 1 {
		if e, ok := effects[0].(E); ok {
			return e
		}
	}
	var want E
	t.Fatalf("effects are %+v, expected one %T", effects, want)
	return want
}

func TestAgentTakesAGrantThroughPrepareAndClaim(t *testing.T) {
	a := host.Agent{Machine: host.State{Current: old}}
	o := forward("g1", fresh)
	only[host.Prepare](t, a.Granted(o, 1000))
	if again := a.Granted(o, 1001); again != nil {
		t.Fatalf("offered again: %+v", again)
	}
	if a.Due() != o.Expires {
		t.Fatalf("due at %d, the offer expires at %d", a.Due(), o.Expires)
	}
	only[host.Prepare](t, a.Resume())
	only[host.Claim](t, a.Prepared("g1", 2000))
	only[host.Claim](t, a.Resume())
	if a.Due() != 0 || a.Expire(9000) != nil {
		t.Fatal("a prepared offer is dropped although the server may have committed its claim")
	}
	in := a.ClaimAnswered("g1", true, "b")
	want := host.Claimed{Grant: "g1", Rollout: "c@1", Manifest: o.Plan.Manifest, From: old, Target: fresh, BootID: "b"}
	if !reflect.DeepEqual(in, host.Input(want)) || a.Offer != nil {
		t.Fatalf("the claim is stepped as %+v", in)
	}
	effects, report, err := a.Step(in, 2000)
	if err != nil || !report {
		t.Fatal(err)
	}
	if e := only[host.Activate](t, effects); e.Target != fresh || e.Deadline != clock.Instant(2000).Add(clock.Minute) {
		t.Fatalf("activates %+v", e)
	}
	if late := a.Granted(o, 2001); late != nil || a.Offer != nil {
		t.Fatalf("S23: a grant that was acted on is taken again: %+v", late)
	}
}

func TestAgentDropsWhatItCannotTake(t *testing.T) {
	soaking := host.State{Phase: host.Soaking, Current: old, Rollout: "c@0"}
	for name, c := range map[string]struct {
		machine host.State
		offer   host.Offer
		code    string
	}{
		"an older term":         {host.State{}, host.Offer{Grant: "g", Term: 1, Plan: planTo(fresh)}, host.DeclineOldTerm},
		"while soaking":         {soaking, forward("g", fresh), host.DeclineBusy},
		"on its way back":       {host.State{Phase: host.Failed, Reverting: true}, forward("g", fresh), host.DeclineBusy},
		"what it refuses":       {host.State{}, forward("g", newest), host.DeclineQuarantined},
		"a jump of the term":    {host.State{}, jump("g", fresh), host.DeclineTermJump},
		"an unknown purpose":    {host.State{Phase: host.Converged, Current: fresh}, host.Offer{Grant: "g", Purpose: "dance", Term: 2}, host.DeclineUnsupported},
		"a repair of another":   {host.State{Phase: host.Converged, Current: fresh}, repair("g", fresh), host.DeclineOtherRollout},
		"a repair in flight":    {host.State{Phase: host.Soaking, Manifest: planTo(fresh).Manifest}, repair("g", fresh), host.DeclineBusy},
		"what it runs":          {host.State{Phase: host.Converged, Current: fresh}, forward("g", fresh), host.DeclineAtTarget},
		"back from elsewhere":   {soaking, host.Offer{Grant: "g", Purpose: host.Back, Term: 2, Plan: planTo(fresh)}, host.DeclineOtherRollout},
		"back when it went":     {host.State{Phase: host.Reverted, Manifest: planTo(fresh).Manifest}, host.Offer{Grant: "g", Purpose: host.Back, Term: 2, Plan: planTo(fresh)}, host.DeclineNothingToDo},
		"back before it began":  {host.State{Manifest: planTo(fresh).Manifest}, host.Offer{Grant: "g", Purpose: host.Back, Term: 2, Plan: planTo(fresh)}, host.DeclineNothingToDo},
		"a fix, when not fixed": {host.State{Phase: host.Failed, Current: fresh}, forward("g", newest), host.DeclineQuarantined},
	} {
		t.Run(name, func(t *testing.T) {
			a := host.Agent{Machine: c.machine, MaxTerm: 2, Quarantine: []host.QuarantineEntry{{Digest: newest, Reason: "failed"}}}
			if d := only[host.Decline](t, a.Granted(c.offer, 1)); d.Code != c.code || d.Detail == "" || d.Grant != "g" || a.Offer != nil {
				t.Fatalf("declined with %+v", d)
			}
		})
	}
}

func TestAgentExpiresAndFailsToPrepare(t *testing.T) {
	a := host.Agent{}
	a.Granted(forward("g1", fresh), 1)
	if a.Expire(4999) != nil {
		t.Fatal("expired early")
	}
	if d := only[host.Decline](t, a.Expire(5000)); d.Code != host.DeclineExpired || a.Offer != nil {
		t.Fatalf("declined with %+v", d)
	}
	a.Granted(forward("g2", fresh), 1)
	if a.PrepareFailed("g1", "x") != nil || a.Prepared("g1", 2) != nil || a.ClaimAnswered("g1", true, "b") != nil {
		t.Fatal("an answer for another grant was taken")
	}
	if d := only[host.Decline](t, a.PrepareFailed("g2", "no room")); d.Code != host.DeclinePrepare || d.Detail != "no room" {
		t.Fatalf("declined with %+v", d)
	}
	a.Granted(forward("g3", fresh), 1)
	if d := only[host.Decline](t, a.Prepared("g3", 5000)); d.Code != host.DeclineExpired || a.Offer != nil {
		t.Fatalf("declined with %+v", d)
	}
	a.Granted(forward("g4", fresh), 1)
	a.Prepared("g4", 2)
	if in := a.ClaimAnswered("g4", false, "b"); in != nil || a.Offer != nil {
		t.Fatalf("a refused claim is stepped as %+v", in)
	}
}

// TestS21FixGoesBackToWhatLastWorked checks that the grant of a fix to a host
// that failed and stayed keeps the bundle before the failure as the way back.
func TestS21FixGoesBackToWhatLastWorked(t *testing.T) {
	a := host.Agent{Machine: host.State{Phase: host.Failed, Current: fresh, From: old, Target: fresh}}
	only[host.Prepare](t, a.Granted(forward("g", newest), 1))
	a.Prepared("g", 2)
	if in, ok := a.ClaimAnswered("g", true, "b").(host.Claimed); !ok || in.From != old {
		t.Fatalf("stepped as %+v", in)
	}
}

// TestS24OrderBackAnsweredAfterTheHostWentByItself checks that a claimed order
// is always answered: the server would wait for ever otherwise.
func TestS24OrderBackAnsweredAfterTheHostWentByItself(t *testing.T) {
	for _, m := range []host.State{{Phase: host.Failed, Reverting: true, From: old}, {Phase: host.Reverted, From: old, Current: old}} {
		a := host.Agent{Machine: m}
		effects, report, err := a.Step(host.RevertClaimed{Grant: "back", Reason: "ordered"}, 5)
		if err != nil || !report || len(effects) > 0 || a.Machine.Grant != "back" || a.Machine.Phase != m.Phase {
			t.Fatalf("%s: %+v, reported %t, %v", m.Phase, a.Machine, report, err)
		}
	}
}

// TestDeadManBlamesTheBundleOnlyWhenContactComesBack checks decision 9: a server
// outage blames no bundle.
func TestDeadManBlamesTheBundleOnlyWhenContactComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		then   host.Input
		blamed bool
	}{"contact after the revert": {host.Contact{}, true}, "silence after the revert": {host.Elapsed{}, false}} {
		t.Run(name, func(t *testing.T) {
			a := host.Agent{Machine: host.State{Current: old}, Plan: planTo(fresh)}
			now := clock.Instant(1000)
			for _, in := range []host.Input{host.Claimed{Grant: "g", Manifest: a.Plan.Manifest, From: old, Target: fresh}, host.Activated{Observed: fresh}} {
				if _, _, err := a.Step(in, now); err != nil {
					t.Fatal(err)
				}
			}
			now = a.Due()
			effects, _, err := a.Step(host.Elapsed{}, now)
			if err != nil || a.Machine.Cause != host.ContactLost || only[host.Revert](t, effects).To != old {
				t.Fatalf("%+v, %v", a.Machine, err)
			}
			if _, _, err := a.Step(host.RevertCompleted{Observed: old}, now); err != nil || a.Quarantined(fresh) {
				t.Fatalf("blamed before anybody could tell: %v", err)
			}
			if _, _, err := a.Step(c.then, a.Due()); err != nil || a.Quarantined(fresh) != c.blamed || a.Due() != 0 {
				t.Fatalf("blamed: %t, due again at %d, %v", a.Quarantined(fresh), a.Due(), err)
			}
		})
	}
}

// TestRevertIsTriedAFewTimesAndThenLeftToAPerson bounds the attempts.
func TestRevertIsTriedAFewTimesAndThenLeftToAPerson(t *testing.T) {
	a := host.Agent{Machine: host.State{Phase: host.Failed, Reverting: true, From: old, Cause: host.ProbeFailing}}
	for i := 1; i <= host.MaxReverts; i++ {
		effects, _, err := a.Step(host.RevertFailed{Code: "exit", Detail: "1"}, 5)
		if err != nil || a.Machine.Reverting != (i < host.MaxReverts) || len(effects) > 0 != (i < host.MaxReverts) {
			t.Fatalf("attempt %d: %+v %+v %v", i, a.Machine, effects, err)
		}
	}
	if !a.Machine.InFlight() {
		t.Fatal("S1: a host that could not go back frees its slot")
	}
}
