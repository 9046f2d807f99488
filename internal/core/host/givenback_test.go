package host

import (
	"testing"

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
