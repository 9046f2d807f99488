package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/sim/model"
)

// compare is S25 and S26 by a second planner: what a tick decided from the state
// that it keeps is what the naive model decides from the log before it.
func (s *server) compare(p *plan.Plan, now clock.Instant) {
	if !s.w.modelled {
		return
	}
	entries := make([]event.Entry, len(p.Decisions))
	for i := range p.Decisions {
		entries[i] = p.Decisions[i].Entry
	}
	due, err := model.Decisions(s.w.docs, s.w.log.modelled[:s.head], now)
	s.differ(entries, due, err)
}

// prune is an operator's, compared in the same way.
func (s *server) prune(keep plan.Retention) ([]event.Entry, error) {
	now := s.now()
	entries, err := plan.Prune(s.state, keep, now)
	if s.w.modelled && err == nil {
		due, failed := model.Prunable(s.w.docs, s.w.log.modelled[:s.head], keep.Keep, keep.Age, now)
		s.differ(entries, due, failed)
	}
	return entries, err
}

func (s *server) differ(entries []event.Entry, due []string, err error) {
	if err != nil {
		s.w.violate("S26", "the model reads event %d of the log: %v", s.head, err)
		return
	}
	planned := make([]string, len(entries))
	for i, e := range entries {
		ev, err := event.Decode(e)
		if err != nil {
			s.w.violate("S26", "%v", err)
			return
		}
		planned[i] = model.Words(e.Host, ev)
	}
	if diff := model.Compare(planned, due); diff != "" {
		s.w.violate("S26", "after event %d %s", s.head, diff)
	}
}
