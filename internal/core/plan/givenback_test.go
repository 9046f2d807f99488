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
	for code, freed := range map[string]bool{host.DeclinePrepare: true, host.DeclineExpired: true, host.DeclineGivenBack: true, host.DeclineAtTarget: true,
		host.DeclineOldTerm: false, host.DeclineBusy: false} {
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

// TestS1SharedIdentityFreesNoSlot: where two agents are one host, either may act on what the other
// gives back. Its slot stays taken until it enrols again.
func TestS1SharedIdentityFreesNoSlot(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1}))
	w.tick()
	h := w.s.Hosts["h0"]
	g := h.Grant.ID
	w.commit(plan.Claim(w.s, "h0", g, w.now))
	w.record("h0", event.HostForked{Incarnation: 1, Seq: h.Seq})
	e := testkit.Value(event.NewEntry(1, event.HostSubject("h0"), event.GrantDeclined{Grant: g, Code: host.DeclineExpired, Detail: "late"}))(t)
	e.Incarnation, e.HostSeq = 1, h.Seq+1
	w.commit(plan.Ingest(w.s, "h0", []event.Entry{e}, nil, event.HostHead{Incarnation: 1, Seq: e.HostSeq}, 0, w.now))
	w.tick()
	if h.Grant == nil || w.s.Hosts["h1"].Grant != nil {
		t.Fatalf("h0 has %+v, h1 %+v\n%s", h.Grant, w.s.Hosts["h1"].Grant, w.tail())
	}
	w.enrol("h0")
	w.presence("h0", true)
	w.live(20)
	w.expect("h0=converged/two h1=converged/two")
}
