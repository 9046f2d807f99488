package agent_test

import (
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
