package sim

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// truth is what the world itself knows of its hosts, whatever the server
// believes: the invariants are checked against both.
type truth struct {
	starts map[string]map[string]bool // grants that each host acted on
}

// started checks that a host acts only on a claim that the log holds.
func (t *truth) started(a *agent, grant string, accepted bool) {
	if t.starts == nil {
		t.starts = map[string]map[string]bool{}
	}
	if t.starts[a.name] == nil {
		t.starts[a.name] = map[string]bool{}
	}
	if t.starts[a.name][grant] || !accepted {
		a.w.violate("S23", "%s acts twice or without leave on grant %s", a.name, grant)
	}
	t.starts[a.name][grant] = true
}

// stepped checks one step of a host's machine.
func (t *truth) stepped(a *agent, before *host.State, in host.Input) {
	m := &a.core.Machine
	if !host.Legal(before.Phase, m.Phase) {
		a.w.violate("S19", "%s went from %s to %s on %s", a.name, before.Phase, m.Phase, in.Kind())
	}
	if m.Phase == host.Converged && before.Phase != host.Converged {
		if m.Current != m.Target || a.running != m.Target {
			a.w.violate("S20", "%s converged on %s while %s runs", a.name, m.Target.Short(), a.running.Short())
		}
		if a.now().Sub(m.SoakFrom) < a.core.Plan.Soak || !m.Healthy(&a.core.Plan) {
			a.w.violate("S9", "%s converged without its soak", a.name)
		}
	}
	if m.Phase == host.Reverted && before.Phase == host.Failed && m.Current != before.From {
		a.w.violate("S21", "%s reverted to %s instead of %s", a.name, m.Current.Short(), before.From.Short())
	}
}

// checkTruth compares what really happens on the hosts with what budgets allow.
func (w *World) checkTruth() {
	for i, b := range w.fleet.budgets {
		n := 0
		for _, name := range b.members {
			if a := w.hosts[name]; a.core.Machine.InFlight() || a.repairing() {
				n++
			}
		}
		if n > b.max {
			w.violate("S1", "%d hosts of budget b%d are disrupted, %d allowed", n, i, b.max)
		}
	}
}

// settled reports whether every host that is up has nothing left to say or do.
func (w *World) settled() bool {
	for _, name := range w.fleet.hosts {
		a := w.hosts[name]
		if !a.up || a.partitioned || len(a.outbox) > 0 || a.core.Offer != nil {
			return false
		}
		if a.core.Repairs.Grant != "" || len(a.drift) > 0 && !w.stuckFor(name) {
			return false
		}
		m := &a.core.Machine
		switch m.Phase {
		case host.Activating, host.Soaking:
			return false
		case host.Failed:
			if m.Reverting {
				return false
			}
		}
		if h := w.server.state.Hosts[name]; h == nil || h.Grant != nil || !h.Online {
			return false
		}
	}
	return true
}

// unsettled says what has not come to rest, for a liveness failure.
func (w *World) unsettled() string {
	var parts []string
	for _, name := range w.fleet.hosts {
		a := w.hosts[name]
		grant := "none"
		if h := w.server.state.Hosts[name]; h != nil && h.Grant != nil {
			grant = fmt.Sprintf("%s claimed=%v", h.Grant.ID, h.Grant.Claimed)
		}
		parts = append(parts, fmt.Sprintf("%s %s reverting=%v up=%v outbox=%d grant=%s drift=%v repairs=%+v", name, a.core.Machine.Phase,
			a.core.Machine.Reverting, a.up, len(a.outbox), grant, a.drift, a.core.Repairs))
	}
	for _, d := range w.server.state.Order {
		if r := w.server.state.Rollouts[d]; r != nil {
			parts = append(parts, fmt.Sprintf("%s %s cursor=%d held=%s", r.Name, r.Phase, r.Cursor, r.Held))
		}
	}
	return strings.Join(parts, "; ")
}

// checkEnd holds the server's picture against the hosts once all is at rest.
func (w *World) checkEnd() {
	s := w.server
	if err := s.refold(); err != nil {
		w.violate("S25", "%v", err)
	}
	for _, name := range w.fleet.hosts {
		a, h := w.hosts[name], s.state.Hosts[name]
		if h.Machine.Phase != a.core.Machine.Phase || h.Machine.Manifest != a.core.Machine.Manifest || h.Machine.Current != a.core.Machine.Current {
			w.violate("S24", "%s is %s on %s, the server believes %s on %s", name, a.core.Machine.Phase, a.core.Machine.Current.Short(),
				h.Machine.Phase, h.Machine.Current.Short())
		}
	}
	for _, d := range s.state.Order {
		if r := s.state.Rollouts[d]; r != nil && r.Phase == rollout.Reverted && s.state.Channels[r.Channel].Latest == d {
			w.checkReverted(r)
		}
	}
}

// checkReverted is S22: after rollback-and-halt nobody that was granted is left
// on the new bundle.
func (w *World) checkReverted(r *rollout.Rollout) {
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		a := w.hosts[leaf.Host]
		m := &a.core.Machine
		gaveUp := m.Phase == host.Failed && m.RevertFailures > 0
		if r.Members[i].Claimed && a.running == leaf.Target && m.Manifest == r.Manifest && !gaveUp && a.running != digest.Digest("") {
			w.violate("S22", "%s still runs %s after %s was reverted", leaf.Host, leaf.Target.Short(), r.Name)
		}
	}
}
