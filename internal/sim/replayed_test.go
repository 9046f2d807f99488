package sim

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/replay/history"
)

// TestS26ReplayDecidesWhatWasDecided runs the planner and the hosts' machines over
// the outside events of recorded logs, crashes, lost messages, repairs, restored
// backups and clocks that jump included: with nothing changed every decision is
// the recorded one, byte for byte.
func TestS26ReplayDecidesWhatWasDecided(t *testing.T) {
	schedules, events := uint64(60), 0
	if testing.Short() {
		schedules = 20
	}
	for seed := uint64(1); seed <= schedules; seed++ {
		w := build(Config{Seed: seed, Trust: Never})
		w.play()
		h := &history.History{Manifests: w.docs}
		for i, e := range w.log.entries {
			h.Records = append(h.Records, event.Record{Entry: e, Seq: uint64(i) + 1, Term: w.log.terms[i]})
		}
		out, err := replay.Rerun(h, &replay.Change{}, replay.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if out.Divergence != nil || len(out.Modelled) > 0 || out.Unfit > 0 {
			t.Fatalf("seed %d: divergence %+v, modelled %+v, unfit %d (%s)", seed, out.Divergence, out.Modelled, out.Unfit, out.UnfitExample)
		}
		if len(out.Entries) != len(h.Records) {
			t.Fatalf("seed %d: %d entries, recorded were %d", seed, len(out.Entries), len(h.Records))
		}
		for i, e := range out.Entries {
			if r := &h.Records[i].Entry; e.Type != r.Type || e.Host != r.Host || e.At != r.At || e.HostSeq != r.HostSeq || !bytes.Equal(e.Body, r.Body) {
				t.Fatalf("seed %d: event %d is\n%d %s %s %s\nrecorded was\n%d %s %s %s", seed, i+1, e.At, e.Type, e.Host, e.Body, r.At, r.Type, r.Host, r.Body)
			}
		}
		events += len(out.Entries)
	}
	t.Logf("%d schedules, %d events", schedules, events)
}
