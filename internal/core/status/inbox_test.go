package status_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/testkit"
)

// drawItems are the things of a fleet that need a person at an instant.
func drawItems(t *rapid.T) (items []status.Item) {
	for i := range 4 {
		if word := rapid.SampledFrom([]string{"", "failed", "behind"}).Draw(t, fmt.Sprint("word", i)); word != "" {
			items = append(items, status.Item{Kind: "host", Name: fmt.Sprint(i), Cause: rapid.SampledFrom([]string{"", "disk"}).Draw(t, "cause"),
				Summary: status.Summary{Word: word, Level: rapid.SampledFrom([]status.Level{status.Warning, status.Critical}).Draw(t, "level"), Reason: "r"}})
		}
	}
	return items
}

// TestInboxIsWhatNeedsAPerson: after what it decided is folded, the open items are those of now; a
// second look decides nothing; an acknowledgement ends with its cause and its time; the fold is the
// same from a snapshot.
func TestInboxIsWhatNeedsAPerson(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := status.NewInbox(), clock.Instant(1000)
		known := map[string]string{} // word and cause that a person acknowledged, by key
		until := map[string]clock.Instant{}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			now = now.Add(clock.Minute)
			items := drawItems(t)
			keys := slices.Collect(maps.Keys(s.Open))
			for _, ev := range s.Next(keys, items) {
				s.Apply(now, ev)
			}
			if again := s.Next(slices.Collect(maps.Keys(s.Open)), items); len(again) > 0 {
				t.Fatalf("a second look decides %v", again)
			}
			if len(s.Open) != len(items) {
				t.Fatalf("%d items are open, %d need a person", len(s.Open), len(items))
			}
			list := s.List(items, now)
			for _, x := range list {
				is := x.Word + " " + x.Cause
				wants := known[x.Key()] == is && (until[x.Key()] == 0 || until[x.Key()] > now)
				if known[x.Key()] != is {
					delete(known, x.Key())
				}
				if wants != (x.Ack != nil) {
					t.Fatalf("%s is %s, acknowledged as %q until %d: %+v", x.Key(), is, known[x.Key()], until[x.Key()], x.Ack)
				}
			}
			for key := range known {
				if s.Open[key] == nil {
					delete(known, key)
				}
			}
			needed := status.Needed(list)
			if i := slices.IndexFunc(list, func(x status.InboxItem) bool { return x.Ack != nil }); i >= 0 && i != len(needed) || i < 0 && len(needed) != len(list) {
				t.Fatalf("%d of %d are needed", len(needed), len(list))
			}
			if len(list) > 0 && rapid.Bool().Draw(t, "acknowledge") {
				x := rapid.SampledFrom(list).Draw(t, "item")
				till := rapid.SampledFrom([]clock.Instant{0, now.Add(90 * clock.Second)}).Draw(t, "until")
				ev := testkit.Value(s.Acknowledge(list, x.Key(), till, "n", "ann", now))(t)
				s.Apply(now, ev)
				known[x.Key()], until[x.Key()] = x.Word+" "+x.Cause, till
			}
			raw := testkit.Value(json.Marshal(s))(t)
			var back *status.Inbox
			testkit.Must(t, json.Unmarshal(raw, &back))
			if d := cmp.Diff(s, status.RestoreInbox(back)); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// TestAcknowledgeRefuses: only what is open is acknowledged, and into the future.
func TestAcknowledgeRefuses(t *testing.T) {
	s := status.NewInbox()
	own := []status.Item{{Kind: "server", Name: "space", Summary: status.Summary{Word: "not ready", Level: status.Critical, Reason: "no room"}}}
	list := s.List(own, 5)
	for key, unknown := range map[string]bool{"host/none": true, "server/space": false} {
		_, err := s.Acknowledge(list, key, 0, "n", "ann", 5)
		if r, is := err.(*status.Refusal); !is || r.Unknown != unknown {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestWorst(t *testing.T) {
	busy, bad := status.Summary{Word: "b", Level: status.Busy}, status.Summary{Word: "x", Level: status.Critical}
	if got := status.Worst(busy, bad, busy); got.Word != "x" {
		t.Errorf("%+v", got)
	}
	if got := status.Worst(); got.Level != status.OK {
		t.Errorf("%+v", got)
	}
}
