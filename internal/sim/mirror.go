package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// What server and hosts have to agree on at every event, and not only once all is
// at rest.

// position is where a host's machine stood as it recorded an event.
type position struct {
	phase                                    host.Phase
	manifest, from, target, current          digest.Digest
	grant, reboot                            string
	reverting, rebooted                      bool
	reverts                                  int
	cause                                    host.Cause
	claimed, completed, soak, failed, arrive clock.Instant
}

func positionOf(m *host.State) position {
	return position{m.Phase, m.Manifest, m.From, m.Target, m.Current, m.Grant, m.Reboot, m.Reverting, m.Rebooted, m.RevertFailures, m.Cause,
		m.ClaimedAt, m.CompletedAt, m.SoakFrom, m.FailedAt, m.ConvergedAt}
}

// recorded takes down where a host stands after the event that it records now. The
// bytes name the event: two agents may tell two histories under one name.
func (t *checker) recorded(a *agent, e *event.Entry) {
	t.positions[&e.Body[0]] = positionOf(&a.core.Machine)
}

// mirrored is S24: as the server folds an event of a host, its copy of the machine
// stands where the machine stood. machine is that copy.
func (t *checker) mirrored(w *World, e *event.Entry, machine *host.State) {
	if was, told := t.positions[&e.Body[0]]; told && !w.lied[e.Host()] && was != positionOf(machine) {
		w.violate("S24", "%s stood at %+v after its event %d, the server has it at %+v", e.Host(), was, e.HostSeq, positionOf(machine))
	}
}

// checkClaims is S24: a claimed grant that is open has a host that will end it. One
// that gave it back and has told the server so never will; one that lost the answer
// is offered it again.
func (w *World) checkClaims(s *server) {
	for _, a := range w.agents {
		h := s.state.Hosts[a.name]
		if h == nil || h.Grant == nil || !h.Grant.Claimed || !level(a, h) {
			continue
		}
		if id := h.Grant.ID; a.core.Declined == id && a.core.Repairs.Grant != id {
			w.violate("S24", "grant %s is claimed and open, and %s has said that it gave it back", id, a.name)
		}
	}
}

// level reports whether the server knows all that a host has recorded.
func level(a *agent, h *plan.Host) bool {
	return a.copy == nil && !a.setBack && !a.lies() && h.Incarnation == a.inc && h.Seq == uint64(len(a.chain))
}

// wentBack reports whether a host has ended what it can do to leave a target: it gave
// up, or reverted to what it came from, which may be the same bundle.
func wentBack(m *host.State, target digest.Digest) bool {
	return m.Phase == host.Failed && m.RevertFailures > 0 || m.Phase == host.Reverted && m.From == target
}

// checkNoticed is S22: while a rollout goes back, and after, each host that really
// runs what it brought is known for it: it is away, goes back by itself, has a grant
// or is in line for one.
func (w *World) checkNoticed(s *server) {
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Latest]
		if r == nil || r.Plan == nil || !r.Reverting && r.Phase != rollout.Reverted {
			continue
		}
		for i := range r.Plan.Leaves {
			leaf := &r.Plan.Leaves[i]
			a, h := w.hosts[leaf.Host], s.state.Hosts[leaf.Host]
			m := &a.core.Machine
			runs := a.running != "" && a.running == leaf.Target && m.Manifest == r.Manifest
			if !runs || leaf.Removed == fleet.Wipe || wentBack(m, leaf.Target) || !r.Members[i].Claimed && !r.Ordered || !level(a, h) {
				continue
			}
			busy := m.Phase == host.Failed && m.Reverting || h.Grant != nil // for the way back, or with what it has to end first
			if h.Reachable() && !h.SilentFailure && !busy && !r.RollbackNeeded.Has(i) {
				w.violate("S22", "%s runs %s, which %s brought, is %s and there, and nobody sends it back (%s)",
					a.name, leaf.Target.Short(), r.Name, m.Phase, r.Phase)
			}
		}
	}
}
