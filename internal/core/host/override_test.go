package host_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/override"
)

func said(id string, action fleet.OverrideAction, at int, about digest.Digest) override.Taken {
	o := fleet.Override{ID: id, Action: action, Channel: "stable", Reason: "because"}
	o.Epoch, o.IssuedAt, o.Version = 1, clock.Instant(at), uint64(at)
	switch action {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = about
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	default:
		o.Manifest = about
	}
	return override.Taken{Override: o, Digest: digest.Of([]byte(id))}
}

// TestS18AgentKeepsToSignedWords: whatever an operator's word that is in force
// forbids, an agent neither prepares nor claims, whoever offers it and however the
// words came; what it claimed before goes on.
func TestS18AgentKeepsToSignedWords(t *testing.T) {
	manifest, target := digest.Of([]byte("m")), digest.Of([]byte("b"))
	rapid.Check(t, func(t *rapid.T) {
		var a host.Agent
		grants, offered := 0, ""
		acts := func(effects []host.Effect, claims bool) {
			for _, e := range effects {
				_, prepares := e.(host.Prepare)
				_, claimed := e.(host.Claim)
				held := a.Overrides.Forbids("stable", manifest, target, "h")
				if (prepares || claimed && claims) && held != nil {
					t.Fatalf("%T against %s", e, held.Words())
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
				effects, news := a.Ordered("h", 1, []override.Taken{w})
				if again, more := a.Ordered("h", 1, []override.Taken{w}); more || len(again) > 0 {
					t.Fatalf("%s counts twice", w.ID)
				}
				if after := a.Overrides.Forbids("stable", manifest, target, "h"); before != nil && after == nil && (action.Holds() || !news) {
					t.Fatalf("%s loosened %s", w.ID, before.Words())
				}
				acts(effects, true)
			},
			"grant": func(t *rapid.T) {
				grants++
				offered = "g" + string(rune('0'+grants%10))
				acts(a.Granted(host.Offer{Grant: offered, Purpose: host.Forward, Expires: 100, Plan: fleet.HostPlan{Manifest: manifest, Channel: "stable", Host: "h", Target: target}}, 1), true)
			},
			"prepared": func(t *rapid.T) { acts(a.Prepared(offered, 1), true) },
			"restart":  func(t *rapid.T) { acts(a.Resume(), false) },
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
	a := host.Agent{Plan: fleet.HostPlan{Channel: "stable"}, Quarantine: []host.QuarantineEntry{{Digest: b, Reason: "failed"}}}
	other := said("o-1", fleet.OverrideUnquarantine, 1, b)
	other.Host = "another"
	if _, news := a.Ordered("h", 1, []override.Taken{other}); news || !a.Quarantined(b) {
		t.Fatal("a word for another host was taken")
	}
	word := said("o-2", fleet.OverrideUnquarantine, 2, b)
	if _, news := a.Ordered("h", 1, []override.Taken{word}); !news || a.Quarantined(b) {
		t.Fatal("the host still refuses the bundle")
	}
	a.Quarantine = []host.QuarantineEntry{{Digest: b, Reason: "failed again"}}
	if _, news := a.Ordered("h", 1, []override.Taken{word}); news || !a.Quarantined(b) {
		t.Fatal("the word cleared what came after it")
	}
	a.Ordered("h", 1, []override.Taken{said("o-3", fleet.OverrideFreeze, 3, "")})
	if _, news := a.Ordered("h", 2, nil); !news || a.Overrides.Frozen("stable") != nil {
		t.Fatal("a word outlived its epoch")
	}
}
