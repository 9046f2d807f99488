package sim

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/internal/control/sessions"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
)

// Labs are the sessions of a schedule that has them: the runner as it ships takes its turns on the
// server's log, between everything else that happens.

// labs runs the sessions of one process of a server.
type labs struct {
	*sessions.Runner
	turns *reconcile.Stepper
	due   clock.Instant // of the world: when turns are taken next; zero: when something happens
	over  bool
}

var _ sessions.Server = labServer{}

// labServer is a server as its sessions see it.
type labServer struct{ *server }

var errAway = errors.New("the server is not there")

// labsBase is a snapshot of what sessions have, and how much of the log it folded.
type labsBase struct {
	n     int
	parts map[string]json.RawMessage
}

// fresh is the state that a process begins with: of half the schedules from the snapshot that the one before
// it made, as servers begin.
func (s *server) fresh(state *plan.State, head int) *coreserver.State {
	l := s.w.log
	if !s.w.labs() {
		return coreserver.NewPlanState(state, s.w.docs)
	}
	if l.labs.n > head {
		l.labs = labsBase{}
	}
	all, err := coreserver.NewStateWith(state, s.w.docs, l.labs.parts, l.entries[l.labs.n:head], l.events[l.labs.n:head])
	if err == nil && head > 0 && (s.w.cfg.Seed%2 == 0 || s.w.cfg.Faulty > clock.Day) {
		l.labs.n = head
		l.labs.parts, err = all.SnapshotParts()
	}
	if err != nil {
		s.w.violate("S25", "fold the log: %v", err)
		return coreserver.NewPlanState(state, s.w.docs)
	}
	return all
}

// open has the sessions of a process begin, in place of those of the one before.
func (s *server) open() {
	s.close()
	if !s.w.labs() {
		return
	}
	r, err := sessions.New(labServer{s}, func() time.Time { return s.now().Time() }, slog.New(slog.DiscardHandler), sessions.DefaultRetry)
	l := &labs{Runner: r}
	if err == nil {
		l.turns, err = r.Stepper(context.Background())
	}
	if err != nil {
		s.w.violate("core", "%v", err)
		return
	}
	s.labs, s.w.checks.labs.unquiet = l, s.w.now
	s.turnsAt(s.w.now)
}

// close ends them, as a crash does.
func (s *server) close() {
	if s.labs != nil {
		s.labs.turns.Stop()
		s.labs.over = true
		s.labs = nil
	}
}

// turnsAt has turns be taken at an instant, or sooner.
func (s *server) turnsAt(at clock.Instant) {
	l := s.labs
	if l == nil || l.due != 0 && l.due <= at {
		return
	}
	l.due = at
	s.w.after(at.Sub(s.w.now), func() {
		if !l.over && l.due == at {
			l.due = 0
			s.takeTurns(l)
		}
	})
}

func (s *server) takeTurns(l *labs) {
	if s.away() {
		s.turnsAt(s.w.now.Add(5 * clock.Second))
		return
	}
	next := l.turns.Step()
	if !l.over {
		s.w.checkLate(s)
		s.turnsAt(s.w.now.Add(max(1, clock.FromTime(next).Sub(s.now()))))
	}
}

// tellLabs tells sessions and hosts of a commit.
func (s *server) tellLabs(entries []event.Entry) {
	if s.labs == nil {
		return
	}
	s.labs.Committed(s.core.State, entries)
	rows := false
	for i := range entries {
		switch e := &entries[i]; e.Type {
		case event.ResourceRecorded{}.EventType():
			rows = true
		case event.ManagedSet{}.EventType(), event.ManagedRemoved{}.EventType():
			s.w.hosts[e.Host()].fetch()
		}
	}
	if rows && s == s.w.server {
		s.w.checkBooked(s)
	}
	s.turnsAt(s.w.now)
}

// ViewState implements sessions.Server.
func (s labServer) ViewState(_ context.Context, read func(*coreserver.State)) error {
	read(s.core.State)
	return nil
}

// Record implements sessions.Server.
func (s labServer) Record(_ context.Context, host string, decide func(*coreserver.State, clock.Instant) ([]event.Event, error)) error {
	if s.away() {
		return errAway
	}
	ok, refused := s.step(coreserver.Record{Host: host, Decide: decide})
	if refused == nil && !ok {
		return errAway
	}
	return refused
}

// Target implements sessions.Server.
func (s labServer) Target(_ context.Context, host string) (*managed.Target, error) {
	h, ok := s.Roster()[host]
	return &managed.Target{Host: host, Declared: ok, Delegation: h.Delegation, Bundle: &spec.Set{}}, nil
}

// Bundle implements sessions.Server.
func (labServer) Bundle(context.Context, digest.Digest) (*fleet.Bundle, error) {
	return &fleet.Bundle{}, nil
}

// Exec implements sessions.Server: what it runs works where the host is there.
func (s labServer) Exec(_ context.Context, host, _ string, _ []string, _ string) error {
	if a := s.w.hosts[host]; a == nil || a.cut() {
		return errAway
	}
	return nil
}

// Roster implements sessions.Server.
func (s labServer) Roster() map[string]fleet.RosterHost {
	w := s.w
	if w.roster == nil || len(w.roster) != len(w.fleet.hosts)-len(w.removed) {
		w.roster = map[string]fleet.RosterHost{}
		for _, name := range w.fleet.hosts {
			w.roster[name] = fleet.RosterHost{Channel: w.fleet.channelOf[name], Delegation: &delegation}
		}
		for _, name := range w.removed {
			delete(w.roster, name)
		}
	}
	return w.roster
}

// delegation is what every host leaves to the server.
var delegation = fleet.Delegation{Kinds: []string{spec.KindNetwork},
	Bounds: spec.Bounds{Kinds: []string{spec.KindNetwork}, Images: []string{"*"}, Owners: []string{spec.OwnerSession}, Devices: true}}
