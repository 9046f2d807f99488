package rollout_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// start is a Monday, 2026-01-05 12:00 UTC.
const start clock.Instant = 1767614400000

func win(t rapid.TB, cron, duration string) clock.Window {
	c := testkit.Value(clock.ParseCron(cron))(t)
	d := testkit.Value(clock.ParseDuration(duration))(t)
	return clock.Window{Name: strings.Fields(cron)[1], Cron: c, Duration: d,
		Zone: clock.Zone{Name: "UTC", From: start.Add(-clock.Day), Until: start.Add(2 * 365 * clock.Day)}}
}

func wave(name string, soak clock.Duration) fleet.Wave { return fleet.Wave{Name: name, Soak: soak} }

func leaf(host string, wave int, change ...func(*fleet.Leaf)) fleet.Leaf {
	l := fleet.Leaf{Host: host, Wave: wave}
	for _, f := range change {
		f(&l)
	}
	return l
}

func in(windows ...int) func(*fleet.Leaf)     { return func(l *fleet.Leaf) { l.Windows = windows } }
func of(budgets ...int) func(*fleet.Leaf)     { return func(l *fleet.Leaf) { l.Budgets = budgets } }
func after(hosts ...string) func(*fleet.Leaf) { return func(l *fleet.Leaf) { l.After = hosts } }

func TestEarliestFinish(t *testing.T) {
	hour := clock.Hour
	for _, c := range []struct {
		name   string
		m      fleet.Manifest
		leaves []fleet.Leaf
		want   clock.Duration // after start
		never  string
	}{
		{name: "waves soak in turn", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour), wave("b", 2*hour)}},
			leaves: []fleet.Leaf{leaf("h0", 0), leaf("h1", 1)}, want: 3 * hour},
		{name: "an empty wave takes no time", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour), wave("b", 2*hour)}},
			leaves: []fleet.Leaf{leaf("h0", 1)}, want: 2 * hour},
		{name: "a budget of two of five", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour)}, Budgets: []fleet.Budget{{Max: 2}}},
			leaves: []fleet.Leaf{leaf("h0", 0, of(0)), leaf("h1", 0, of(0)), leaf("h2", 0, of(0)), leaf("h3", 0, of(0)), leaf("h4", 0, of(0))}, want: 3 * hour},
		{name: "a budget without soak", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 0)}, Budgets: []fleet.Budget{{Max: 1}}},
			leaves: []fleet.Leaf{leaf("h0", 0, of(0)), leaf("h1", 0, of(0))}, want: 0},
		{name: "an edge", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour)}},
			leaves: []fleet.Leaf{leaf("h0", 0, after("h1")), leaf("h1", 0)}, want: 2 * hour},
		{name: "an edge without soak", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 0)}},
			leaves: []fleet.Leaf{leaf("h0", 0, after("h1")), leaf("h1", 0)}, want: 0},
		{name: "an edge to a later wave", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour), wave("b", hour)}},
			leaves: []fleet.Leaf{leaf("h0", 0, after("h1")), leaf("h1", 1)}, never: "later wave"},
		{name: "the window of tonight", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour)}, Windows: []clock.Window{win(t, "0 2 * * *", "3h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0))}, want: 15 * hour},
		{name: "soaking past the end of the window", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 4*hour), wave("b", hour)}, Windows: []clock.Window{win(t, "0 2 * * *", "3h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0)), leaf("h1", 1, in(0))}, want: 39 * hour},
		{name: "two waves in one night", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", hour), wave("b", hour)}, Windows: []clock.Window{win(t, "0 2 * * *", "3h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0)), leaf("h1", 1, in(0))}, want: 16 * hour},
		{name: "two windows that overlap", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 0)}, Windows: []clock.Window{win(t, "0 2 * * *", "3h"), win(t, "0 4 * * *", "3h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0, 1))}, want: 16 * hour},
		{name: "two windows that never do", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 0)}, Windows: []clock.Window{win(t, "0 2 * * *", "1h"), win(t, "0 4 * * *", "1h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0, 1))}, never: "never open together"},
		{name: "one host a year", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 48*hour), wave("b", 48*hour), wave("c", 0)}, Windows: []clock.Window{win(t, "0 2 1 3 *", "3h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0)), leaf("h1", 1, in(0)), leaf("h2", 2, in(0))}, never: "does not open often enough"},
		{name: "a soak that lets one host through a night", m: fleet.Manifest{Waves: []fleet.Wave{wave("a", 2*hour)}, Budgets: []fleet.Budget{{Max: 1}}, Windows: []clock.Window{win(t, "0 2 * * *", "1h")}},
			leaves: []fleet.Leaf{leaf("h0", 0, in(0), of(0)), leaf("h1", 0, in(0), of(0)), leaf("h2", 0, in(0), of(0))}, want: (14 + 48 + 2) * hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := rollout.EstimateOf(&c.m, c.leaves, rollout.At(start))
			var never *rollout.NeverError
			if c.never != "" {
				if !errors.As(err, &never) || !strings.Contains(never.Why, c.never) {
					t.Fatalf("expected never because of %q, got %+v, %v", c.never, e, err)
				}
				return
			}
			if err != nil || e.End.Earliest.Sub(start) != c.want {
				t.Fatalf("finishes after %s, %v; expected %s", e.End.Earliest.Sub(start), err, c.want)
			}
		})
	}
}

// TestMoreRoomIsNeverLater checks that a larger budget and no windows at all never
// make a rollout later, and that none ends before its soaks.
func TestMoreRoomIsNeverLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fleet.Manifest{Budgets: []fleet.Budget{{Max: rapid.IntRange(1, 3).Draw(t, "max")}}, Windows: []clock.Window{win(t, "0 2 * * *", "2h"), win(t, "*/30 1-5 * * *", "20m")}}
		var leaves []fleet.Leaf
		var least clock.Duration
		for w := range rapid.IntRange(1, 3).Draw(t, "waves") {
			m.Waves = append(m.Waves, wave(strconv.Itoa(w), clock.Duration(rapid.SampledFrom([]int{0, 10, 90}).Draw(t, "soak"))*clock.Minute))
			hosts := rapid.IntRange(0, 6).Draw(t, "hosts")
			for h := range hosts {
				l := leaf(strconv.Itoa(w)+"-"+strconv.Itoa(h), w)
				l.Budgets = slices.Clone([]int{0}[:rapid.IntRange(0, 1).Draw(t, "budget")])
				l.Windows = slices.Clone([]int{0, 1}[:rapid.IntRange(0, 2).Draw(t, "windows")])
				leaves = append(leaves, l)
			}
			if hosts > 0 {
				least += m.Waves[w].Soak
			}
		}
		e, err := rollout.EstimateOf(&m, leaves, rollout.At(start))
		if err != nil || e.End.Earliest < start.Add(least) {
			t.Fatalf("finishes %s after the start, the soaks alone take %s: %v", e.End.Earliest.Sub(start), least, err)
		}
		for i, w := range e.Waves {
			if w.Done.Earliest < w.Opens.Earliest || w.Done.Likely < w.Done.Earliest || w.Done.Latest < w.Done.Likely || i > 0 && w.Opens != e.Waves[i-1].Done {
				t.Fatalf("waves overlap: %+v", e.Waves)
			}
		}
		for i := range leaves {
			leaves[i].Windows, leaves[i].Budgets = nil, nil
		}
		if free, err := rollout.EstimateOf(&m, leaves, rollout.At(start)); err != nil || free.End.Earliest > e.End.Earliest {
			t.Fatalf("without windows and budgets it finishes at %s, with them at %s: %v", free.End.Earliest, e.End.Earliest, err)
		}
	})
}
