package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Estimate is the earliest course of one rollout: waves, soak, budgets, host edges and
// maintenance windows solved together. It is a bound: every host is there, needs the
// change, activates in no time and stays healthy; budgets hold nothing of other
// channels; and freshness statements are signed again in time.
type Estimate struct {
	Channel string          `json:"channel"`
	Start   clock.Instant   `json:"start"`
	Finish  clock.Instant   `json:"finish"`
	Waves   []EstimatedWave `json:"waves"`
}

// EstimatedWave is when a wave's first host may be granted, and its last one has
// converged. A wave without hosts takes no time.
type EstimatedWave struct {
	Name  string        `json:"name"`
	First clock.Instant `json:"first"`
	Done  clock.Instant `json:"done"`
}

// NeverError says why a rollout cannot end.
type NeverError struct{ Wave, Why string }

func (e *NeverError) Error() string { return "wave " + e.Wave + " can never finish: " + e.Why }

// group is hosts of a wave that are alike.
type group struct {
	leaf    *fleet.Leaf // one of them
	windows []clock.Window
	left    int
}

// flight is hosts on their way.
type flight struct {
	until clock.Instant
	g     *group
	n     int
}

type solver struct {
	m        *fleet.Manifest
	inFlight []int // by budget
	done     map[string]bool
	flights  []flight
}

// EstimateOf solves the plan of a manifest for a rollout that opens at start.
func EstimateOf(m *fleet.Manifest, leaves []fleet.Leaf, start clock.Instant) (Estimate, error) {
	s := &solver{m: m, inFlight: make([]int, len(m.Budgets)), done: map[string]bool{}}
	e := Estimate{Channel: m.Channel, Start: start, Finish: start}
	groups := grouped(m, leaves)
	for i := range m.Waves {
		w, err := s.wave(i, groups[i], e.Finish)
		if err != nil {
			return e, err
		}
		e.Waves, e.Finish = append(e.Waves, w), w.Done
	}
	return e, nil
}

// grouped groups the leaves by wave. A host that goes before or after another is
// alone.
func grouped(m *fleet.Manifest, leaves []fleet.Leaf) [][]*group {
	first := map[string]bool{}
	for i := range leaves {
		for _, h := range leaves[i].After {
			first[h] = true
		}
	}
	out, index := make([][]*group, len(m.Waves)), map[string]*group{}
	for i := range leaves {
		l := &leaves[i]
		key := key(l)
		if len(l.After) > 0 || first[l.Host] {
			key = l.Host
		}
		g := index[key]
		if g == nil {
			g = &group{leaf: l, windows: m.WindowsOf(l)}
			index[key], out[l.Wave] = g, append(out[l.Wave], g)
		}
		g.left++
	}
	return out
}

func key(l *fleet.Leaf) string {
	var b strings.Builder
	for _, list := range [][]int{{l.Wave}, l.Budgets, l.Windows} {
		for _, n := range list {
			b.WriteString(strconv.Itoa(n) + " ")
		}
		b.WriteByte('/')
	}
	return b.String()
}

func (s *solver) wave(i int, groups []*group, now clock.Instant) (EstimatedWave, error) {
	w := EstimatedWave{Name: s.m.Waves[i].Name, First: now, Done: now}
	begun := false
	for {
		for s.grant(groups, now, s.m.Waves[i].Soak) {
			if !begun {
				begun, w.First = true, now
			}
		}
		left := slices.IndexFunc(groups, func(g *group) bool { return g.left > 0 })
		if left < 0 && len(s.flights) == 0 {
			w.Done = now
			return w, nil
		}
		next, blocked := s.next(groups, now)
		if next == 0 {
			return w, &NeverError{Wave: w.Name, Why: s.why(groups[left], blocked)}
		}
		now = next
		s.land(now)
	}
}

// grant starts what may start and reports whether anything did.
func (s *solver) grant(groups []*group, now clock.Instant, soak clock.Duration) bool {
	began := false
	for _, g := range groups {
		if g.left == 0 || !s.eligible(g) || !clock.AllOpen(g.windows, now) {
			continue
		}
		n := g.left
		for _, b := range g.leaf.Budgets {
			n = min(n, s.m.Budgets[b].Max-s.inFlight[b])
		}
		if n <= 0 {
			continue
		}
		if soak == 0 {
			n = g.left // one after the other, in no time
		} else {
			s.flights = append(s.flights, flight{now.Add(soak), g, n})
			for _, b := range g.leaf.Budgets {
				s.inFlight[b] += n
			}
		}
		if g.left -= n; soak == 0 {
			s.done[g.leaf.Host] = g.left == 0
		}
		began = true
	}
	return began
}

func (s *solver) eligible(g *group) bool {
	return !slices.ContainsFunc(g.leaf.After, func(h string) bool { return !s.done[h] })
}

// next is when something lands or opens, or zero; blocked is a group whose
// windows never open again.
func (s *solver) next(groups []*group, now clock.Instant) (at clock.Instant, blocked *group) {
	for _, f := range s.flights {
		at = clock.Earliest(at, f.until)
	}
	for _, g := range groups {
		if g.left == 0 || !s.eligible(g) || clock.AllOpen(g.windows, now) {
			continue
		}
		opens, ok := clock.NextOpening(g.windows, now)
		if !ok {
			blocked = g
			continue
		}
		at = clock.Earliest(at, opens)
	}
	return at, blocked
}

func (s *solver) land(now clock.Instant) {
	s.flights = slices.DeleteFunc(s.flights, func(f flight) bool {
		if f.until > now {
			return false
		}
		for _, b := range f.g.leaf.Budgets {
			s.inFlight[b] -= f.n
		}
		s.done[f.g.leaf.Host] = true
		return true
	})
}

func (s *solver) why(g, blocked *group) string {
	if blocked == nil {
		return fmt.Sprintf("host %s goes after %s, which is in a later wave", g.leaf.Host, strings.Join(g.leaf.After, ", "))
	}
	var names []string
	for i := range blocked.windows {
		names = append(names, blocked.windows[i].Name)
	}
	if len(names) > 1 {
		return fmt.Sprintf("windows %s of host %s are never open together before %s", strings.Join(names, " and "), blocked.leaf.Host, clock.Horizon(blocked.windows))
	}
	return fmt.Sprintf("window %s of host %s does not open often enough before %s", names[0], blocked.leaf.Host, clock.Horizon(blocked.windows))
}
