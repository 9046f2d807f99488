package sim

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// S25: the leader's state is what its log folds to. It is compared as a whole when a
// server starts and at the end, and in schedules held against the specification after
// every event, with a second state that nothing but the stored bytes ever touched.

// follow is told of an event before the server folds it, when the one before it is
// folded. A server that was replaced folds what no log takes.
func (s *server) follow(e event.Entry) {
	if s.w.server != s {
		return
	}
	s.agrees()
	s.latest = e
	l := s.w.log
	if !s.w.modelled {
		return
	}
	err := error(nil)
	if l.second == nil {
		l.second, err = l.fold()
	}
	if err == nil {
		err = l.second.Apply(e)
	}
	if err != nil {
		s.w.violate("S25", "event %d does not fold again: %v", len(l.entries)+1, err)
	}
}

// agrees checks what the server made of the event that it folded last, unless that is
// done.
func (s *server) agrees() {
	e := s.latest
	if e.Type == "" || s.w.server != s {
		return
	}
	s.latest = event.Entry{}
	if e.HostSeq != 0 {
		s.w.checks.mirrored(s.w, &e, &s.state.Hosts[e.Host()].Machine)
	}
	if second := s.w.log.second; second != nil {
		if differs := differ(s.state, second); differs != "" {
			s.w.violate("S25", "after event %d %s is not what the log folds to", s.head, differs)
		}
	}
}

// refold compares a state of the whole log with what that folds to, and with what it
// would if it had not been pruned.
func (l *store) refold(live *plan.State) error {
	for _, b := range append([]base{{}}, l.bases...) {
		fresh, err := l.foldFrom(b)
		if err != nil {
			return err
		}
		if differs := differ(live, fresh); differs != "" {
			return fmt.Errorf("%s is not what the log folds to behind event %d", differs, b.n)
		}
	}
	return nil
}
