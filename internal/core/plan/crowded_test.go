package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// restore puts the log back to its first entries. The hosts send again what it
// lost of theirs.
func (w *world) restore(upTo int) {
	w.t.Helper()
	lost := slices.Clone(w.log[upTo:])
	w.s, w.log, w.audit = w.fold(upTo), w.log[:upTo:upTo], audit.NewLog(w.docs)
	w.s.Lead(plan.Run(1, "after"))
	for i, e := range w.log {
		w.audit.Observe(uint64(i+1), e)
	}
	slices.Reverse(lost)
	for _, e := range lost {
		if event.FromHost(e.Type) {
			m := w.hosts[e.Host()]
			m.outbox = append([]event.Entry{e}, m.outbox...)
		}
	}
}

// TestS1ClaimNeedsTheSlotThatItsOfferCounted has a server that was restored from a
// backup offer a slot that a host took under a claim that the backup lacks. The host
// says so before the offer is claimed.
func TestS1ClaimNeedsTheSlotThatItsOfferCounted(t *testing.T) {
	for _, c := range []struct {
		name    string
		members string // of the release that h0 took
		offer   func(w *world, h1 *machine)
		purpose host.Purpose
		refused bool
	}{
		{"forward", "h0 h1", func(w *world, _ *machine) { w.tick() }, host.Update, true},
		{"repair", "h0", func(w *world, _ *machine) { w.drift("h1") }, host.Repair, true},
		{"reboot", "h0 h1", func(w *world, h1 *machine) {
			w.tick()
			h1.stages = true
			w.stage("h1")
			w.tick()
		}, host.Reboot, true},
		{"in the slot of its failure", "h0 h1", func(w *world, h1 *machine) {
			w.tick()
			h1.poll()
			h1.prepare(true)
			h1.claim(false)
			h1.activated(false)
			h1.deliver()
			w.tick()
			w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2]}))
			w.tick()
		}, host.Update, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := budgeted(t, "h0 h1", 1)
			w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: c.members, target: bundles[1], policy: fleet.Halt}))
			backup := len(w.log)
			w.tick()
			h0, h1 := w.hosts["h0"], w.hosts["h1"]
			h0.poll()
			h0.prepare(true)
			h0.claim(false)
			h0.deliver()
			w.restore(backup)
			w.presence("h0", false)
			c.offer(w, h1)
			g := w.s.Hosts["h1"].Grant
			if g == nil || g.Purpose != c.purpose || g.Claimed {
				t.Fatalf("h1 was granted %+v\n%s", g, w.tail())
			}
			w.presence("h0", true)
			h0.deliver()
			if n := w.s.Budgets()[0].InFlight; n != 2 {
				t.Fatalf("%d hosts are in flight\n%s", n, w.tail())
			}
			if !c.refused {
				w.commit(plan.Claim(w.s, "h1", g.ID, w.now))
				return
			}
			w.claimsAfter(h0, g, "of at most 1 hosts of budget all", "S1")
		})
	}
}

// claimsAfter has h1 claim its grant: that is refused in such words while h0 is on its
// way, would be found by the audit, and passes once h0 has converged.
func (w *world) claimsAfter(h0 *machine, g *plan.Grant, words, invariant string) {
	w.t.Helper()
	_, err := plan.Claim(w.s, "h1", g.ID, w.now)
	if refused := (*plan.ClaimRefusedError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), words) {
		w.t.Fatalf("the claim while h0 is on its way: %v", err)
	}
	e, err := event.NewEntry(w.now, event.HostSubject("h1"), event.GrantClaimed{Grant: g.ID})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if v := found(w, append(slices.Clone(w.log), e)); len(v) == 0 || v[len(v)-1].Invariant != invariant {
		w.t.Fatalf("the audit says %v", v)
	}
	h0.activated(true)
	h0.probe()
	h0.elapse()
	h0.deliver()
	w.commit(plan.Claim(w.s, "h1", g.ID, w.now))
	if !w.s.Hosts["h1"].Grant.Claimed {
		w.t.Fatalf("h1 may not act after h0 has converged\n%s", w.tail())
	}
}

// TestS13OfferOfARestoredLogEndsOnceItsHostIsAhead: a restored server offers again what a host left
// for a later release. The offer ends as the host says where it is, before anybody claims it.
func TestS13OfferOfARestoredLogEndsOnceItsHostIsAhead(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	backup := len(w.log)
	w.live(6)
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2]}))
	w.live(6)
	w.expect("h0=converged/three h1=converged/three")
	w.restore(backup)
	w.tick()
	h0 := w.s.Hosts["h0"]
	stale := h0.Grant
	if stale == nil || stale.Rollout != "c@r2" {
		t.Fatalf("the restored server offers h0 %+v", stale)
	}
	w.hosts["h0"].deliver()
	if h0.Machine.Rollout != "c@r3" || h0.Grant != nil {
		t.Fatalf("h0 is on %s and is offered %+v\n%s", h0.Machine.Rollout, h0.Grant, w.tail())
	}
	if _, err := plan.Claim(w.s, "h0", stale.ID, w.now); err == nil {
		t.Fatal("the claim of an offer that ended is taken")
	}
	if g := w.s.Hosts["h1"].Grant; g == nil {
		t.Fatalf("h1, which said nothing yet, lost its offer\n%s", w.tail())
	}
}
