package rollout

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Estimate is when something comes about while all goes as planned: no host fails or goes
// away, and no operator steps in. It never lies before the instant that it was made at.
type Estimate struct {
	// Earliest is a bound: hosts prepare and activate in no time. Where Hangs is set it is
	// counted as if that ended now.
	Earliest clock.Instant `json:"earliest"`
	// Likely and Latest take hosts at their usual and at their slowest pace; zero where Hangs is set.
	Likely clock.Instant `json:"likely,omitempty"`
	Latest clock.Instant `json:"latest,omitempty"`
	// Hangs is what holds it for a time that the plan does not tell.
	Hangs string `json:"hangs,omitempty"`
}

// Message says the estimate, for every page, table and line that shows one.
func (e *Estimate) Message(now clock.Instant) string {
	if e.Hangs != "" {
		after := ""
		if d := e.Earliest.Sub(now); d >= clock.Second {
			after = "; " + prose.Span(d) + " after that at the earliest"
		}
		return "at an open date: " + e.Hangs + after
	}
	at := prose.Date(e.Likely) + " (" + ahead(e.Likely, now, clock.Minute/2) + ")"
	switch {
	case e.Latest.Sub(now) < clock.Second:
		return "at any moment"
	case e.Latest.Sub(e.Earliest) < clock.Minute:
		return "at " + at
	case e.Earliest.Sub(now) < clock.Second:
		return "likely at " + at + ", " + ahead(e.Latest, now, clock.Minute-1) + " at the latest"
	}
	return "likely at " + at + ", " + ahead(e.Earliest, now, 0) + " at the earliest, " + ahead(e.Latest, now, clock.Minute-1) + " at the latest"
}

// ahead is a time to come; from ten minutes on seconds count no more, and it is that of the whole minute
// once so much was added.
func ahead(t, now clock.Instant, add clock.Duration) string {
	d := t.Sub(now)
	if d >= 10*clock.Minute {
		d = (d + add) / clock.Minute * clock.Minute
	}
	return prose.Ago(now.Add(d), now)
}

// Course is how one rollout goes while all goes as planned.
type Course struct {
	Channel string         `json:"channel"`
	Start   clock.Instant  `json:"start"` // when it was estimated
	End     Estimate       `json:"end"`
	Waves   []CourseOfWave `json:"waves"`

	p      *Problem
	begins [passes][]clock.Instant // by task; zero: it has begun, or hangs
	hangs  string
}

// CourseOfWave is when a wave opens, and when its last host has converged, which promotes it.
// A wave without hosts takes no time; of one that is promoted already both are zero.
type CourseOfWave struct {
	Name  string   `json:"name"`
	Opens Estimate `json:"opens"`
	Done  Estimate `json:"done"`
}

// Turn is when a task may begin at which its host still waits; nil where it does not.
func (c *Course) Turn(task int) *Estimate {
	t := &c.p.Tasks[task]
	if t.State != Waits {
		return nil
	}
	e := Estimate{Earliest: max(c.begins[least][task], c.Start), Likely: c.begins[usual][task], Latest: c.begins[slow][task]}
	if e.Likely == 0 || e.Latest == 0 {
		e.Likely, e.Latest, e.Hangs = 0, 0, t.Hangs
		if e.Hangs == "" {
			e.Hangs = c.hangs
		}
		return &e
	}
	e.order()
	return &e
}

// order puts right what plays of one list of hosts may bring about: that slower hosts are through before.
func (e *Estimate) order() {
	e.Likely = max(e.Likely, e.Earliest)
	e.Latest = max(e.Latest, e.Likely)
}

// NeverError reports why a rollout cannot end.
type NeverError struct{ Wave, Why string }

func (e *NeverError) Error() string { return "wave " + e.Wave + " can never finish: " + e.Why }

// At is the estimate of what comes at an instant.
func At(t clock.Instant) Estimate { return Estimate{Earliest: t, Likely: t, Latest: t} }

// After is the estimate of what comes once both have.
func (e Estimate) After(o Estimate) Estimate {
	return Estimate{Earliest: max(e.Earliest, o.Earliest), Likely: max(e.Likely, o.Likely), Latest: max(e.Latest, o.Latest)}
}

// EstimateOf is the course of a plan that opens at some time, for a fleet of which nothing is known:
// every host is there and needs the change, and budgets hold nothing of other channels.
func EstimateOf(m *fleet.Manifest, leaves []fleet.Leaf, opens Estimate) (*Course, error) {
	c, err := estimateFrom(m, leaves, opens.Earliest)
	if err != nil || opens.Latest == opens.Earliest {
		return c, err
	}
	likely, err := estimateFrom(m, leaves, opens.Likely)
	if err != nil {
		return c, err
	}
	latest, err := estimateFrom(m, leaves, opens.Latest)
	join := func(e, l, s *Estimate) { e.Likely, e.Latest = l.Likely, s.Latest }
	for i := range c.Waves {
		join(&c.Waves[i].Opens, &likely.Waves[i].Opens, &latest.Waves[i].Opens)
		join(&c.Waves[i].Done, &likely.Waves[i].Done, &latest.Waves[i].Done)
	}
	join(&c.End, &likely.End, &latest.End)
	return c, err
}

func estimateFrom(m *fleet.Manifest, leaves []fleet.Leaf, start clock.Instant) (*Course, error) {
	p := NewProblem(m, leaves, start)
	for i := range p.Tasks {
		p.Tasks[i].State, p.Tasks[i].Budgets = Waits, leaves[i].Budgets
	}
	for i := range m.Budgets {
		p.Budgets = append(p.Budgets, Slots{Selector: m.Budgets[i].Selector, Max: m.Budgets[i].Max})
	}
	p.Canaries = m.CanaryMax
	c := p.Solve()
	if i := slices.IndexFunc(c.Waves, func(w CourseOfWave) bool { return w.Done.Hangs != "" }); i >= 0 {
		return c, &NeverError{Wave: c.Waves[i].Name, Why: c.Waves[i].Done.Hangs}
	}
	return c, nil
}
