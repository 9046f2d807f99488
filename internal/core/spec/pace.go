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

// DefaultStopGrace is the grace of a container that has none of its own, as engines have it, and HookTime bounds
// one command around a start or a stop.
const (
	DefaultStopGrace = 10 * clock.Second
	HookTime         = 2 * clock.Minute
	// stopSlack is what the rest of a stop takes: an engine that is slow to list what there is, requests that are
	// let end, the kill, the removal.
	stopSlack = 45 * clock.Second
)

// Grace is how long the workspace is given between the signal to stop and the one that kills.
func (w *Workspace) Grace() clock.Duration {
	if w.StopGrace != nil {
		return *w.StopGrace
	}
	return DefaultStopGrace
}

// StopTime is how long it may take until the workspace is gone.
func (w *Workspace) StopTime() clock.Duration {
	return w.Grace() + clock.Duration(len(w.PreStop))*HookTime + stopSlack
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
