package warning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/warning"
)

const now = clock.Instant(1_800_000_000_000)

// TestLevels: the edges of every kind's thresholds.
func TestLevels(t *testing.T) {
	const gib = 1 << 30
	in := func(d clock.Duration) clock.Instant { return now.Add(d) }
	for _, c := range []struct {
		fact warning.Fact
		want warning.Level
	}{
		{warning.Fact{Kind: warning.Timestamp, Since: in(-clock.Hour), Ends: in(23 * clock.Hour)}, warning.OK},
		{warning.Fact{Kind: warning.Timestamp, Since: in(-19 * clock.Hour), Ends: in(5 * clock.Hour)}, warning.Warning}, // a quarter of its life
		{warning.Fact{Kind: warning.Timestamp, Since: in(-100 * clock.Second), Ends: in(20 * clock.Second)}, warning.Warning},
		{warning.Fact{Kind: warning.Timestamp, Since: in(-90 * clock.Second), Ends: in(31 * clock.Second)}, warning.OK},
		{warning.Fact{Kind: warning.Timestamp, Since: in(-clock.Day), Ends: now}, warning.Critical},
		{warning.Fact{Kind: warning.Timestamp, Since: in(-clock.Day), Ends: in(1)}, warning.Warning},
		{warning.Fact{Kind: warning.Root, Ends: in(30*clock.Day + 1)}, warning.OK},
		{warning.Fact{Kind: warning.Root, Ends: in(30 * clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.HostAuthority, Ends: in(-1)}, warning.Critical},
		{warning.Fact{Kind: warning.ServerAuthority, Ends: in(29 * clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.ServerCertificate, Since: in(-60 * clock.Day), Ends: in(30 * clock.Day)}, warning.OK}, // as it is when it is renewed
		{warning.Fact{Kind: warning.ServerCertificate, Since: in(-70 * clock.Day), Ends: in(20 * clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.HostCertificate, Name: "h", Since: in(-5 * clock.Day), Ends: in(2 * clock.Day)}, warning.OK},
		{warning.Fact{Kind: warning.HostCertificate, Name: "h", Since: in(-6 * clock.Day), Ends: in(clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.OperatorToken, Name: "ci", Ends: in(-clock.Day)}, warning.Warning}, // nothing of the fleet stops
		{warning.Fact{Kind: warning.Freeze, Name: "h", Ends: in(1)}, warning.OK},
		{warning.Fact{Kind: warning.Window, Name: "w", Ends: in(29 * clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.Overrides, Used: 1024, Limit: 1024}, warning.Critical},
		{warning.Fact{Kind: warning.Overrides, Limit: 1024}, warning.OK},
		{warning.Fact{Kind: warning.Disk, Used: 89, Limit: 100}, warning.OK},
		{warning.Fact{Kind: warning.Disk, Used: 90, Limit: 100}, warning.Warning},
		{warning.Fact{Kind: warning.Disk, Used: 97, Limit: 100}, warning.Critical},
		{warning.Fact{Kind: warning.Disk, Used: 3900 * gib, Limit: 4000 * gib}, warning.OK}, // 100 GiB are free
		{warning.Fact{Kind: warning.Disk, Used: 3990 * gib, Limit: 4000 * gib}, warning.Warning},
		{warning.Fact{Kind: warning.Disk, Used: 3999 * gib, Limit: 4000 * gib}, warning.Critical},
		{warning.Fact{Kind: warning.Log, Used: 79, Limit: 100}, warning.OK},
		{warning.Fact{Kind: warning.Log, Used: 95, Limit: 100}, warning.Critical},
		{warning.Fact{Kind: warning.Backup, Since: in(-clock.Day), Ends: in(clock.Day)}, warning.OK},
		{warning.Fact{Kind: warning.Backup, Since: in(-9 * clock.Day), Ends: in(-7 * clock.Day)}, warning.Warning},
		{warning.Fact{Kind: warning.Outbox, Name: "h", Used: 999, Limit: 1000}, warning.OK},
		{warning.Fact{Kind: warning.Outbox, Name: "h", Used: 50_000, Limit: 1000}, warning.Warning},
	} {
		items := warning.Items([]warning.Fact{c.fact}, now)
		if len(items) != 1 || items[0].Level != c.want {
			t.Errorf("%+v: %+v, want %s", c.fact, items, c.want)
			continue
		}
		i := items[0]
		if w := i.Warning(); (w == "") != (c.want == warning.OK) || strings.ContainsAny(w, "{}") || strings.HasPrefix(w, ";") || strings.HasSuffix(w, "; ") {
			t.Errorf("%s: %q", c.fact.Kind, w)
		}
	}
}

// TestMessages: a warning says what, whose, when, what it means and what to do.
func TestMessages(t *testing.T) {
	items := warning.Items([]warning.Fact{
		{Kind: warning.Timestamp, Name: "stable", Since: now - 257_000, Ends: now - 137_000},
		{Kind: warning.Disk, Used: 95 << 20, Limit: 100 << 20},
		{Kind: warning.HostCertificate, Name: "web-1", Since: now.Add(-8 * clock.Day), Ends: now.Add(-clock.Day)},
		{Kind: warning.HostCertificate, Name: "web-2", Since: now.Add(-9 * clock.Day), Ends: now.Add(-2 * clock.Day)},
		{Kind: warning.HostCertificate, Name: "web-3", Since: now.Add(-10 * clock.Day), Ends: now.Add(-3 * clock.Day)},
		{Kind: warning.HostCertificate, Name: "web-4", Since: now.Add(-11 * clock.Day), Ends: now.Add(-4 * clock.Day)},
		{Kind: warning.HostCertificate, Name: "web-5", Since: now, Ends: now.Add(7 * clock.Day)},
	}, now)
	var got []string
	for i := range items {
		got = append(got, fmt.Sprint(items[i].Level, ": ", items[i].Warning()))
	}
	want := []string{
		"critical: the timestamp of channel stable expired 2 min 17 s ago, at 2027-01-15T07:57:43.000Z: nothing is granted on the channel since then; sign a new one: steady release refresh (elsewhere than in its folder with --previous server), then steady release push",
		"critical: the certificate of web-4, web-3, web-2 and 1 more expired 4 d 0 h ago, at 2027-01-11T08:00:00.000Z: the host cannot connect any more; bring the host back in time, or enrol it again: steady token create web-4; steady host decommission web-4 if it is gone",
		"warning: the disk of the data folder is 95 % full, 5.0 MiB are free: when it is full nothing is accepted and nothing is granted; free disk space, or give the disk more",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if items[1].Hosts != 4 {
		t.Errorf("%d hosts", items[1].Hosts)
	}
}

// TestLevelsNeverImproveByThemselves: time alone never makes anything better, and what fills up
// never gets better by filling; a level is OK exactly where there is no message.
func TestLevelsNeverImproveByThemselves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := warning.Fact{Kind: rapid.SampledFrom(warning.Kinds()).Draw(rt, "kind"), Name: "x"}
		if rapid.Bool().Draw(rt, "instant") {
			f.Since = now.Add(-clock.Duration(rapid.Int64Range(0, int64(400*clock.Day)).Draw(rt, "since")))
			f.Ends = f.Since.Add(clock.Duration(rapid.Int64Range(1, int64(800*clock.Day)).Draw(rt, "life")))
		} else {
			f.Limit = rapid.Int64Range(1, 1<<45).Draw(rt, "limit")
			f.Used = rapid.Int64Range(0, f.Limit).Draw(rt, "used")
		}
		first := warning.Items([]warning.Fact{f}, now)[0]
		if (first.Level == warning.OK) != (first.Message == "") {
			rt.Fatalf("%+v", first)
		}
		if first.Recovered && first.Level != warning.OK {
			rt.Fatalf("recovered at level %s", first.Level)
		}
		later, more := now, f
		if f.Ends != 0 {
			later = now.Add(clock.Duration(rapid.Int64Range(0, int64(800*clock.Day)).Draw(rt, "passes")))
		} else {
			more.Used = rapid.Int64Range(f.Used, f.Limit).Draw(rt, "fills")
		}
		if then := warning.Items([]warning.Fact{more}, later)[0]; first.Level.Worse(then.Level) {
			rt.Fatalf("%s, then %s", first.Level, then.Level)
		}
	})
}

// TestWorstFirst: the order is that of levels, then of kinds, then of names, whatever
// the order of the facts.
func TestWorstFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var facts []warning.Fact
		for i := range rapid.IntRange(0, 12).Draw(rt, "n") {
			facts = append(facts, warning.Fact{Kind: rapid.SampledFrom([]warning.Kind{warning.Timestamp, warning.OperatorToken, warning.HostCertificate}).Draw(rt, "kind"), Name: fmt.Sprint(i),
				Ends: now.Add(clock.Duration(rapid.Int64Range(int64(-clock.Day), int64(40*clock.Day)).Draw(rt, "left")))})
		}
		items := warning.Items(facts, now)
		shuffled := rapid.Permutation(facts).Draw(rt, "again")
		if again := warning.Items(shuffled, now); !slices.Equal(items, again) {
			rt.Fatalf("%+v\n%+v", items, again)
		}
		for i := 1; i < len(items); i++ {
			if items[i].Level.Worse(items[i-1].Level) {
				rt.Fatalf("%s comes before %s", items[i-1].Level, items[i].Level)
			}
		}
	})
}
