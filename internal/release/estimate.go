package release

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a build must not depend on the machine's own database of zones

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// LongPlan is what a rollout may take at the earliest before a build warns.
const LongPlan = 7 * clock.Day

// Expected is when a channel's rollout ends, were the release pushed as it is built.
type Expected struct {
	*rollout.Course
	// Refresh reports that freshness statements must be signed until the end: the
	// release's own lasts for FreshnessWindow.
	Refresh         bool           `json:"refresh"`
	FreshnessWindow clock.Duration `json:"freshnessWindow"`
}

// estimate solves every channel's plan, those that go first before those that
// wait for them. A plan that cannot end is an error.
func (b *builder) estimate() []fleet.Finding {
	var out []fleet.Finding
	done := map[string]rollout.Estimate{}
	for len(done) < len(b.plan.Channels) {
		for i := range b.plan.Channels {
			cp := &b.plan.Channels[i]
			start, ready := b.opens(cp.Name, done)
			if _, solved := done[cp.Name]; solved || !ready {
				continue
			}
			e, err := rollout.EstimateOf(&cp.Header, cp.Leaves, start)
			done[cp.Name] = e.End
			if err != nil {
				out = append(out, fleet.Finding{Path: []string{"channels", cp.Name}, Severity: fleet.Error,
					Message: "the rollout of channel \"" + cp.Name + "\": " + err.Error() + ": expected windows that open while the tables of time zones last"})
				continue
			}
			if len(cp.Leaves) == 0 {
				continue
			}
			took := e.End.Earliest.Sub(b.o.Now)
			if took > LongPlan {
				out = append(out, fleet.Finding{Path: []string{"channels", cp.Name}, Severity: fleet.Warning,
					Message: "the rollout of channel \"" + cp.Name + "\" ends at " + e.End.Earliest.String() + " at the earliest, in " + took.String() + ": waves, soak, budgets and windows allow no less"})
			}
			b.rel.Expected = append(b.rel.Expected, Expected{Course: e, Refresh: took > cp.Settings.FreshnessWindow, FreshnessWindow: cp.Settings.FreshnessWindow})
		}
	}
	slices.SortFunc(b.rel.Expected, func(x, y Expected) int { return strings.Compare(x.Channel, y.Channel) })
	return out
}

// opens is when a channel's rollout may open: after those that go first.
func (b *builder) opens(channel string, done map[string]rollout.Estimate) (rollout.Estimate, bool) {
	at := rollout.At(b.o.Now)
	for _, e := range b.plan.ChannelEdges {
		if e.Gated != channel {
			continue
		}
		finish, ok := done[e.Gates]
		if !ok {
			return at, false
		}
		at = at.After(finish)
	}
	return at, true
}

// How long the tables of time zones last: a new one to the end of the third year
// that follows, and one of the release before is kept while it lasts ZoneLeast
// more, so that a channel whose plan did not change keeps its manifest.
const (
	zoneYears = 4
	ZoneLeast = 2 * 365 * clock.Day
)

// zones makes the tables of the time zones that windows name. Names that are not
// known are left out.
func (b *builder) zones() map[string]clock.Zone {
	out := map[string]clock.Zone{}
	for i := range b.src.Declaration.MaintenanceWindows {
		name := b.src.Declaration.MaintenanceWindows[i].Zone()
		if _, done := out[name]; done {
			continue
		}
		fresh, err := zoneTable(name, b.o.Now)
		if err != nil {
			continue
		}
		out[name] = b.keptZone(fresh)
	}
	return out
}

// keptZone prefers the table that a manifest of the previous release has, if it
// says the same and lasts.
func (b *builder) keptZone(fresh clock.Zone) clock.Zone {
	if b.o.Previous == nil {
		return fresh
	}
	for _, name := range slices.Sorted(maps.Keys(b.o.Previous.Resolved.Value().Channels)) {
		for _, old := range b.history(name) {
			for _, w := range old.Header.Value().Windows {
				if w.Zone.Until.Sub(b.o.Now) >= ZoneLeast && w.Zone.From <= b.o.Now && w.Zone.Agrees(&fresh, max(w.Zone.From, fresh.From), w.Zone.Until) {
					return w.Zone
				}
			}
		}
	}
	return fresh
}

// zoneTable reads the database of zones. "Local" is the machine's own and means
// nothing elsewhere.
func zoneTable(name string, now clock.Instant) (clock.Zone, error) {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return clock.Zone{}, err
	}
	if name == "" || name == "Local" {
		return clock.Zone{}, errors.New("no zone of the database")
	}
	year := time.UnixMilli(int64(now)).UTC().Year()
	from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(zoneYears, 0, 0)
	_, offset := from.In(loc).Zone()
	z := clock.Zone{Name: name, From: clock.FromTime(from), Until: clock.FromTime(until), Offset: int64(offset), Transitions: []clock.Transition{}}
	for at := from; ; {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || !end.Before(until) {
			return z, nil
		}
		if _, next := end.In(loc).Zone(); next != offset {
			z.Transitions, offset = append(z.Transitions, clock.Transition{At: clock.FromTime(end), Offset: int64(next)}), next
		}
		at = end
	}
}
