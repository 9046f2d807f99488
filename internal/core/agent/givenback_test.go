package agent_test

import (
	"reflect"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// TestS24WhatIsGivenBackIsNeverTakenAgain: the server may have committed the claim
// of a grant that the host then gave back, and offers it again.
func TestS24WhatIsGivenBackIsNeverTakenAgain(t *testing.T) {
	offer := grant("g1", fresh)
	prepared := agent.Prepared{Grant: "g1"}
	for name, way := range map[string]struct {
		in agent.Input
		at clock.Instant
	}{
		"it could not be prepared":  {agent.PrepareFailed{Grant: "g1", Detail: "refused"}, 1002},
		"it was prepared too late":  {prepared, 9000},
		"it expired in preparation": {agent.Elapsed{}, 9000},
	} {
		for _, claims := range []bool{false, way.at == 1002} { // what is claimed has no end of its own
			s := &agent.State{}
			step(t, s, offer, 1000)
			if claims {
				step(t, s, prepared, 1001)
			}
			if d := reported[event.GrantDeclined](t, step(t, s, way.in, way.at)); !host.GivesBack(d.Code) || s.Offer != nil {
				t.Fatalf("%s: %+v, offer %+v", name, d, s.Offer)
			}
			if d := reported[event.GrantDeclined](t, step(t, s, offer, 11000)); d.Code != host.DeclineGivenBack || s.Offer != nil {
				t.Errorf("%s: offered again: %+v, offer %+v", name, d, s.Offer)
			}
			if step(t, s, grant("g2", fresh), 11001); s.Offer == nil || s.Offer.Grant != "g2" {
				t.Errorf("%s: the next grant was not taken", name)
			}
		}
	}
}

// TestS17OfferOfWhatIsQuarantinedSinceIsGivenBack: an offer of a later rollout may be
// at hand, or its claim under way, when the host comes to refuse its bundle.
func TestS17OfferOfWhatIsQuarantinedSinceIsGivenBack(t *testing.T) {
	reverted := host.State{Phase: host.Reverted, Manifest: "m1", Target: "b", Cause: host.ContactLost, BlameBy: 1000}
	staged := host.State{Phase: host.Deferred, Manifest: "m1", Target: "b", Rebooted: true}
	failing := fleet.HostPlan{Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt}}
	for name, c := range map[string]struct {
		machine host.State
		purpose host.Purpose
		target  digest.Digest
		gives   bool
	}{
		"contact came back":             {reverted, host.Update, "b", true},
		"contact came back to a fix":    {reverted, host.Update, "b2", false},
		"contact came back to a repair": {reverted, host.Repair, "b", false},
		"what was staged failed":        {staged, host.Update, "b", true},
		"what was staged needs a fix":   {staged, host.Update, "b2", false},
	} {
		for _, claims := range []bool{false, true} {
			offer := agent.Offer{Grant: "g1", Purpose: c.purpose, Expires: 1000, Prepared: claims, Plan: fleet.HostPlan{Manifest: "m2", Target: c.target}}
			s := &agent.State{Machine: c.machine, Plan: failing, Offer: &offer}
			var in agent.Input = agent.Contact{}
			if c.machine.Phase == host.Deferred {
				step(t, s, agent.Started{BootID: "another"}, 20)
				in = outcome(s, agent.Broken, "exit-1")
			}
			turn := step(t, s, in, 30)
			if !s.Quarantined("b") {
				t.Fatalf("%s: quarantined %+v", name, s.Quarantine)
			}
			if !c.gives {
				if s.Offer == nil {
					t.Errorf("%s, claims %t: declined with %+v", name, claims, turn.Events)
				}
				continue
			}
			if d := reported[event.GrantDeclined](t, turn); d.Grant != "g1" || !host.GivesBack(d.Code) || s.Offer != nil || s.Declined != "g1" {
				t.Errorf("%s, claims %t: declined with %+v, offer %+v", name, claims, d, s.Offer)
			}
			nothing(t, step(t, s, agent.ClaimAnswered{Grant: "g1", Accepted: true}, 31), "the claim that came too late")
		}
	}
}

// TestS24ClaimThatTheMachineDoesNotTakeIsGivenBack: the machine may go on by itself
// while a fix for what is staged is claimed. Only this host's report ends the grant.
func TestS24ClaimThatTheMachineDoesNotTakeIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		then  []agent.Outcome
		phase host.Phase
		gives bool
	}{
		"what is staged is booted": {nil, host.Activating, true},
		"it soaks":                 {[]agent.Outcome{agent.Complete}, host.Soaking, true},
		"it goes back":             {[]agent.Outcome{agent.Broken}, host.Failed, true},
		"it went back":             {[]agent.Outcome{agent.Broken, agent.Complete}, host.Reverted, false},
	} {
		s := staged(t)
		step(t, s, grant("g2", newest), 3000)
		only[agent.Claim](t, step(t, s, agent.Prepared{Grant: "g2"}, 3001))
		step(t, s, boot("b2"), 4000)
		for i, o := range c.then {
			step(t, s, outcome(s, o, "exit-1"), clock.Instant(4001+i))
		}
		if s.Machine.Phase != c.phase {
			t.Fatalf("%s: %+v", name, s.Machine)
		}
		plan, machine := s.Plan, s.Machine
		turn := step(t, s, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 5000)
		if !c.gives {
			if s.Machine.Grant != "g2" || s.Plan.Target != newest {
				t.Errorf("%s: not begun: %+v", name, s.Machine)
			}
			continue
		}
		if d := reported[event.GrantDeclined](t, turn); d.Grant != "g2" || !host.GivesBack(d.Code) || s.Offer != nil || s.Declined != "g2" {
			t.Errorf("%s: declined with %+v, offer %+v", name, d, s.Offer)
		}
		if !reflect.DeepEqual(s.Machine, machine) || !reflect.DeepEqual(s.Plan, plan) {
			t.Errorf("%s: machine %+v goes on by the plan of %q", name, s.Machine, s.Plan.Target)
		}
		if d := reported[event.GrantDeclined](t, step(t, s, grant("g2", newest), 5001)); d.Code != host.DeclineGivenBack {
			t.Errorf("%s: offered again: %+v", name, d)
		}
	}
}
