package agent_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	old    = digest.Of([]byte("old"))
	fresh  = digest.Of([]byte("fresh"))
	newest = digest.Of([]byte("newest"))
)

func planTo(target digest.Digest) fleet.HostPlan {
	return fleet.HostPlan{Manifest: digest.Of([]byte("m" + string(target))), Rollout: "c@1", Target: target,
		Policy: fleet.Policy{ActivationDeadline: clock.Minute, OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: clock.Minute}}
}

// grant offers 4 seconds from 1000 on.
func grant(id string, target digest.Digest) agent.Granted {
	return agent.Granted{Grant: id, Purpose: host.Update, Term: 3, Plan: planTo(target), TTL: 4 * clock.Second}
}

func grantOf(purpose host.Purpose, id string, target digest.Digest) agent.Granted {
	g := grant(id, target)
	g.Purpose = purpose
	return g
}

// step gives a state an input.
func step(t testkit.T, s *agent.State, in agent.Input, now clock.Instant) agent.Turn {
	t.Helper()
	turn, err := s.Step(in, now)
	if err != nil {
		t.Fatalf("%+v: %v", in, err)
	}
	return turn
}

// only returns the single effect of a type, or fails.
func only[E agent.Effect](t testkit.T, turn agent.Turn) (e E) {
	t.Helper()
	n := 0
	for _, effect := range turn.Effects {
		if x, ok := effect.(E); ok {
			e, n = x, n+1
		}
	}
	if n != 1 {
		t.Fatalf("effects are %+v, expected one %T", turn.Effects, e)
	}
	return e
}

// reported returns the single event of a type, or fails.
func reported[E event.Event](t testkit.T, turn agent.Turn) (e E) {
	t.Helper()
	n := 0
	for _, ev := range turn.Events {
		if x, ok := ev.(E); ok {
			e, n = x, n+1
		}
	}
	if n != 1 {
		t.Fatalf("events are %+v, expected one %T", turn.Events, e)
	}
	return e
}

// nothing fails unless a turn causes nothing.
func nothing(t testkit.T, turn agent.Turn, why string) {
	t.Helper()
	if len(turn.Events) > 0 || len(turn.Effects) > 0 {
		t.Fatalf("%s: %+v", why, turn)
	}
}

// outcome is how far the generation of a state has come; of a state that a test made,
// what its machine asks for is desired.
func outcome(s *agent.State, o agent.Outcome, detail string) agent.GenerationObserved {
	if s.Generation == (agent.Generation{}) {
		s.Generation = agent.GenerationOf(&s.Machine)
	}
	return agent.GenerationObserved{Generation: s.Generation, Outcome: o, Code: "code", Detail: detail}
}

func TestAgentTakesAGrantThroughPrepareAndClaim(t *testing.T) {
	s := &agent.State{Machine: host.State{Current: old, BootID: "b"}}
	g := grant("g1", fresh)
	turn := step(t, s, g, 1000)
	only[agent.Prepare](t, turn)
	if !turn.Accepted || !turn.Save || s.Proof("g1", host.Update, g.Plan.Manifest) != agent.ProofIgnored {
		t.Fatalf("accepted %+v", turn)
	}
	nothing(t, step(t, s, g, 1001), "offered again")
	if s.Due() != 5000 {
		t.Fatalf("due at %d, the offer expires at 5000", s.Due())
	}
	only[agent.Prepare](t, step(t, s, agent.Started{BootID: "b", Current: old}, 1500))
	if c := only[agent.Claim](t, step(t, s, agent.Prepared{Grant: "g1"}, 2000)); !c.Verify {
		t.Fatal("an update is claimed without a look at its documents")
	}
	only[agent.Claim](t, step(t, s, agent.Started{BootID: "b", Current: old}, 2000))
	step(t, s, agent.RepairsObserved{}, 2000)
	if s.Due() != 0 {
		t.Fatal("a prepared offer has an end")
	}
	nothing(t, step(t, s, agent.Elapsed{}, 9000), "a prepared offer is dropped although the server may have committed its claim")
	turn = step(t, s, agent.ClaimAnswered{Grant: "g1", Accepted: true}, 2000)
	if e := reported[event.HostStepped](t, turn); e.Input != (host.Claimed{}).Kind() || s.Offer != nil || s.Machine.From != old || s.Machine.BootID != "b" {
		t.Fatalf("the claim is stepped as %+v to %+v", e, s.Machine)
	}
	if e := only[agent.Activate](t, turn); e.Bundle != fresh || e.Generation.Run != "g1" || e.Keep != old || e.Deadline != clock.Instant(2000).Add(clock.Minute) || *turn.Desired != e.Generation {
		t.Fatalf("activates %+v", e)
	}
	if nothing(t, step(t, s, g, 2001), "S23: a grant that was acted on is taken again"); s.Offer != nil {
		t.Fatal("it is at hand again")
	}
}

// TestStaleDocumentsGiveAClaimBack: nothing that was claimed is acted on under a stale
// timestamp, but for what goes back.
func TestStaleDocumentsGiveAClaimBack(t *testing.T) {
	stale := &agent.Refused{Rollout: "c@1", Check: "stale", Code: "stale", Detail: "too old"}
	s := &agent.State{}
	step(t, s, grant("g1", fresh), 1000)
	step(t, s, agent.Prepared{Grant: "g1"}, 1000)
	turn := step(t, s, agent.ClaimAnswered{Grant: "g1", Accepted: true, Stale: stale}, 2000)
	if d := reported[event.GrantDeclined](t, turn); d.Code != host.DeclinePrepare || reported[event.TrustRefused](t, turn).Check != "stale" || s.Machine.Phase != "" {
		t.Fatalf("%+v, %+v", d, s.Machine)
	}
	s = &agent.State{Machine: host.State{Phase: host.Soaking, Manifest: planTo(fresh).Manifest, From: old, Target: fresh}}
	if c := only[agent.Claim](t, step(t, s, grantOf(host.Rollback, "g2", fresh), 1000)); c.Verify {
		t.Fatal("going back asks for fresh documents")
	}
	only[agent.Revert](t, step(t, s, agent.ClaimAnswered{Grant: "g2", Accepted: true, Stale: stale}, 2000))
}

// TestRefusalsAreReportedOncePerCause: words differ from one try to the next.
func TestRefusalsAreReportedOncePerCause(t *testing.T) {
	s := &agent.State{}
	r := agent.Refused{Rollout: "c@1", Check: "stale", Code: "stale", Detail: "1 s too old"}
	reported[event.TrustRefused](t, step(t, s, r, 1))
	r.Detail = "2 s too old"
	if nothing(t, step(t, s, r, 2), "the same cause"); s.LastRefusal != r.Detail {
		t.Fatalf("people see %q", s.LastRefusal)
	}
	r.Rollout = "c@2"
	reported[event.TrustRefused](t, step(t, s, r, 3))
	if step(t, s, grant("g", fresh), 4); s.LastRefusal != "" {
		t.Fatal("what is cured is still shown")
	}
	reported[event.TrustRefused](t, step(t, s, r, 5))
}

// TestOnlyRequestsBegunSinceAreContact: an answer to what was asked before an
// activation completed says nothing of what it left.
func TestOnlyRequestsBegunSinceAreContact(t *testing.T) {
	s := &agent.State{Plan: planTo(fresh), Machine: host.State{Phase: host.Activating, Target: fresh, Grant: "g"}}
	before := s.Era()
	step(t, s, outcome(s, agent.Complete, ""), 1000)
	nothing(t, step(t, s, agent.Contact{Era: before}, 1001), "an answer to an earlier request")
	if !s.AwaitsContact() {
		t.Fatal("contact is not awaited")
	}
	reported[event.HostStepped](t, step(t, s, agent.Contact{Era: s.Era()}, 1002))
	nothing(t, step(t, s, agent.Contact{Era: s.Era()}, 1003), "contact that nobody awaits")
}

// TestProbesOfAnEarlierRoundSayNothing: the bundle changed meanwhile.
func TestProbesOfAnEarlierRoundSayNothing(t *testing.T) {
	plan := planTo(fresh)
	plan.Probes = []fleet.Probe{{Name: "p", Mode: fleet.Enforce}}
	s := &agent.State{Plan: plan, Machine: host.State{Phase: host.Activating, Target: fresh, Grant: "g"}}
	round := only[agent.StartProbes](t, step(t, s, outcome(s, agent.Complete, ""), 1000)).Round
	seen := host.ProbeObserved{Name: "p", Pass: true}
	nothing(t, step(t, s, agent.ProbeObserved{Round: round - 1, ProbeObserved: seen}, 1001), "an earlier round")
	reported[event.HostStepped](t, step(t, s, agent.ProbeObserved{Round: round, ProbeObserved: seen}, 1002))
}

// TestGenerationsOfAnotherRunSayNothing: only the run that the machine waits for moves it.
func TestGenerationsOfAnotherRunSayNothing(t *testing.T) {
	s := &agent.State{Plan: planTo(fresh), Machine: host.State{Phase: host.Activating, Target: fresh, Grant: "g2"}}
	outcome(s, agent.Unfinished, "")
	for _, g := range []agent.Generation{{Bundle: fresh, Run: "g1"}, {Bundle: old, Run: "g2"}, {Bundle: fresh, Run: "g2", Revert: true}} {
		for _, o := range []agent.Outcome{agent.Unfinished, agent.Complete, agent.Broken, agent.Staged} {
			nothing(t, step(t, s, agent.GenerationObserved{Generation: g, Outcome: o}, 1), "another run")
		}
	}
	nothing(t, step(t, s, outcome(s, agent.Unfinished, ""), 1), "under way")
	only[agent.StartProbes](t, step(t, s, outcome(s, agent.Complete, ""), 2))
}

func TestAgentDropsWhatItCannotTake(t *testing.T) {
	jump := grant("g", fresh)
	jump.Term = 1 << 62
	soaking := host.State{Phase: host.Soaking, Current: old, Rollout: "c@0"}
	for name, c := range map[string]struct {
		machine host.State
		offer   agent.Granted
		code    string
	}{
		"an older term":         {host.State{}, agent.Granted{Grant: "g", Term: 1, Plan: planTo(fresh)}, host.DeclineOldTerm},
		"while soaking":         {soaking, grant("g", fresh), host.DeclineBusy},
		"on its way back":       {host.State{Phase: host.Failed, Reverting: true}, grant("g", fresh), host.DeclineBusy},
		"what it refuses":       {host.State{}, grant("g", newest), host.DeclineQuarantined},
		"a jump of the term":    {host.State{}, jump, host.DeclineTermJump},
		"an unknown purpose":    {host.State{Phase: host.Converged, Current: fresh}, agent.Granted{Grant: "g", Purpose: "dance", Term: 2}, host.DeclineUnsupported},
		"a repair of another":   {host.State{Phase: host.Converged, Current: fresh}, grantOf(host.Repair, "g", fresh), host.DeclineOtherRollout},
		"a repair in flight":    {host.State{Phase: host.Soaking, Manifest: planTo(fresh).Manifest}, grantOf(host.Repair, "g", fresh), host.DeclineBusy},
		"what it runs":          {host.State{Phase: host.Converged, Current: fresh}, grant("g", fresh), host.DeclineAtTarget},
		"back from elsewhere":   {soaking, agent.Granted{Grant: "g", Purpose: host.Rollback, Term: 2, Plan: planTo(fresh)}, host.DeclineOtherRollout},
		"back when it went":     {host.State{Phase: host.Reverted, Manifest: planTo(fresh).Manifest}, agent.Granted{Grant: "g", Purpose: host.Rollback, Term: 2, Plan: planTo(fresh)}, host.DeclineNothingToDo},
		"back before it began":  {host.State{Manifest: planTo(fresh).Manifest}, agent.Granted{Grant: "g", Purpose: host.Rollback, Term: 2, Plan: planTo(fresh)}, host.DeclineNothingToDo},
		"a fix, when not fixed": {host.State{Phase: host.Failed, Current: fresh}, grant("g", newest), host.DeclineQuarantined},
	} {
		t.Run(name, func(t *testing.T) {
			s := &agent.State{Machine: c.machine, MaxTerm: 2, Quarantine: []agent.QuarantineEntry{{Digest: newest, Reason: "failed"}}}
			if d := reported[event.GrantDeclined](t, step(t, s, c.offer, 1)); d.Code != c.code || d.Detail == "" || d.Grant != "g" || s.Offer != nil {
				t.Fatalf("declined with %+v", d)
			}
		})
	}
}

func TestAgentExpiresAndFailsToPrepare(t *testing.T) {
	s := &agent.State{}
	step(t, s, grant("g1", fresh), 1000)
	nothing(t, step(t, s, agent.Elapsed{}, 4999), "expired early")
	if d := reported[event.GrantDeclined](t, step(t, s, agent.Elapsed{}, 5000)); d.Code != host.DeclineExpired || s.Offer != nil {
		t.Fatalf("declined with %+v", d)
	}
	step(t, s, grant("g2", fresh), 1000)
	for _, in := range []agent.Input{agent.PrepareFailed{Grant: "g1", Detail: "x"}, agent.Prepared{Grant: "g1"}, agent.ClaimAnswered{Grant: "g1", Accepted: true}} {
		nothing(t, step(t, s, in, 1001), "an answer for another grant")
	}
	if d := reported[event.GrantDeclined](t, step(t, s, agent.PrepareFailed{Grant: "g2", Detail: "no room"}, 1002)); d.Code != host.DeclinePrepare || d.Detail != "no room" {
		t.Fatalf("declined with %+v", d)
	}
	step(t, s, grant("g3", fresh), 1000)
	if d := reported[event.GrantDeclined](t, step(t, s, agent.Prepared{Grant: "g3"}, 5000)); d.Code != host.DeclineExpired || s.Offer != nil {
		t.Fatalf("declined with %+v", d)
	}
	step(t, s, grant("g4", fresh), 1000)
	step(t, s, agent.Prepared{Grant: "g4"}, 1001)
	if nothing(t, step(t, s, agent.ClaimAnswered{Grant: "g4"}, 1002), "a refused claim"); s.Offer != nil {
		t.Fatal("the offer is at hand although its claim was refused")
	}
}

// TestS21FixGoesBackToWhatLastWorked checks that the grant of a fix to a host
// that failed and stayed keeps the bundle before the failure as the way back.
func TestS21FixGoesBackToWhatLastWorked(t *testing.T) {
	s := &agent.State{Machine: host.State{Phase: host.Failed, Current: fresh, From: old, Target: fresh}}
	only[agent.Prepare](t, step(t, s, grant("g", newest), 1000))
	step(t, s, agent.Prepared{Grant: "g"}, 1001)
	if step(t, s, agent.ClaimAnswered{Grant: "g", Accepted: true}, 1002); s.Machine.From != old || s.Machine.Target != newest {
		t.Fatalf("stepped to %+v", s.Machine)
	}
}

// TestS24OrderBackAnsweredAfterTheHostWentByItself checks that a claimed order
// is always answered: the server would wait for ever otherwise.
func TestS24OrderBackAnsweredAfterTheHostWentByItself(t *testing.T) {
	for _, m := range []host.State{{Phase: host.Failed, Reverting: true, From: old}, {Phase: host.Reverted, From: old, Current: old}} {
		s := &agent.State{Machine: m, Offer: &agent.Offer{Grant: "back", Purpose: host.Rollback, Reason: "ordered", Prepared: true}}
		turn := step(t, s, agent.ClaimAnswered{Grant: "back", Accepted: true}, 5)
		if e := reported[event.HostStepped](t, turn); len(turn.Effects) > 0 || s.Machine.Grant != "back" || e.To != m.Phase {
			t.Fatalf("%s: %+v, %+v", m.Phase, s.Machine, turn)
		}
	}
}

// TestOrderThatMeetsAHostOnItsWayBack: the order is answered, and what runs already ends
// the way back, also over a restart.
func TestOrderThatMeetsAHostOnItsWayBack(t *testing.T) {
	s := &agent.State{Machine: host.State{Phase: host.Failed, Reverting: true, From: old, Target: fresh, Grant: "g1"}}
	s.Offer = &agent.Offer{Grant: "g2", Purpose: host.Rollback, Prepared: true}
	running := outcome(s, agent.Complete, "")
	if turn := step(t, s, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 1); turn.Desired != nil || s.Machine.Grant != "g2" {
		t.Fatalf("begins anew: %+v", turn)
	}
	if g := only[agent.Revert](t, step(t, s, agent.Started{BootID: "b"}, 2)).Generation; g != running.Generation {
		t.Fatalf("goes on with %+v instead of %+v", g, running.Generation)
	}
	if step(t, s, running, 3); s.Machine.Phase != host.Reverted {
		t.Fatalf("the end of what ran says nothing: %+v", s.Machine)
	}
}

// TestDeadManBlamesTheBundleOnlyWhenContactComesBack checks decision 9: a server
// outage blames no bundle.
func TestDeadManBlamesTheBundleOnlyWhenContactComesBack(t *testing.T) {
	for name, blamed := range map[string]bool{"contact after the revert": true, "silence after the revert": false} {
		t.Run(name, func(t *testing.T) {
			s := &agent.State{Plan: planTo(fresh), Machine: host.State{Phase: host.Activating, From: old, Current: old, Target: fresh, Grant: "g"}}
			step(t, s, outcome(s, agent.Complete, ""), 1000)
			now := s.Due()
			turn := step(t, s, agent.Elapsed{}, now)
			if e := only[agent.Revert](t, turn); s.Machine.Cause != host.ContactLost || e.Bundle != old || e.Leaving != fresh {
				t.Fatalf("%+v, %+v", s.Machine, e)
			}
			if step(t, s, outcome(s, agent.Complete, ""), now); s.Machine.Phase != host.Reverted || s.Quarantined(fresh) {
				t.Fatal("blamed before anybody could tell")
			}
			var in agent.Input = agent.Elapsed{}
			if blamed {
				in = agent.Contact{Era: s.Era()}
			}
			if step(t, s, in, s.Due()); s.Quarantined(fresh) != blamed || s.Due() != 0 {
				t.Fatalf("blamed: %t, due again at %d", s.Quarantined(fresh), s.Due())
			}
		})
	}
}

// TestRevertIsTriedAFewTimesAndThenLeftToAPerson bounds the attempts.
func TestRevertIsTriedAFewTimesAndThenLeftToAPerson(t *testing.T) {
	s := &agent.State{Machine: host.State{Phase: host.Failed, Reverting: true, From: old, Cause: host.ProbeFailing}}
	runs := map[string]bool{}
	for i := 1; i <= host.MaxReverts; i++ {
		turn := step(t, s, outcome(s, agent.Broken, "1"), 5)
		if s.Machine.Reverting != (i < host.MaxReverts) || len(turn.Effects) > 0 != (i < host.MaxReverts) {
			t.Fatalf("attempt %d: %+v %+v", i, s.Machine, turn)
		}
		if turn.Desired != nil {
			runs[turn.Desired.Run] = true
		}
	}
	if !s.Machine.InFlight() || len(runs) != host.MaxReverts-1 {
		t.Fatalf("S1: a host that could not go back frees its slot, or an attempt has no run of its own: %v", runs)
	}
}
