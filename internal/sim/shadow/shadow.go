// Package shadow folds a log a second time, one event behind nobody: beside a
// server that decides, so that what the server's state holds and the log does not
// shows at the event at which it comes in.
package shadow

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Shadow is a state that nothing but the fold ever touched.
type Shadow struct {
	state   *plan.State
	decodes bool
	whole   bool
	turn    int
	hosts   []string    // known, to take in turn
	last    event.Entry // folded and not compared; no type when there is none
}

// New returns a shadow of the state before the first event. With decodes it reads
// every event from its bytes; with whole it compares all after each event instead
// of what the event is about and one further part in turn.
func New(docs plan.Documents, decodes, whole bool) *Shadow {
	return &Shadow{state: plan.New(docs), decodes: decodes, whole: whole}
}

// Fold goes one event further.
func (s *Shadow) Fold(e event.Entry, ev event.Event) error {
	s.last = e
	err := error(nil)
	if s.decodes {
		err = s.state.Apply(e)
	} else {
		err = s.state.ApplyEvent(e, ev)
	}
	if len(s.hosts) != len(s.state.Hosts) {
		s.hosts = s.state.HostNames()
	}
	return err
}

// Compare says where the live state is not what the log stands for after the
// event that was folded last; it compares once after each.
func (s *Shadow) Compare(live *plan.State) error {
	e := &s.last
	if e.Type == "" {
		return nil
	}
	differs := ""
	if s.whole {
		differs = differ(live, s.state)
	} else {
		differs = s.parts(live, e)
	}
	s.last = event.Entry{}
	if differs != "" {
		return fmt.Errorf("%s is not what the log folds to", differs)
	}
	return nil
}

// Whole compares everything.
func (s *Shadow) Whole(live *plan.State) error {
	if differs := differ(live, s.state); differs != "" {
		return errors.New(differs + " is not what the log folds to")
	}
	return nil
}

// Machine returns the server's copy of a host's machine; the host must be known.
func (s *Shadow) Machine(name string) *host.State { return &s.state.Hosts[name].Machine }

// parts compares the host that an event is about, every channel and its newest
// rollout, and in turn another host, another rollout, and what changes seldom.
// The end of a host's chain, which follows each of its batches, changes no rollout.
func (s *Shadow) parts(live *plan.State, e *event.Entry) string {
	a, b := live, s.state
	if e.Host != "" && !sameHost(a.Hosts[e.Host], b.Hosts[e.Host]) {
		return "host " + e.Host
	}
	if differs := top(a, b); differs != "" {
		return differs
	}
	if e.Type == (event.HostHead{}).EventType() {
		return "" // it says of its host alone where the chain ends
	}
	for _, name := range a.ChannelNames() {
		c := a.Channels[name]
		if !sameChannel(c, b.Channels[name]) {
			return "channel " + name
		}
		if !sameRollout(a.Rollouts[c.Latest], b.Rollouts[c.Latest]) {
			return "rollout " + c.Latest.Short()
		}
	}
	s.turn++
	if n := len(s.hosts); n > 0 {
		if name := s.hosts[s.turn%n]; !sameHost(a.Hosts[name], b.Hosts[name]) {
			return "host " + name
		}
	}
	if n := len(a.Order); n > 0 {
		if d := a.Order[s.turn%n]; !sameRollout(a.Rollouts[d], b.Rollouts[d]) {
			return "rollout " + d.Short()
		}
	}
	if s.turn%8 == 0 || e.Type == (event.OverrideAccepted{}).EventType() {
		return rest(a, b)
	}
	return ""
}
