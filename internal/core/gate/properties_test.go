package gate_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// opens fails unless a gate is open exactly when it should be, under its own
// code.
func opens(t *rapid.T, b *gate.Block, code gate.Code, want bool) {
	t.Helper()
	if (b == nil) != want {
		t.Fatalf("open should be %t, the gate says %+v", want, b)
	}
	if b != nil && b.Code != code {
		t.Fatalf("gate %s answers as %s", code, b.Code)
	}
}

func drawInstant(t *rapid.T, label string) clock.Instant {
	return clock.Instant(rapid.Int64Range(1, 1<<42).Draw(t, label))
}

func drawSpan(t *rapid.T, label string) clock.Duration {
	return clock.Duration(rapid.Int64Range(0, 1<<40).Draw(t, label))
}

// names is of hosts, channels and what else has one.
var names = rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,8}`)

func drawStanding(t *rapid.T) gate.RolloutStatus {
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	return gate.RolloutStatus{Rollout: names.Draw(t, "rollout") + "@1", Phase: "active", Reason: "because",
		Paused: flag("paused"), Halted: flag("halted"), Reverting: flag("reverting"), Ended: flag("ended"), Outdated: flag("outdated")}
}

func drawPredecessors(t *rapid.T) []gate.Predecessor {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gate.Predecessor {
		p := gate.Predecessor{Channel: names.Draw(t, "channel"), Reason: "order"}
		if rapid.Bool().Draw(t, "unfinished") {
			p.Rollout, p.Phase = p.Channel+"@1", "active"
			p.Halted = rapid.Bool().Draw(t, "halted")
			p.Reverted = !p.Halted && rapid.Bool().Draw(t, "reverted")
		}
		return p
	}), 0, 4).Draw(t, "before")
}

// TestS32StaleIntentStaysShut checks that only a newer statement opens the
// freshness gate: without one it never opens, and time alone only shuts it.
func TestS32StaleIntentStaysShut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		issued, window, age := drawInstant(t, "issued"), drawSpan(t, "window"), drawSpan(t, "age")
		now := issued.Add(age)
		b := gate.CheckFreshness("c", issued, window, now)
		opens(t, b, gate.Freshness, age <= window)
		if later := gate.CheckFreshness("c", issued, window, now.Add(drawSpan(t, "later"))); b != nil && later == nil {
			t.Fatalf("%+v opened by waiting", b)
		}
		opens(t, gate.CheckFreshness("c", 0, window, now), gate.Freshness, false)
		opens(t, gate.CheckFreshness("c", now, window, now), gate.Freshness, true)
	})
}

// TestS18HaltedGivesNothing checks that a rollout gives out nothing while any of
// pause, halt, revert, end and the end of its key epoch holds it.
func TestS18HaltedGivesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStanding(t)
		opens(t, gate.CheckOverlay(s), gate.Overlay, !s.Paused && !s.Halted && !s.Reverting && !s.Ended && !s.Outdated)
	})
}

// TestS17QuarantinedIsNeverGranted checks that whatever the reason says, its
// being there shuts the gate, and that the answer names bundle and channel.
func TestS17QuarantinedIsNeverGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		channel, bundle, reason := names.Draw(t, "channel"), names.Draw(t, "bundle"), rapid.String().Draw(t, "reason")
		b := gate.CheckQuarantine(quarantineOf(channel, bundle, reason), true)
		opens(t, b, gate.Quarantine, reason == "")
		if b != nil && !strings.Contains(b.ClearedBy, "steady quarantine clear "+channel+" "+bundle) {
			t.Fatalf("%q does not say how to clear it", b.ClearedBy)
		}
	})
}

// TestS16QueuedWaitsForTheActive checks that a new ref opens only once nothing is
// active on its channel.
func TestS16QueuedWaitsForTheActive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		active := rapid.OneOf(rapid.Just(""), names).Draw(t, "active")
		opens(t, gate.CheckQueue("c@2", active, "active", 0), gate.Queue, active == "")
	})
}

// TestS15ChannelOpensAfterEveryPredecessor checks that one unfinished
// predecessor, wherever it stands in the list, shuts the gate and is named.
func TestS15ChannelOpensAfterEveryPredecessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, unfinished := drawPredecessors(t), map[string]bool{}
		for _, p := range before {
			if p.Rollout != "" {
				unfinished[p.Channel] = true
			}
		}
		b := gate.CheckChannelEdges("c", before)
		opens(t, b, gate.ChannelEdge, len(unfinished) == 0)
		if b != nil && !unfinished[b.Detail] {
			t.Fatalf("waits for channel %s, which is at rest", b.Detail)
		}
	})
}

// TestS7WaveOrderAtTheGate checks that a host passes exactly when its wave is
// not beyond the cursor, and that a cursor which moves on shuts nobody out.
func TestS7WaveOrderAtTheGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wave, cursor := rapid.IntRange(0, 9).Draw(t, "wave"), rapid.IntRange(0, 9).Draw(t, "cursor")
		b := gate.CheckWave(waveOf("c@1", wave, "mine", cursor, "now", 0), true)
		opens(t, b, gate.Wave, wave <= cursor)
		if next := gate.CheckWave(waveOf("c@1", wave, "mine", cursor+1, "next", 0), true); b == nil && next != nil {
			t.Fatalf("the cursor moved on and shut wave %d out: %+v", wave, next)
		}
	})
}

// TestS12OfflineHostsNeverDelayPromotion checks that an offline host is offered
// nothing, and that any number of hosts which never took a grant changes nothing
// for a wave that has its evidence.
func TestS12OfflineHostsNeverDelayPromotion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		presence := drawPresence(t)
		opens(t, gate.CheckPresence(names.Draw(t, "host"), gate.Absence{Presence: presence}, 1), gate.Presence, presence == gate.Online)

		minSoaked := rapid.IntRange(0, 3).Draw(t, "minSoaked")
		converged := max(1, minSoaked) + rapid.IntRange(0, 3).Draw(t, "more")
		offline := rapid.IntRange(0, 1000).Draw(t, "offline")
		e := gate.Evidence{Wave: "w", Hosts: converged + offline, Converged: converged, Offline: offline, MinSoaked: minSoaked}
		opens(t, promotion(e), gate.Promotion, true)
	})
}

// TestS14HostGoesAfterItsPredecessors checks that one unmet predecessor shuts
// the gate, and that the answer names every one of them.
func TestS14HostGoesAfterItsPredecessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unmet := rapid.SliceOfN(names, 0, 4).Draw(t, "unmet")
		b := gate.CheckHostEdges(edgesOf("h", unmet, 0), true)
		opens(t, b, gate.HostEdge, len(unmet) == 0)
		for _, name := range unmet {
			if !strings.Contains(b.Message, name) || !strings.Contains(b.WaitsFor, name) {
				t.Fatalf("%+v does not name %s", b, name)
			}
		}
	})
}

// TestS1AdmissionNeverPassesMax lets hosts in by the budget gate alone, in any
// order, with members that budgets share and hosts that finish in between: no
// budget ever holds more than its cap.
func TestS1AdmissionNeverPassesMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budgets := rapid.IntRange(1, 4).Draw(t, "budgets")
		uses := make([]gate.Use, budgets)
		for i := range uses {
			uses[i] = gate.Use{Selector: "s", Max: rapid.IntRange(1, 4).Draw(t, "max")}
		}
		member := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), budgets, budgets), 1, 12).Draw(t, "members")
		flying := make([]bool, len(member))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h := rapid.IntRange(0, len(member)-1).Draw(t, "host")
			var mine []gate.Use
			for i, in := range member[h] {
				if in {
					mine = append(mine, uses[i])
				}
			}
			by := -1
			if !flying[h] {
				if gate.CheckBudgets(mine, false) != nil {
					continue
				}
				by = 1
			}
			flying[h] = !flying[h]
			for i, in := range member[h] {
				if in {
					uses[i].InFlight += by
				}
				if uses[i].InFlight > uses[i].Max {
					t.Fatalf("budget %d holds %d of at most %d", i, uses[i].InFlight, uses[i].Max)
				}
			}
		}
	})
}

// TestS38BackoffOnlyDelays checks that a host which declined is asked again
// exactly when its time has come, that the answer names that instant, and that
// waiting never shuts the gate again.
func TestS38BackoffOnlyDelays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		until, now := drawInstant(t, "until"), drawInstant(t, "now")
		b := gate.CheckBackoff(backoffOf(until, "busy", "no room", now), true)
		opens(t, b, gate.Backoff, now >= until)
		if b != nil && b.Earliest != until {
			t.Fatalf("ends at %d and says %d", until, b.Earliest)
		}
		opens(t, gate.CheckBackoff(backoffOf(until, "busy", "no room", until.Add(drawSpan(t, "later"))), true), gate.Backoff, true)
		opens(t, gate.CheckBackoff(backoffOf(0, "", "", now), true), gate.Backoff, true)
	})
}

// TestS18FrozenUntilItsTime checks that a freeze holds to its last moment and
// says when it ends, and that no waiting shuts the gate again.
func TestS18FrozenUntilItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		until, now := drawInstant(t, "until"), drawInstant(t, "now")
		b := gate.CheckFreeze(freezeOf("h", until, "disk swap", now), true)
		opens(t, b, gate.Freeze, now >= until)
		if b != nil && b.Earliest != until {
			t.Fatalf("ends at %d and says %d", until, b.Earliest)
		}
		opens(t, gate.CheckFreeze(freezeOf("h", until, "", until.Add(drawSpan(t, "later"))), true), gate.Freeze, true)
		opens(t, gate.CheckFreeze(freezeOf("h", 0, "", now), true), gate.Freeze, true)
	})
}

// TestS8EveryReasonOfAHoldIsGiven checks that the list of what holds a wave is
// empty exactly when the wave promotes, begins with what the gate says, and has
// each reason once.
func TestS8EveryReasonOfAHoldIsGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvidence(t, 1)
		all, says := gate.All(waveFacts{e: e}, gate.ToPromote), promotion(e)
		if !same(all, gate.CheckInFlight(e), gate.CheckReady(e), gate.CheckProof(e)) {
			t.Fatalf("%+v: the table answers %+v", e, all)
		}
		if (len(all) == 0) != (says == nil) || says != nil && !reflect.DeepEqual(all[0], says) {
			t.Fatalf("%+v: all %+v, first %+v", e, all, says)
		}
		seen := map[string]bool{}
		for _, b := range all {
			if seen[b.Detail] {
				t.Fatalf("%s twice", b.Detail)
			}
			seen[b.Detail] = true
		}
		if seen[gate.InFlight] != (e.InFlight > 0) || seen[gate.Waiting] != (e.Ready > 0) || seen[gate.Unproven] != (e.Converged < e.Needed() || e.Nobody) {
			t.Fatalf("%+v is held by %v", e, seen)
		}
	})
}

// TestS1ServerThatMayLackClaimsTakesNone checks that a part of the log which a host owes
// shuts the gate and names the host, and that hosts which were not heard shut it
// exactly when they would fill a budget, which is named with its own words.
func TestS1ServerThatMayLackClaimsTakesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host, until := rapid.OneOf(rapid.Just(""), names).Draw(t, "host"), drawInstant(t, "until")
		b := gate.CheckBehind(host, rapid.IntRange(0, 2).Draw(t, "more"), until)
		opens(t, b, gate.Restore, host == "")
		if b != nil && (b.Earliest != until || !strings.Contains(b.ClearedBy, "steady host revoke "+host)) {
			t.Fatalf("waits for host %s until %s: %+v", host, until, b)
		}
		b = gate.CheckUnheard(host, until)
		opens(t, b, gate.Restore, host == "")
		if b != nil && (b.Earliest != until || !strings.Contains(b.WaitsFor, "host "+host)) {
			t.Fatalf("waits for what host %s has to say until %s: %+v", host, until, b)
		}
		use := gate.Use{Selector: "web", Max: few(t, "max"), InFlight: few(t, "in flight, heard or not")}
		full := gate.CheckBudgets([]gate.Use{use}, true)
		b = gate.CheckRollCall(full, until)
		opens(t, b, gate.Restore, use.InFlight < use.Max)
		if b != nil && !strings.HasSuffix(b.Message, full.Message) {
			t.Fatalf("%q does not say which budget would be full", b.Message)
		}
	})
}

// TestS40CanariesAreBounded: hosts that ask one after the other, while none has
// converged, are let through until exactly as many as the bound were tried.
func TestS40CanariesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, hosts := rapid.IntRange(0, 5).Draw(t, "most"), rapid.IntRange(0, 9).Draw(t, "hosts")
		tried := 0
		for range hosts {
			if gate.CheckCanary(canaryOf("c@1", tried, most, 0), true) == nil {
				tried++
			}
		}
		want := min(hosts, most)
		if most == 0 {
			want = hosts
		}
		if tried != want {
			t.Fatalf("%d of %d hosts were tried under a bound of %d", tried, hosts, most)
		}
	})
}

// TestS9SoakPassesByTheServersClock checks that a wave whose hosts say that they have
// soaked is held exactly until that can be true by the server's clock, and says until
// when.
func TestS9SoakPassesByTheServersClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		until, now := drawInstant(t, "until"), drawInstant(t, "now")
		b := gate.CheckSoak("c@1", "w", until, now)
		opens(t, b, gate.Promotion, until == 0 || until <= now)
		if b != nil && (b.Earliest != until || b.Detail != gate.Soak) {
			t.Fatalf("%+v, it ends at %s", b, until)
		}
	})
}
