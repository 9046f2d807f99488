package agent_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// removes is a signed removal of an incarnation of host h.
func removes(incarnation uint64, w fleet.Workloads, at int) gate.AcceptedOverride {
	o := said(fmt.Sprintf("remove-%s-%d-%d", w, incarnation, at), fleet.OverrideRemove, at, "")
	o.Manifest, o.Host, o.Incarnation, o.Workloads = "", "h", incarnation, w
	return o
}

// TestS3OnlyASignedRemovalTakesAway: whatever else a host is given, and however often it
// starts, it takes away what it runs for a removal of its own incarnation alone, wipes only
// if that says so, and neither before what it is in the middle of has ended nor takes
// anything after.
func TestS3OnlyASignedRemovalTakesAway(t *testing.T) {
	b := digest.Of([]byte("b"))
	rapid.Check(t, func(t *rapid.T) {
		a := &agent.State{Plan: fleet.HostPlan{Channel: "stable", Host: "h", Target: b, Delegation: &fleet.Delegation{Kinds: []string{"volume"}}}}
		a.Machine.Current, a.Machine.Target = b, b
		a.Machine.Phase = rapid.SampledFrom([]host.Phase{"", host.Activating, host.Soaking, host.Converged, host.Reverted, host.Failed}).Draw(t, "phase")
		signed := fleet.Workloads("")
		check := func(turn agent.Turn) {
			m := &a.Machine
			under := m.Phase == host.Activating || m.Phase == host.Soaking || m.Reverting
			for _, e := range turn.Effects {
				l, leaves := e.(agent.Leave)
				switch e.(type) {
				case agent.Prepare, agent.Claim, agent.Activate, agent.Revert, agent.StartProbes:
					if a.Removal != nil && a.Removal.Begun != 0 {
						if s, probes := e.(agent.StartProbes); !probes || len(s.Probes) > 0 {
							t.Fatalf("%T of a host that leaves", e)
						}
					}
				}
				if leaves && (signed == "" || signed == fleet.Keep || l.Wipe != (signed == fleet.Wipe) || l.Bundle != "" || under) {
					t.Fatalf("it leaves by %+v in phase %q, signed was %q", l.Generation, a.Machine.Phase, signed)
				}
				if leaves && (a.Delegation(nil) != nil || a.AllowVolumeDelete() != l.Wipe) {
					t.Fatal("what is delegated stays, or volumes go with what is stopped")
				}
			}
		}
		at := 0
		t.Repeat(map[string]func(*rapid.T){
			"override": func(t *rapid.T) {
				at++
				o := removes(uint64(rapid.IntRange(1, 2).Draw(t, "incarnation")), rapid.SampledFrom([]fleet.Workloads{fleet.Keep, fleet.Stop, fleet.Wipe}).Draw(t, "workloads"), at)
				if o.Incarnation == 2 {
					signed = o.Workloads
				}
				check(step(t, a, agent.OverridesReceived{Host: "h", Incarnation: 2, Epoch: 1, Overrides: []gate.AcceptedOverride{o}}, 1))
			},
			"grant": func(t *rapid.T) {
				turn := step(t, a, agent.Granted{Grant: "g", Purpose: rapid.SampledFrom([]host.Purpose{host.Update, host.Repair, host.Rollback}).Draw(t, "purpose"), TTL: clock.Hour, Plan: a.Plan}, 1)
				if a.Removal != nil && a.Offer != nil {
					t.Fatalf("%+v was taken", a.Offer)
				}
				check(turn)
				a.Offer = nil
			},
			"failed": func(t *rapid.T) {
				check(step(t, a, agent.GenerationObserved{Generation: a.Generation, Outcome: agent.Broken}, 1))
			},
			"start":   func(t *rapid.T) { check(step(t, a, agent.Started{}, 1)) },
			"elapsed": func(t *rapid.T) { check(step(t, a, agent.Elapsed{}, 1)) },
		})
	})
}

// TestRemovalIsConfirmed: once, and again when it comes out otherwise; a restart goes on.
func TestRemovalIsConfirmed(t *testing.T) {
	b := digest.Of([]byte("b"))
	a := &agent.State{}
	a.Machine.Phase, a.Machine.Current = host.Converged, b
	wipe := removes(1, fleet.Wipe, 1)
	turn := step(t, a, agent.OverridesReceived{Host: "h", Incarnation: 1, Epoch: 1, Overrides: []gate.AcceptedOverride{wipe}}, 1)
	if turn.Desired == nil || !turn.Desired.Wipe || turn.Desired.Keep != "" {
		t.Fatalf("desired is %+v", turn.Desired)
	}
	if again := step(t, a, agent.Started{}, 2); again.Desired == nil || *again.Desired != *turn.Desired {
		t.Fatalf("after a restart %+v is desired", again.Desired)
	}
	seen := func(o agent.Outcome, detail string) agent.Turn {
		return step(t, a, agent.GenerationObserved{Generation: a.Generation, Outcome: o, Detail: detail}, 3)
	}
	if e := reported[event.WorkloadsRemoved](t, seen(agent.Broken, "volume/data is in use")); e.OK || e.Detail == "" || e.Override != wipe.Digest {
		t.Fatalf("told %+v", e)
	}
	if again := seen(agent.Broken, "volume/data is in use"); len(again.Events) > 0 {
		t.Fatal("the same is told twice")
	}
	if e := reported[event.WorkloadsRemoved](t, seen(agent.Complete, "")); !e.OK || e.Workloads != fleet.Wipe {
		t.Fatalf("told %+v", e)
	}
	if again := seen(agent.Complete, ""); len(again.Events) > 0 {
		t.Fatal("the same is told twice")
	}
}
