// Package audit checks what must always hold, by the names of the contract's
// invariants. Check looks at one state; Log watches the log go by and holds each event
// against package oracle, which works everything out again from the events alone, so
// that a fault in the planner's own bookkeeping cannot hide itself.
package audit

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Violation is an invariant that does not hold, and what shows it.
type Violation struct {
	Invariant string `json:"invariant"`
	Message   string `json:"message"`
	// Host is set where a report of this host shows it: nothing that the server decided
	// broke the invariant.
	Host string `json:"host,omitempty"`
	// Node is set likewise where it follows from what this node claims.
	Node string `json:"node,omitempty"`
	// Disputed says that it takes the server's records to show it: the host reports what
	// it was not granted, or a record is missing. Otherwise the chain that the host
	// signed proves it alone.
	Disputed bool `json:"disputed,omitempty"`
}

// Whose is the host or node that shows it, as "host h1", or "" for one of the server.
func (v *Violation) Whose() string {
	switch {
	case v.Host != "":
		return "host " + v.Host
	case v.Node != "":
		return "node " + v.Node
	}
	return ""
}

func (v Violation) String() string { return v.Invariant + ": " + v.Message }

// finding collects violations.
type finding struct{ out []Violation }

func (f *finding) addf(invariant, format string, a ...any) {
	f.out = append(f.out, Violation{Invariant: invariant, Message: fmt.Sprintf(format, a...)})
}

// must adds a violation unless ok. It takes its words apart even if all is well: what
// is asked after every event goes without it.
func (f *finding) must(ok bool, invariant, format string, a ...any) {
	if !ok {
		f.addf(invariant, format, a...)
	}
}

// Check returns every invariant that a state at rest violates: after Next at
// now, before any further event. It costs as much as the state is large.
func Check(s *plan.State, now clock.Instant) []Violation {
	return CheckSome(s, now, func(int, string) bool { return true })
}

// CheckSome is Check, but asks why it waits only of some hosts, by their place in the
// order of names: that costs more than all the rest.
func CheckSome(s *plan.State, now clock.Instant, some func(i int, host string) bool) []Violation {
	f := &finding{}
	checkBudgets(f, s)
	why := plan.Explain(s, now)
	for i, name := range s.HostNames() {
		h := s.Hosts[name]
		checkHost(f, s, h, now)
		if some(i, name) {
			checkWhy(f, why, h, now)
		}
	}
	for _, name := range s.ChannelNames() {
		checkChannel(f, s, s.Channels[name])
	}
	for _, d := range s.Order {
		if r := s.Rollouts[d]; r != nil && r.Plan != nil {
			checkCounts(f, r)
		}
	}
	return f.out
}

// checkBudgets recounts every active budget.
func checkBudgets(f *finding, s *plan.State) {
	for _, b := range s.Budgets() {
		n := 0
		for _, name := range b.Members {
			if h := s.Hosts[name]; h != nil && h.InFlight() {
				n++
			}
		}
		if n != b.InFlight {
			f.addf("S1", "budget %s counts %d hosts in flight, %d are", b.Selector, b.InFlight, n)
		}
	}
}

func checkHost(f *finding, s *plan.State, h *plan.Host, now clock.Instant) {
	m := &h.Machine
	if m.Phase == host.Converged && m.Target != "" && m.Current != m.Target {
		f.addf("S20", "host %s is converged on %s and runs %s", h.Name, m.Target.Short(), m.Current.Short())
		f.out[len(f.out)-1].Host = h.Name // that is its report
	}
	checkSilence(f, s, h, now)
	g := h.Grant
	if g == nil {
		return
	}
	r := s.Rollouts[g.Manifest]
	if r == nil {
		f.addf("S16", "grant %s of host %s is of a rollout that is gone", g.ID, h.Name)
	}
	if g.Claimed {
		if m.Grant == g.ID || m.Reboot == g.ID {
			f.addf("S2", "host %s acts on grant %s, which is still open", h.Name, g.ID)
		}
		return
	}
	switch {
	case g.Purpose == host.Reboot && (!m.Staged() || m.Manifest != g.Manifest), g.Purpose == host.Repair && !m.AtRest():
		f.addf("S23", "host %s is offered grant %s to %s while it is %s", h.Name, g.ID, g.Purpose, m.Phase)
		f.out[len(f.out)-1].Host = h.Name
	case g.Purpose == host.Update && r != nil && (r.Reverting || r.Phase.Ended() && r.Phase != rollout.Terminal):
		f.addf("S18", "host %s is offered grant %s of rollout %s, which is %s", h.Name, g.ID, r.Name, plan.Status(r))
	}
	if g.Purpose != host.Rollback && g.Expires.Reached(now) {
		f.addf("S23", "grant %s of host %s expired at %s and still holds a slot", g.ID, h.Name, g.Expires)
	}
}

// reportWithin is how long after all that its policy allows a host is given up that
// keeps up its heartbeats and reports nothing.
const reportWithin = 3 * clock.Minute

// checkSilence checks that a host which acts and is not heard from has failed by the
// time that any activation and its confirmation may take, and that one which is heard and
// does not report has been given up, by a server that was there to hear it.
func checkSilence(f *finding, s *plan.State, h *plan.Host, now clock.Instant) {
	if h.SilentFailure || !h.Acting() {
		return
	}
	d := h.Machine.Manifest
	if h.Grant != nil && h.Grant.Claimed {
		d = h.Grant.Manifest
	}
	r := s.Rollouts[d]
	if r == nil || r.Plan == nil {
		return
	}
	p := &r.Plan.Header.Policy
	if s.Resumed.Add(p.ConfirmWindow+reportWithin).Sub(now) >= 0 {
		return // the server was away, and listens
	}
	if h.SilentSince != 0 && now.Sub(h.SilentSince) > max(p.ConfirmWindow, p.ActivationDeadline) {
		f.addf("S10", "host %s is %s in %s, silent since %s, and has not failed", h.Name, h.Machine.Phase, r.Name, h.SilentSince)
	}
	i, member := r.Plan.Leaf(h.Name)
	if !member || !h.Online || h.Overdue || h.Work.Since == 0 || h.Machine.Staged() {
		return
	}
	soak := r.Plan.Header.Waves[r.Plan.Leaves[i].Wave].Soak
	if most := p.ActivationDeadline + p.ConfirmWindow + soak + reportWithin; now.Sub(max(h.Work.Since, h.Work.Returned)) > most {
		f.addf("S10", "host %s is %s in %s, has reported nothing since %s, and has not failed", h.Name, h.Machine.Phase, r.Name, h.Work.Since)
	}
}

// checkWhy asks for the reason of a host that waits.
func checkWhy(f *finding, why *plan.Explainer, h *plan.Host, now clock.Instant) {
	a, err := why.Why(h.Name)
	if err != nil {
		f.addf("L5", "host %s: %v", h.Name, err)
		return
	}
	if a.Message == "" {
		f.addf("L5", "host %s is %s and nobody says why", h.Name, a.Status)
	}
	if a.Block == nil && (a.Status == rollout.Waiting.String() || a.Status == rollout.Refused.String()) {
		f.addf("L5", "host %s waits, a tick has passed, and no gate blocks it", h.Name)
	}
	f.must(climbed(a.Gates, a.Block), "L5", "host %s is %s and blocked by %v, and its ladder says otherwise: %+v", h.Name, a.Status, a.Block, a.Gates)
	f.must(climbed(a.PendingGates, a.PendingBlock), "L5", "rollout %s is blocked by %v, and its ladder says otherwise: %+v", a.Pending, a.PendingBlock, a.PendingGates)
	f.answers(h.Name, a.Gates, now)
	f.answers(h.Name, a.PendingGates, now)
	for _, b := range a.WaveBlocks {
		f.answer(h.Name, b.Code, b, now)
	}
	if r := a.Repair; r != nil {
		f.must(r.Message != "" && (r.Grant != "" || r.Block != nil), "L5", "host %s waits for a repair, a tick has passed, and no gate blocks it", h.Name)
		f.answers(h.Name, r.Gates, now)
	}
	if r := a.Reboot; r != nil {
		f.must(r.Message != "" && (r.Grant != "" || r.Block != nil), "L5", "host %s waits for a reboot, a tick has passed, and no gate blocks it", h.Name)
		f.answers(h.Name, r.Gates, now)
	}
}

// climbed reports whether a ladder holds first where its answer says, and nowhere if it says nothing.
func climbed(gates []plan.Gate, b *gate.Block) bool {
	first := slices.IndexFunc(gates, func(g plan.Gate) bool { return g.State == plan.Closed })
	if b == nil || first < 0 {
		return b == nil && first < 0
	}
	return gates[first].Gate == b.Code && gates[first].Block != nil
}

func (f *finding) answers(name string, gates []plan.Gate, now clock.Instant) {
	for i := range gates {
		if b := gates[i].Block; b != nil {
			f.answer(name, gates[i].Gate, b, now)
		}
	}
}

// answer checks that a gate which holds a host says everything.
func (f *finding) answer(name string, asked gate.Code, b *gate.Block, now clock.Instant) {
	if b.Code == "" || b.Message == "" || b.WaitsFor == "" || b.ClearedBy == "" {
		f.addf("L5", "gate %s blocks host %s without saying everything: %+v", asked, name, *b)
	}
	if b.Code != asked {
		f.addf("L5", "gate %s answers as %s", asked, b.Code)
	}
	if b.Earliest != 0 && b.Earliest <= now {
		f.addf("L5", "gate %s blocks host %s until %s, which has passed", asked, name, b.Earliest)
	}
}

// checkChannel counts the rollouts of a channel that are not over.
func checkChannel(f *finding, s *plan.State, c *plan.Channel) {
	open := 0
	for _, d := range s.Order {
		r := s.Rollouts[d]
		if r == nil || r.Channel != c.Name {
			continue
		}
		if r.Phase.Ended() != (r.EndedAt != 0) {
			f.addf("S19", "rollout %s is %s and ended at %s", r.Name, r.Phase, r.EndedAt)
		}
		if r.Phase.Ended() {
			continue
		}
		if open++; c.Active != d {
			f.addf("S16", "rollout %s is %s and not the active one of channel %s", r.Name, r.Phase, c.Name)
		}
	}
	if open > 1 {
		f.addf("S16", "channel %s has %d open rollouts", c.Name, open)
	}
}

// checkCounts recounts a rollout's aggregates.
func checkCounts(f *finding, r *rollout.Rollout) {
	var few [4]rollout.WaveCount // as many as most plans have
	waves := few[:0]
	for range r.Plan.Header.Waves {
		waves = append(waves, rollout.WaveCount{})
	}
	for i := range r.Members {
		m, c := &r.Members[i], &waves[r.Plan.Leaves[i].Wave]
		c.By[m.Status]++
		if m.Status == rollout.Waiting && (!m.Online || m.Unwilling) {
			c.Offline++
		}
		if m.Unwilling && (m.Status == rollout.Offered || m.Status == rollout.Claimed || m.Status == rollout.Busy) {
			c.Ignored++
		}
		if m.Status == rollout.Broken && !m.Final {
			c.Unsettled++
		}
		if m.Failed || m.Refused != "" {
			c.Failures++
		}
		given := m.Status == rollout.Offered || m.Status == rollout.Claimed || m.Status == rollout.Broken || m.Status == rollout.RolledBack
		if given || m.Mark.Claimed {
			c.Tried++
		}
		if m.Unfit && m.Status == rollout.Converged {
			c.Unfit++
		}
		if m.Proven {
			c.Proven++
		}
	}
	for w := range waves {
		if waves[w] != r.Waves[w] {
			f.addf("S25", "wave %d of rollout %s counts %+v, its members are %+v", w, r.Name, r.Waves[w], waves[w])
		}
	}
	if !r.Phase.Ended() && !r.Reverting && r.Excess() >= 0 {
		f.addf("S8", "rollout %s is %s with more failures than its policy %s allows", r.Name, r.Phase, r.Plan.Header.Policy.OnHealthFailure)
	}
}
