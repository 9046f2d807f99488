package spec

import (
	"github.com/steadyfleet/steady/internal/core/clock"
)

// Pace is how slow a set may be by the times that its services declare.
type Pace struct {
	// Stop is the longest time that a service is given to stop, Start the longest that one may take to
	// be healthy, with those that it waits for; 0 where none is declared.
	Stop, Start clock.Duration
	// Stops and Starts name the services.
	Stops, Starts string
}

// Pace is that of the set; a nil set declares nothing.
func (s *Set) Pace() (p Pace) {
	if s == nil {
		return p
	}
	starts := map[string]clock.Duration{}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		if w.StopGrace != nil && *w.StopGrace > p.Stop {
			p.Stop, p.Stops = *w.StopGrace, w.Name
		}
		if start := s.start(w, starts); start > p.Start {
			p.Start, p.Starts = start, w.Name
		}
	}
	return p
}

// start is how long a workspace may take to be healthy; known has those that were looked at.
func (s *Set) start(w *Workspace, known map[string]clock.Duration) clock.Duration {
	if start, ok := known[w.Name]; ok {
		return start
	}
	known[w.Name] = 0 // a circle ends here
	var before clock.Duration
	for _, d := range w.DependsOn {
		if other := s.Workspace(d.Workspace); other != nil && d.Condition == Healthy {
			before = max(before, s.start(other, known))
		}
	}
	known[w.Name] = before + w.healthWait()
	return known[w.Name]
}

// healthWait is the declared bound of the wait for the healthcheck; 0 without one.
func (w *Workspace) healthWait() clock.Duration {
	if h := w.Health; w.Update.HealthWait == 0 && h != nil && !h.Disable {
		return h.Patience()
	}
	return w.Update.HealthWait
}
