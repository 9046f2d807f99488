package host

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// TestS24WhatIsGivenBackIsNeverTakenAgain: the server may have committed the claim
// of a grant that the host then gave back, and offers it again.
func TestS24WhatIsGivenBackIsNeverTakenAgain(t *testing.T) {
	offer := Offer{Grant: "g1", Purpose: Forward, Term: 1, Expires: 1000,
		Plan: fleet.HostPlan{Manifest: "m", Target: "b"}}
	ways := map[string]func(a *Agent) []Effect{
		"it could not be prepared":    func(a *Agent) []Effect { return a.PrepareFailed("g1", "refused") },
		"it was prepared too late":    func(a *Agent) []Effect { return a.Prepared("g1", 2000) },
		"it expired in preparation":   func(a *Agent) []Effect { return a.Expire(2000) },
		"it was refused once claimed": func(a *Agent) []Effect { a.Prepared("g1", 10); return a.PrepareFailed("g1", "stale") },
	}
	for name, giveBack := range ways {
		a := &Agent{}
		a.Granted(offer, 1)
		effects := giveBack(a)
		if d, ok := effects[0].(Decline); !ok || !GivesBack(d.Code) || a.Offer != nil {
			t.Fatalf("%s: %+v, offer %+v", name, effects, a.Offer)
		}
		again := a.Granted(offer, 20)
		if d, ok := again[0].(Decline); !ok || d.Code != DeclineGivenBack || a.Offer != nil {
			t.Errorf("%s: offered again: %+v, offer %+v", name, again, a.Offer)
		}
		next := offer
		next.Grant = "g2"
		if a.Granted(next, 30); a.Offer == nil || a.Offer.Grant != "g2" {
			t.Errorf("%s: the next grant was not taken", name)
		}
	}
}

// TestS17OfferOfWhatIsQuarantinedSinceIsGivenBack: an offer of a later rollout may be
// at hand, or its claim under way, when the host comes to refuse its bundle.
func TestS17OfferOfWhatIsQuarantinedSinceIsGivenBack(t *testing.T) {
	reverted := State{Phase: Reverted, Manifest: "m1", Target: "b", Cause: ContactLost, BlameBy: 1000}
	staged := State{Phase: Deferred, Manifest: "m1", Target: "b", Rebooted: true}
	failing := fleet.HostPlan{Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt}}
	booted := func(a *Agent) {
		if _, _, err := a.Step(Booted{BootID: "another"}, 20); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		machine State
		purpose Purpose
		target  digest.Digest
		first   func(*Agent)
		in      Input
		gives   bool
	}{
		"contact came back":             {reverted, Forward, "b", nil, Contact{}, true},
		"contact came back to a fix":    {reverted, Forward, "b2", nil, Contact{}, false},
		"contact came back to a repair": {reverted, Repair, "b", nil, Contact{}, false},
		"what was staged failed":        {staged, Forward, "b", booted, ActivationFailed{Code: "exit-1"}, true},
		"what was staged needs a fix":   {staged, Forward, "b2", booted, ActivationFailed{Code: "exit-1"}, false},
	} {
		for _, claims := range []bool{false, true} {
			offer := Offer{Grant: "g1", Purpose: c.purpose, Expires: 1000, Prepared: claims, Plan: fleet.HostPlan{Manifest: "m2", Target: c.target}}
			a := &Agent{Machine: c.machine, Plan: failing, Offer: &offer}
			if c.first != nil {
				c.first(a)
			}
			effects, _, err := a.Step(c.in, 30)
			if err != nil || !a.Quarantined("b") {
				t.Fatalf("%s: quarantined %+v, %v", name, a.Quarantine, err)
			}
			var declined []Decline
			for _, e := range effects {
				if d, ok := e.(Decline); ok {
					declined = append(declined, d)
				}
			}
			if !c.gives {
				if len(declined) != 0 || a.Offer == nil {
					t.Errorf("%s, claims %t: declined with %+v, offer %+v", name, claims, declined, a.Offer)
				}
				continue
			}
			if len(declined) != 1 || declined[0].Grant != "g1" || !GivesBack(declined[0].Code) || a.Offer != nil || a.Declined != "g1" {
				t.Errorf("%s, claims %t: declined with %+v, offer %+v", name, claims, declined, a.Offer)
			}
			if in := a.ClaimAnswered("g1", true, "another"); in != nil {
				t.Errorf("%s: the claim that came too late is stepped as %+v", name, in)
			}
		}
	}
}
