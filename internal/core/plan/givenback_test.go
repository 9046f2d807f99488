package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS24ClaimedGrantThatIsGivenBackFreesItsSlot: a host whose claim was committed
// may find before it hears of that that it must not act. Any other decline may be
// of a grant that it acts on, and frees nothing.
func TestS24ClaimedGrantThatIsGivenBackFreesItsSlot(t *testing.T) {
	for code, freed := range map[string]bool{host.DeclinePrepare: true, host.DeclineExpired: true, host.DeclineGivenBack: true,
		host.DeclineOldTerm: false, host.DeclineBusy: false, host.DeclineAtTarget: false} {
		w := onOne(t, "h0")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
		w.tick()
		g := w.s.Hosts["h0"].Grant.ID
		w.commit(plan.Claim(w.s, "h0", g, w.now))
		h := w.s.Hosts["h0"]
		e := testkit.Value(event.NewEntry(1, event.HostSubject("h0"), event.GrantDeclined{Grant: g, Code: code, Detail: "stale"}))(t)
		e.Incarnation, e.HostSeq = 1, h.Seq+1
		w.commit(plan.Ingest(w.s, "h0", []event.Entry{e}, nil, event.HostHead{Incarnation: 1, Seq: e.HostSeq}, 0, w.now))
		if got := h.Grant == nil; got != freed {
			t.Errorf("%s: freed %t, expected %t", code, got, freed)
		}
		if claimed := w.s.Find("c@r2").Marks["h0"].Claimed; claimed == freed {
			t.Errorf("%s: the host counts as having acted: %t", code, claimed)
		}
	}
}
