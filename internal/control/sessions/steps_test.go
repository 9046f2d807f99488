package sessions

import (
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

// steps are the time of a world in no bubble: it goes from one thing that is due to the next, in the goroutine
// of the test, so that one seed is one history.
type steps struct {
	now   time.Time
	turns *reconcile.Stepper
	tends time.Time // when the hosts are looked at
}

func stepped(t testkit.T, hosts ...string) *world {
	w := hostsOf(t, hosts)
	w.steps = &steps{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.fold()
	w.start()
	return w
}

// soon has the hosts looked at in a second.
func (s *steps) soon() {
	if at := s.now.Add(time.Second); s.tends.IsZero() || at.Before(s.tends) {
		s.tends = at
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	s := w.steps
	if s == nil {
		pass(d)
		return
	}
	until := s.now.Add(d)
	for {
		next := s.turns.Step()
		if !s.tends.IsZero() && s.tends.Before(next) {
			next = s.tends
		}
		if next.After(until) {
			s.now = until
			return
		}
		s.now = next
		if next.Equal(s.tends) {
			s.tends = time.Time{}
			again := w.tend()
			if at := s.now.Add(again); s.tends.IsZero() || at.Before(s.tends) {
				s.tends = at
			}
		}
	}
}
