package plan_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/testkit"
)

func expiryTypes(t testing.TB, s *plan.State, facts []warning.Fact, now clock.Instant) []string {
	t.Helper()
	entries := testkit.Value(plan.Record(s, "", now, s.ExpiryNews(warning.Items(facts, now))...))(t)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Type)
	}
	return out
}

// TestExpiryIsRecordedOnce: one event when a threshold is crossed, one when it gets
// worse, one when it is well again, and none between.
func TestExpiryIsRecordedOnce(t *testing.T) {
	s := plan.New(nil)
	begin := clock.Instant(1_800_000_000_000)
	stamp := func(since clock.Instant) []warning.Fact {
		return []warning.Fact{{Kind: warning.Timestamp, Name: "stable", Since: since, Ends: since.Add(4 * clock.Hour)}}
	}
	const warned, cleared = "expiry.warned", "expiry.cleared"
	for i, step := range []struct {
		facts []warning.Fact
		at    clock.Duration
		want  string
	}{
		{stamp(begin), clock.Hour, ""},
		{stamp(begin), 3*clock.Hour + 1, warned},
		{stamp(begin), 3*clock.Hour + 2, ""},
		{stamp(begin), 4 * clock.Hour, warned},
		{stamp(begin), 90 * clock.Day, ""},
		{stamp(begin.Add(90 * clock.Day)), 90*clock.Day + 1, cleared},
		{stamp(begin.Add(90 * clock.Day)), 90*clock.Day + 2, ""},
		{stamp(begin.Add(90 * clock.Day)), 91 * clock.Day, warned},
		{nil, 91*clock.Day + 1, cleared}, // the channel is gone
		{[]warning.Fact{{Kind: warning.Disk, Used: 91, Limit: 100}}, 92 * clock.Day, warned},
		{[]warning.Fact{{Kind: warning.Disk, Used: 89, Limit: 100}}, 92 * clock.Day, ""}, // it sways
		{[]warning.Fact{{Kind: warning.Disk, Used: 91, Limit: 100}}, 92 * clock.Day, ""},
		{[]warning.Fact{{Kind: warning.Disk, Used: 80, Limit: 100}}, 92 * clock.Day, cleared},
	} {
		got := expiryTypes(t, s, step.facts, begin.Add(step.at))
		if len(got) > 1 || len(got) == 1 && got[0] != step.want || len(got) == 0 && step.want != "" {
			t.Errorf("step %d: %v, want %q", i, got, step.want)
		}
	}
}

// TestExpiriesAreBounded: whatever the facts, one look adds a bounded number of
// events, looks without news add none in the end, and the log folds to the same state.
func TestExpiriesAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, again := plan.New(nil), plan.New(nil)
		now := clock.Instant(1_800_000_000_000)
		n := rapid.IntRange(0, 300).Draw(rt, "channels")
		var facts []warning.Fact
		for i := range n {
			facts = append(facts, warning.Fact{Kind: warning.Timestamp, Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Ends: now.Add(clock.Duration(rapid.Int64Range(-10, 10).Draw(rt, "left")))},
				warning.Fact{Kind: warning.HostCertificate, Name: string(rune('a' + i%26)), Ends: now.Add(-1)})
		}
		for look := range 5 {
			entries, err := plan.Record(s, "", now, s.ExpiryNews(warning.Items(facts, now))...)
			if err != nil || len(entries) > 100 || look == 4 && len(entries) != 0 {
				rt.Fatalf("look %d: %d events, %v", look, len(entries), err)
			}
			for _, e := range entries {
				testkit.Must(rt, again.Apply(e))
			}
		}
		a, _ := json.Marshal(s.Expiries)
		b, _ := json.Marshal(again.Expiries)
		if string(a) != string(b) {
			rt.Fatalf("%s\n%s", a, b)
		}
	})
}

// TestExpiryFacts: the state lists the timestamp of every channel and what hosts have,
// and a reader that folds those events alone lists the same.
func TestExpiryFacts(t *testing.T) {
	at := clock.Instant(1_800_000_000_000)
	events := []struct {
		host string
		ev   event.Event
	}{
		{"", event.ReleaseAccepted{Version: 1, Ref: "v1", Channels: []event.ChannelRelease{{Channel: "lab", FreshnessWindow: clock.Hour}, {Channel: "stable", FreshnessWindow: clock.Day}}}},
		{"", event.TimestampAccepted{Version: 1, IssuedAt: at}},
		{"web-1", event.HostEnrolled{Incarnation: 1, Token: "t1", Serial: "1", NotAfter: at.Add(7 * clock.Day)}},
		{"web-2", event.HostEnrolled{Incarnation: 1, Token: "t2", Serial: "2", NotAfter: at.Add(7 * clock.Day)}},
		{"web-1", event.CertificateRenewed{Serial: "3", Presented: "1", NotAfter: at.Add(12 * clock.Day)}},
		{"web-1", event.HostFrozen{Until: at.Add(clock.Hour), Reason: "r", Actor: "a"}},
		{"web-2", event.HostDecommissioned{Reason: "sold", Actor: "a"}},
		{"", event.OperatorTokenAdded{ID: "1", Name: "ci", Role: "releaser", Expires: at.Add(clock.Day)}},
		{"", event.OperatorTokenAdded{ID: "2", Name: "old", Role: "viewer", Expires: at.Add(clock.Day)}},
		{"", event.OperatorTokenRevoked{ID: "2"}},
		{"", event.OperatorTokenAdded{ID: "3", Name: "ci", Role: "releaser", Parent: "1", Expires: at.Add(clock.Hour)}},
	}
	all, some := plan.New(nil), plan.New(nil)
	for _, e := range events {
		entry := testkit.Value(event.NewEntry(at, event.HostSubject(e.host), e.ev))(t)
		testkit.Must(t, all.Apply(entry))
		if plan.ChangesExpiry(e.ev) {
			testkit.Must(t, some.ApplyEvent(entry, e.ev))
		}
	}
	want, _ := json.Marshal([]warning.Fact{
		{Kind: warning.Timestamp, Name: "lab", Since: at, Ends: at.Add(clock.Hour)},
		{Kind: warning.Timestamp, Name: "stable", Since: at, Ends: at.Add(clock.Day)},
		{Kind: warning.HostCertificate, Name: "web-1", Since: at, Ends: at.Add(12 * clock.Day)},
		{Kind: warning.Freeze, Name: "web-1", Ends: at.Add(clock.Hour)},
		{Kind: warning.OperatorToken, Name: "ci (1)", Since: at, Ends: at.Add(clock.Day)},
		{Kind: warning.Overrides, Limit: 1024},
	})
	for i, s := range []*plan.State{all, some} {
		if got, _ := json.Marshal(s.ExpiryFacts()); string(got) != string(want) {
			t.Errorf("state %d: %s\nwant %s", i, got, want)
		}
	}
}
