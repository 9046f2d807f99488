package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/oracle"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// compare is S25 and S26 by a second planner: what a tick decided from the state
// that it keeps is what the specification decides on the log before it.
func (s *server) compare(p *plan.Plan, now clock.Instant) {
	if !s.w.modelled {
		return
	}
	var due []string
	facts, err := s.w.log.facts(s.head)
	if err == nil {
		due, err = oracle.Decisions(facts, now)
	}
	s.differ(p.Events, due, err)
}

// prune is an operator's, compared in the same way.
func (s *server) prune(keep plan.Retention) ([]event.Entry, error) {
	now := s.now()
	entries, err := plan.Prune(s.state, keep, now)
	if s.w.modelled && err == nil {
		var due []string
		facts, failed := s.w.log.facts(s.head)
		if failed == nil {
			due = oracle.Prunable(facts, keep.Keep, keep.Most, keep.Age, now)
		}
		s.differ(entries, due, failed)
	}
	return entries, err
}

func (s *server) differ(entries []event.Entry, due []string, err error) {
	if err != nil {
		s.w.violate("S26", "the specification reads event %d of the log: %v", s.head, err)
		return
	}
	planned := make([]string, len(entries))
	for i, e := range entries {
		ev, err := event.Decode(e)
		if err != nil {
			s.w.violate("S26", "%v", err)
			return
		}
		planned[i] = oracle.Describe(e.Host(), ev)
	}
	if diff := oracle.Compare(planned, due); diff != "" {
		s.w.violate("S26", "after event %d %s", s.head, diff)
	}
}
