package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestS40BreakGlassOpensWavesAndKeepsBudgets: what two operators signed lets every
// wave go at once, past the bound of canaries, and no budget is passed; it counts
// as well for a rollout that opens on an empty log.
func TestS40BreakGlassOpensWavesAndKeepsBudgets(t *testing.T) {
	for name, opensLater := range map[string]bool{"under way": false, "on an empty log": true} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1 h2 h3")
			m := w.manifest(spec{ref: "r2", waves: "h0 | h1 h2 | h3", target: bundles[1], canaryMax: 1, budget: 2})
			word := w.word(fleet.OverrideBreakGlass, m.Digest)
			if opensLater {
				w.push(word)
			}
			w.release(fleet.Queue, m)
			w.tick()
			if !opensLater {
				w.push(word)
				w.tick()
			}
			if n := w.granted("c@r2"); n != 2 {
				t.Fatalf("%d hosts were granted at once, expected the budget of 2\n%s", n, w.tail())
			}
			if a, err := plan.Why(w.s, "h3", w.now); err != nil || len(a.Accepted) == 0 {
				t.Fatalf("nobody says who opened the waves: %+v, %v", a, err)
			}
			w.live(6)
			w.phase("c@r2", rollout.Terminal)
			if w.count(event.BreakGlassUsed{}, "") != 1 || w.count(event.WavePromoted{}, "") != 0 {
				t.Fatalf("waves promoted one by one\n%s", w.tail())
			}
			_, err := plan.Override(w.s, w.word(fleet.OverrideBreakGlass, m.Digest), "ada", w.now)
			w.refused(err, "only one that goes on")
		})
	}
}

// TestS40BreakGlassLoosensNoHold: a quarantine and a pause stand against it.
func TestS40BreakGlassLoosensNoHold(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]})
	w.push(w.word(fleet.OverridePause, m.Digest))
	w.release(fleet.Queue, m)
	w.push(w.word(fleet.OverrideBreakGlass, m.Digest))
	w.live(3)
	if n := w.granted("c@r2"); n != 0 {
		t.Fatalf("%d hosts were granted against a pause\n%s", n, w.tail())
	}
}

// TestS8SignedPromotionOutlivesTheLog: a wave that lacks evidence passes on a
// signed word, on the server that takes it and on one that lost its log, and only
// that wave of that manifest.
func TestS8SignedPromotionOutlivesTheLog(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1 | h2", target: bundles[1]})
	w.release(fleet.Queue, m)
	w.live(2)
	word := w.word(fleet.OverridePromote, m.Digest)
	w.push(word)
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h1=converged/two h2=converged/two")
	if n := w.count(event.WaveForced{}, ""); n != 1 {
		t.Fatalf("%d waves were forced\n%s", n, w.tail())
	}

	empty := scene(t, "h0 h1 h2")
	empty.presence("h0", false)
	empty.push(word)
	same := empty.manifest(spec{ref: "r1", waves: "h0 | h1", target: bundles[0]})
	empty.release(fleet.Queue, same)
	empty.live(4)
	if r := empty.phase("c@r1", rollout.Active); r.Cursor != 0 {
		t.Fatalf("a word on another manifest lets a wave pass\n%s", empty.tail())
	}
	later := empty.word(fleet.OverridePromote, same.Digest)
	later.Wave = "w1"
	_, err := plan.Override(empty.s, later, "ada", empty.now)
	empty.refused(err, "is at wave w0, not w1")

	again := scene(t, "h0 h1 h2")
	again.presence("h0", false)
	docs := again.manifest(spec{ref: "r2", waves: "h0 | h1 | h2", target: bundles[1]})
	again.push(again.word(fleet.OverridePromote, docs.Digest)) // before the release, as from a file
	again.release(fleet.Queue, docs)
	again.live(6)
	again.phase("c@r2", rollout.Terminal)
	again.expect("h1=converged/two h2=converged/two")
}

// TestS8SignedPromotionPassesOverASoak: a soak that only the server's clock has not seen
// holds a wave until somebody who may signs for it, be it before the wave was held or
// after: a server that lost its log decides as the one that took the override.
func TestS8SignedPromotionPassesOverASoak(t *testing.T) {
	for name, early := range map[string]bool{"signed before": true, "signed after": false} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1")
			m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour})
			if early {
				w.push(w.word(fleet.OverridePromote, m.Digest))
			}
			w.release(fleet.Queue, m)
			w.tick()
			h0 := w.claimed("h0")
			h0.activated(true)
			h0.probe()
			h0.deliver()
			w.tick()
			r := w.s.Find("c@r2")
			if r.Cursor != 0 || w.count(event.WaveForced{}, "") != 0 {
				t.Fatalf("forced over a host on its way\n%s", w.tail())
			}
			h0.lie = clock.Day
			h0.elapse()
			h0.deliver()
			if !early {
				w.tick()
				if b := plan.FirstBlock(w.s, r, w.now); b == nil || b.Detail != gate.Soak {
					t.Fatalf("held by %+v", b)
				}
				w.push(w.word(fleet.OverridePromote, m.Digest))
			}
			w.tick()
			if n := w.count(event.WaveForced{}, ""); r.Cursor != 1 || n != 1 {
				t.Fatalf("at wave %d, %d waves were forced\n%s", r.Cursor, n, w.tail())
			}
		})
	}
}
