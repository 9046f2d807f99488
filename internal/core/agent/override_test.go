package agent_test

import (
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

func said(id string, action fleet.OverrideAction, at int, about digest.Digest) gate.AcceptedOverride {
	o := fleet.Override{ID: id, Action: action, Channel: "stable", Reason: "because"}
	o.Epoch, o.IssuedAt, o.Version = 1, clock.Instant(at), uint64(at)
	switch action {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = about
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	default:
		o.Manifest = about
	}
	return gate.AcceptedOverride{Override: o, Digest: digest.Of([]byte(id))}
}

// TestS18AgentKeepsToSignedWords: whatever an operator's word that is in force
// forbids, an agent neither prepares nor claims, whoever offers it and however the
// words came; what it claimed before goes on.
func TestS18AgentKeepsToSignedWords(t *testing.T) {
	manifest, target := digest.Of([]byte("m")), digest.Of([]byte("b"))
	rapid.Check(t, func(t *rapid.T) {
		a := &agent.State{}
		grants, offered := 0, ""
		acts := func(turn agent.Turn, claims bool) {
			for _, e := range turn.Effects {
				_, prepares := e.(agent.Prepare)
				_, claimed := e.(agent.Claim)
				held := a.Overrides.Forbids("stable", manifest, target, "h")
				if (prepares || claimed && claims) && held != nil {
					t.Fatalf("%T against %s", e, held.Message())
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"word": func(t *rapid.T) {
				about := manifest
				action := rapid.SampledFrom(fleet.OverrideActions).Draw(t, "action")
				if action == fleet.OverrideQuarantine || action == fleet.OverrideUnquarantine {
					about = target
				}
				at := rapid.IntRange(1, 9).Draw(t, "at")
				w := said(string(action)+string(rune('a'+at)), action, at, about)
				before := a.Overrides.Forbids("stable", manifest, target, "h")
				in := agent.OverridesReceived{Host: "h", Epoch: 1, Overrides: []gate.AcceptedOverride{w}}
				turn := step(t, a, in, 1)
				if again := step(t, a, in, 1); again.Save {
					t.Fatalf("%s counts twice", w.ID)
				}
				if after := a.Overrides.Forbids("stable", manifest, target, "h"); before != nil && after == nil && (action.Restricts() || !turn.Save) {
					t.Fatalf("%s loosened %s", w.ID, before.Message())
				}
				acts(turn, true)
			},
			"grant": func(t *rapid.T) {
				grants++
				offered = "g" + string(rune('0'+grants%10))
				acts(step(t, a, agent.Granted{Grant: offered, Purpose: host.Update, TTL: 100, Plan: fleet.HostPlan{Manifest: manifest, Channel: "stable", Host: "h", Target: target}}, 1), true)
			},
			"prepared": func(t *rapid.T) { acts(step(t, a, agent.Prepared{Grant: offered}, 1), true) },
			"restart":  func(t *rapid.T) { acts(step(t, a, agent.Started{}, 1), false) },
			"": func(t *rapid.T) {
				if o := a.Offer; o != nil && !o.Prepared && a.Overrides.Forbids("stable", manifest, target, "h") != nil {
					t.Fatalf("%s is being prepared against a signed word", o.Grant)
				}
			},
		})
	})
}

// TestS17SignedWordClearsAHostsOwnQuarantine: the server cannot, an operator can,
// once, on the channel and host that the word names; a new epoch ends the rest.
func TestS17SignedWordClearsAHostsOwnQuarantine(t *testing.T) {
	b := digest.Of([]byte("b"))
	a := &agent.State{Plan: fleet.HostPlan{Channel: "stable"}, Quarantine: []agent.QuarantineEntry{{Digest: b, Reason: "failed"}}}
	other := said("o-1", fleet.OverrideUnquarantine, 1, b)
	other.Host = "another"
	take := func(epoch uint64, words ...gate.AcceptedOverride) bool {
		return step(t, a, agent.OverridesReceived{Host: "h", Epoch: epoch, Overrides: words}, 1).Save
	}
	if take(1, other) || !a.Quarantined(b) {
		t.Fatal("a word for another host was taken")
	}
	word := said("o-2", fleet.OverrideUnquarantine, 2, b)
	if !take(1, word) || a.Quarantined(b) {
		t.Fatal("the host still refuses the bundle")
	}
	a.Quarantine = []agent.QuarantineEntry{{Digest: b, Reason: "failed again"}}
	if take(1, word) || !a.Quarantined(b) {
		t.Fatal("the word cleared what came after it")
	}
	take(1, said("o-3", fleet.OverrideFreeze, 3, ""))
	if !take(2) || a.Overrides.Frozen("stable") != nil {
		t.Fatal("a word outlived its epoch")
	}
}

// TestS17SignedRetryClearsAHostsOwnQuarantine: of what its own plan of that manifest gave
// it, once; and a rollback that was signed before sends it back no more.
func TestS17SignedRetryClearsAHostsOwnQuarantine(t *testing.T) {
	m, b := digest.Of([]byte("m")), digest.Of([]byte("b"))
	a := &agent.State{Plan: fleet.HostPlan{Channel: "stable", Manifest: m, Target: b}, Quarantine: []agent.QuarantineEntry{{Digest: b, Reason: "failed"}}}
	take := func(words ...gate.AcceptedOverride) {
		step(t, a, agent.OverridesReceived{Host: "h", Epoch: 1, Overrides: words}, 1)
	}
	take(said("o-1", fleet.OverrideRetry, 1, digest.Of([]byte("other"))))
	if !a.Quarantined(b) {
		t.Fatal("a retry of another manifest cleared it")
	}
	back := said("o-2", fleet.OverrideRollback, 2, m)
	take(back)
	again := said("o-3", fleet.OverrideRetry, 3, m)
	take(again)
	if a.Quarantined(b) || a.Overrides.RolledBack(m) != nil {
		t.Fatal("the host still refuses the bundle, or the rollback stands")
	}
	a.Quarantine = []agent.QuarantineEntry{{Digest: b, Reason: "failed again"}}
	if take(again); !a.Quarantined(b) {
		t.Fatal("the retry cleared what came after it")
	}
	a.Machine.Phase, a.Machine.Manifest = host.Converged, m
	turn := step(t, a, agent.Granted{Grant: "g1", Purpose: host.Rollback, TTL: 1000, Plan: a.Plan,
		Overrides: &agent.OverridesReceived{Host: "h", Epoch: 1, Overrides: []gate.AcceptedOverride{back}}}, 1)
	if a.Offer != nil || reported[event.GrantDeclined](t, turn).Code != host.DeclineOverride {
		t.Fatal("a rollback that a later retry ended was taken")
	}
	take(said("o-4", fleet.OverrideRollback, 4, m))
	if a.Overrides.RolledBack(m) == nil {
		t.Fatal("a retry ended what was signed after it")
	}
}

// TestS22WipedHostGoesNowhere: who was wiped has nothing to go back to, whatever orders it.
func TestS22WipedHostGoesNowhere(t *testing.T) {
	m := digest.Of([]byte("m"))
	a := &agent.State{Plan: fleet.HostPlan{Channel: "stable", Manifest: m, Removed: fleet.Wipe}}
	a.Machine.Phase, a.Machine.Manifest = host.Converged, m
	turn := step(t, a, agent.Granted{Grant: "g1", Purpose: host.Rollback, TTL: 1000, Plan: fleet.HostPlan{Manifest: m}}, 1)
	if a.Offer != nil || reported[event.GrantDeclined](t, turn).Code != host.DeclineNothingToDo {
		t.Fatal("a wiped host goes back")
	}
}
