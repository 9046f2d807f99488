package prose

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "host", "0 hosts"}, {1, "host", "1 host"}, {2, "host", "2 hosts"}, {-1, "day", "-1 days"},
		{2, "release", "2 releases"}, {2, "batch", "2 batches"}, {2, "policy", "2 policies"}, {2, "key", "2 keys"}, {2, "day", "2 days"}, {2, "address", "2 addresses"},
	} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("%d %s reads %q, expected %q", c.n, c.noun, got, c.want)
		}
	}
}

func TestTimesForPeople(t *testing.T) {
	now := clock.Instant(1_795_398_088_000) // 2026-11-23T01:41:28Z
	for _, c := range []struct {
		at               clock.Instant
		ago, stamp, date string
	}{
		{0, "never", "never", "never"},
		{now, "now", "01:41:28", "2026-11-23 01:41 UTC"},
		{now.Add(-999), "now", "01:41:27", "2026-11-23 01:41 UTC"},
		{now.Add(-41 * clock.Second), "41s ago", "01:40:47", "2026-11-23 01:40 UTC"},
		{now.Add(-125 * clock.Minute), "2h5m ago", "23:36:28", "2026-11-22 23:36 UTC"},
		{now.Add(-25 * clock.Hour), "1d1h ago", "2026-11-22 00:41:28", "2026-11-22 00:41 UTC"},
		{now.Add(5 * clock.Minute), "in 5m", "01:46:28", "2026-11-23 01:46 UTC"},
		{now.Add(99*clock.Day + 23*clock.Hour), "in 99d23h", "2027-03-03 00:41:28", "2027-03-03 00:41 UTC"},
		{now.Add(3649*clock.Day + 23*clock.Hour), "in 3649d", "2036-11-20 00:41:28", "2036-11-20 00:41 UTC"},
	} {
		if got := Ago(c.at, now); got != c.ago {
			t.Errorf("%s is %q, expected %q", c.at, got, c.ago)
		}
		if got := Stamp(c.at, now); got != c.stamp {
			t.Errorf("%s is stamped %q, expected %q", c.at, got, c.stamp)
		}
		if got := Date(c.at); got != c.date {
			t.Errorf("%s is dated %q, expected %q", c.at, got, c.date)
		}
	}
}

// TestSpanKeepsTwoUnits is that a span says no more than what passed, and leaves out
// less than its second unit.
func TestSpanKeepsTwoUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := clock.Duration(rapid.Int64Range(0, int64(2*clock.Day-1)).Draw(t, "d"))
		said, err := clock.ParseDuration(strings.Replace(Span(d), "1d", "24h", 1))
		if strings.HasPrefix(Span(d), "1d") && strings.HasSuffix(Span(d), "h") {
			hours, herr := clock.ParseDuration("0h" + Span(d)[len("1d"):])
			said, err = clock.Day+hours, herr
		}
		testkit.Must(t, err)
		if d >= clock.Day {
			if said > d || d-said >= clock.Hour {
				t.Fatalf("%s reads %s", d, Span(d))
			}
			return
		}
		if said > d || d-said >= clock.Minute || d < clock.Hour && d-said >= clock.Second {
			t.Fatalf("%s reads %s", d, Span(d))
		}
	})
}

func TestReasonKeepsTheWords(t *testing.T) {
	for chain, want := range map[string]string{
		"prepare-failed: part-failed: workspace/redis: its healthcheck fails": "workspace/redis: its healthcheck fails",
		"act-failed: sh: apt-get: not found":                                  "sh: apt-get: not found",
		"probe published fails: 503":                                          "probe published fails: 503",
		"disk-pressure":                                                       "disk pressure",
		"a: disk-pressure":                                                    "a: disk-pressure",
		"":                                                                    "",
	} {
		if got := Reason(chain); got != want {
			t.Errorf("%q reads %q, expected %q", chain, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word  string
		names []string
		want  string
	}{
		{"chanels", []string{"channels", "hosts"}, "channels"},
		{"chanenls", []string{"channels", "hosts"}, "channels"},
		{"Hosts", []string{"channels", "hosts"}, "hosts"},
		{"tag", []string{"tags", "tab", "tagsAny"}, "tags,tab"},
		{"bundle", []string{"hosts"}, ""},
		{"a", []string{"b", "ab"}, ""},
		{"on", []string{"or", "no"}, ""},
		{"", []string{"a"}, ""},
		{strings.Repeat("x", 65), []string{strings.Repeat("x", 65)}, ""},
	} {
		if got := strings.Join(Nearest(c.word, c.names), ","); got != c.want {
			t.Errorf("%q of %v: %q, expected %q", c.word, c.names, got, c.want)
		}
	}
	if got := DidYouMean("chanels", []string{"channels"}); got != "; did you mean channels?" {
		t.Errorf("asks %q", got)
	}
}

// TestNearestFindsWhatWasMistyped is that one slip of the finger in a word of some
// length always leads back to the word.
func TestNearestFindsWhatWasMistyped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{4,12}`).Draw(t, "name")
		i := rapid.IntRange(0, len(name)-2).Draw(t, "at")
		typed := rapid.SampledFrom([]string{
			name[:i] + name[i+1:], name[:i] + "Q" + name[i:], name[:i] + "Q" + name[i+1:], name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:],
		}).Draw(t, "typed")
		if got := Nearest(typed, []string{"anotherword9", name}); !slices.Contains(got, name) {
			t.Fatalf("%q does not lead to %q but to %q", typed, name, got)
		}
	})
}

func TestLists(t *testing.T) {
	for want, got := range map[string]string{
		"": Names(nil, 2), "a": Names([]string{"a"}, 2), "a, b": Names([]string{"a", "b"}, 2), "a, b and 1 more": Names([]string{"a", "b", "c"}, 2),
		"x; y": Clauses("x", "", "y"), "x, y": Join("", "x", "y"),
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

func TestFormatLeavesOutWhatIsEmpty(t *testing.T) {
	for _, c := range []struct{ want, got string }{
		{"moved", Format("moved[ by %s][: %s]", "", "")},
		{"moved by ann", Format("moved[ by %s][: %s]", "ann", "")},
		{"moved: 100 % full", Format("moved[ by %s][: %s]", "", "100 % full")},
		{"a [b] %", Format("%s %%", "a [b]")},
		{"drift d of flow f, 2 fields", Format("drift[ %s] of %s %s[, %s]", "d", "flow", "f", "2 fields")},
		{"x: 1/2", Format("[%s: ]%d/%d", "x", 1, 2)},
		{"1/2", Format("[%s: ]%d/%d", "", 1, 2)},
		{"plain", Format("plain")},
	} {
		if c.got != c.want {
			t.Errorf("%q, expected %q", c.got, c.want)
		}
	}
}
