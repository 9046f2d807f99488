package server

import (
	"cmp"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// pace is when the planner runs: soon after an input, but the longer a run takes the
// longer the next one waits, so that what comes meanwhile is planned at once.
type pace struct {
	dirty  bool          // something was decided since the last tick
	urgent bool          // somebody waits for the next one
	after  time.Duration // no tick before, by Time.Up
	paused time.Duration // nothing at all before, by Time.Up
	// reconcile, prune and expiry are when each is done although nothing happened.
	reconcile, prune, expiry clock.Instant
	// planned is when each channel was planned last because its interval was over.
	planned map[string]clock.Instant
}

// Pauses of a server, by Time.Up.
const (
	fullPause = time.Second // after an append that found no room
	costShare = 10          // a tick is followed by so many times its cost
)

// pruneEvery is how often ended rollouts are looked at.
const pruneEvery = clock.Minute

// TickDue reports whether the planner has to run now.
func (s *Server) TickDue(t Time) bool {
	if s.setBack != nil || s.Paused(t) {
		return false
	}
	return s.pace.urgent || t.Up >= s.pace.after && (s.pace.dirty || s.State.Due().Reached(t.Now) || s.pace.reconcile == 0 || s.pace.reconcile.Reached(t.Now))
}

// never is longer than any world lives.
const never = 10_000 * clock.Day

// planPeriodically has every channel planned whose reconcileInterval is over since this
// did so last, and says when to tick next although nothing happened.
func (s *Server) planPeriodically(now clock.Instant) {
	if s.cfg.OnReasonOnly {
		s.pace.reconcile = now.Add(never)
		return
	}
	s.pace.reconcile = now.Add(s.cfg.ReconcileInterval)
	for _, name := range s.Plan.ChannelNames() {
		every := cmp.Or(s.Plan.Channels[name].ReconcileInterval, s.cfg.ReconcileInterval)
		if last := s.pace.planned[name]; last == 0 || last.Add(every).Reached(now) {
			s.Plan.Mark(name)
			s.pace.planned[name] = now
		}
		s.pace.reconcile = min(s.pace.reconcile, s.pace.planned[name].Add(every))
	}
}

// step plans, and while a host owes a part of the log plans rollbacks alone.
func (Tick) step(s *Server, t *Turn) error {
	if s.waits(t) {
		p, err := plan.NextRollbacks(s.Plan, t.Now)
		if err != nil {
			return err
		}
		if err := t.add(s.Planned(p.Events, nil)); err != nil {
			return err
		}
		return t.add(s.attend(nil, t.Now))
	}
	s.planPeriodically(t.Now)
	if err := t.add(s.State.Next(t.Now)); err != nil {
		return err
	}
	if s.pace.prune > t.Now {
		return nil
	}
	s.pace.prune = t.Now.Add(pruneEvery)
	return t.add(s.Planned(plan.Prune(s.Plan, s.cfg.Retention, t.Now)))
}

// waits reports whether nothing but rollbacks is planned now.
func (s *Server) waits(t *Turn) bool {
	waiting, late := s.safe.waiting(s.Plan.Hosts, t.Now)
	for _, name := range late {
		t.Effects = append(t.Effects, HistoryLost{name})
	}
	t.Effects = append(t.Effects, SafeModeChanged{})
	return waiting
}

// Ticked sets when the next tick may be, after one that began at t and took a while.
func (s *Server) Ticked(t Time, cost time.Duration) {
	gap := s.cfg.MaxTickGap.Std()
	s.pace.urgent, s.pace.dirty = false, s.pace.dirty || s.pace.urgent
	if s.Block(t.Now) == nil {
		gap = min(costShare*cost, gap)
		s.pace.dirty = false
	}
	s.pace.after = t.Up + gap
}

// Idle reports whether everything that was decided is planned.
func (s *Server) Idle() bool { return !s.pace.dirty && !s.pace.urgent }

// ExpiriesDue reports whether it has to be looked at what ends, once for each time.
func (s *Server) ExpiriesDue(t Time) bool {
	if s.setBack != nil || s.pace.expiry > t.Now {
		return false
	}
	s.pace.expiry = t.Now.Add(s.cfg.ReconcileInterval)
	return true
}

// Pause has nothing be decided for a while: an append found no room.
func (s *Server) Pause(t Time) { s.pace.paused = t.Up + fullPause }

// Paused reports whether nothing is decided now.
func (s *Server) Paused(t Time) bool { return t.Up < s.pace.paused }

// Sleep is how long nothing has to be done without an input; zero: not at all.
func (s *Server) Sleep(t Time) time.Duration {
	if s.setBack != nil {
		return s.cfg.ReconcileInterval.Std()
	}
	next := clock.Earliest(clock.Earliest(s.State.Due(), s.pace.reconcile), clock.Earliest(s.pace.expiry, s.presence.next()))
	d := max(0, next.Sub(t.Now).Std())
	if next == 0 {
		d = s.cfg.ReconcileInterval.Std()
	}
	switch {
	case s.pace.urgent:
		d = 0
	case s.pace.dirty || next.Reached(t.Now):
		d = s.pace.after - t.Up
	}
	return max(d, s.pace.paused-t.Up, 0)
}
