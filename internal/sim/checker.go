package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// checker is what the world itself knows of its hosts, whatever the server
// believes: the invariants are checked against both.
type checker struct {
	starts   map[grantOf]bool      // grants that hosts acted on
	affected map[hostOf]bool       // hosts that a bundle harmed
	failures map[hostOf]bool       // hosts that failed by themselves in a manifest
	acked    map[string]uint64     // events that each host was told are durable
	released event.ReleaseAccepted // the newest release
	// A restored log knows less than its hosts do until they have sent it again.
	behind    bool
	repairing int // the most hosts that were repaired at once
	refused   int // documents that hosts did not accept
	positions map[*byte]position
	pace      pace
	labs      labsJudge
}

func newChecker() checker {
	return checker{starts: map[grantOf]bool{}, affected: map[hostOf]bool{}, failures: map[hostOf]bool{}, acked: map[string]uint64{},
		positions: map[*byte]position{}, labs: labsJudge{loose: map[labEntryOn]clock.Instant{}, phases: map[string]int{}}, pace: pace{opened: map[digest.Digest]clock.Instant{}, beside: map[digest.Digest]clock.Instant{}}}
}

type grantOf struct{ host, grant string }

// hostOf is a host with a bundle or a manifest.
type hostOf struct {
	what digest.Digest
	host string
}

// witnessed is what is known of one host until it is set up anew.
type witnessed struct {
	since     map[host.Phase]clock.Instant // when each phase last began, on the world's clock
	floor     uint64                       // the newest term that it accepted an offer of
	overrides []gate.AcceptedOverride      // the signed overrides that it received
}

// started checks that a host acts only on a claim that the log holds, and once.
func (t *checker) started(a *agent, grant string, accepted bool) {
	k := grantOf{a.key + "/" + a.serial, grant}
	if t.starts[k] || !accepted {
		a.w.violate("S23", "%s acts twice or without leave on grant %s", a.name, grant)
	}
	t.starts[k] = true
}

// claimed checks by the state that took a claim, also by one of a restored log, that
// no more hosts try a bundle than may before one has converged on it.
func (t *checker) claimed(s *server, a *agent) {
	t.unknownInFlight(s, a)
	g := s.state.Hosts[a.name].Grant
	if g == nil || g.Purpose != host.Update {
		return
	}
	r := s.state.Rollouts[g.Manifest]
	if r.Plan == nil {
		return // it ended before it had one: nobody tries it
	}
	most := r.Plan.Header.CanaryMax
	if most == 0 || r.SoakedAt.Reached(s.now()) || r.BreakGlass != "" {
		return
	}
	tried := 0
	for i := range r.Plan.Leaves {
		h := s.state.Hosts[r.Plan.Leaves[i].Host]
		switch here := h.Machine.Manifest == g.Manifest; {
		case h.Name == a.name || h.Grant != nil && h.Grant.Claimed && h.Grant.Manifest == g.Manifest && h.Grant.Purpose == host.Update:
			tried++
		case h.Machine.Phase == host.Reverted && h.Work.ClaimedAt < r.RetriedAt: // that was before the retry
		case here && (h.Machine.InFlight() || h.Machine.Phase == host.Failed || h.Machine.Phase == host.Reverted):
			tried++
		}
	}
	if tried > most {
		s.w.violate("S40", "%s claims %s as number %d, at most %d try it before one has converged", a.name, r.Name, tried, most)
	}
}

// unknownInFlight checks that no claim is one too many for a budget because of hosts in flight
// of which the log knows nothing and which were not heard since the server began.
func (t *checker) unknownInFlight(s *server, a *agent) {
	if own := s.state.Hosts[a.name]; own.Machine.InFlight() || own.SilentFailure || s.until.Reached(s.now()) {
		return
	}
	active := map[string]bool{}
	for _, b := range s.state.Budgets() {
		active[b.Selector] = true
	}
	for i, b := range s.w.fleet.budgets {
		n, hidden := 0, ""
		for _, name := range b.members {
			h, other := s.state.Hosts[name], s.w.hosts[name]
			last, told := s.lastEvents[name]
			switch {
			case name == a.name, h.Machine.InFlight(), h.Grant != nil && h.Grant.Claimed:
				n++
			case !other.lies() && (other.core.Machine.InFlight() || other.repairing()) && !(told && h.Seq >= last):
				n, hidden = n+1, name
			}
		}
		if n > b.max && hidden != "" && slices.Contains(b.members, a.name) && active[fmt.Sprintf("b%d", i)] {
			s.w.violate("S1", "%s claims a slot of budget b%d as number %d of %d, and %s made no contact since the server began", a.name, i, n, b.max, hidden)
		}
	}
}

// activates checks that what a host makes itself run was released for it.
func (t *checker) activates(a *agent, target digest.Digest) {
	m := a.w.docs[a.core.Machine.Manifest]
	if m == nil {
		a.w.violate("S3", "%s activates %s of a manifest that was never released", a.name, target.Short())
		return
	}
	if i, ok := m.Leaf(a.name); !ok || m.Leaves[i].Target != target {
		a.w.violate("S3", "%s activates %s, which %s does not give it", a.name, target.Short(), m.Header.Rollout())
	}
	if len(a.core.Quarantine) > 0 && a.core.Quarantined(target) {
		a.w.violate("S17", "%s activates %s, which it quarantined", a.name, target.Short())
	}
}

// affects takes down that a bundle harms a host.
func (t *checker) affects(a *agent, bundle digest.Digest) { t.affected[hostOf{bundle, a.name}] = true }

// acknowledged checks that an acknowledged event is in the log, whoever of the
// servers says so.
func (t *checker) acknowledged(a *agent, upTo uint64) {
	if h := a.w.server.state.Hosts[a.name]; !a.w.server.away() && (h == nil || h.Seq < upTo) {
		a.w.violate("S33", "%s got the answer that %d events are durable, the leader has less", a.name, upTo)
	}
	t.acked[a.key] = max(t.acked[a.key], upTo)
}

// owes takes down that a host told the server of a longer history than its log's. A host
// that sent what it owed is not waited for again: a copy of it has another history.
func (t *checker) owes(s *server, a *agent, need uint64) {
	until := s.began.Add(times.ReplayWait)
	d, there := s.owed[a.name]
	paid := there && s.state.Hosts[a.name] != nil && s.state.Hosts[a.name].Seq >= d.need
	if !until.Reached(s.now()) && !paid && (!there || d.incarnation == a.inc && d.need < need) {
		s.owed[a.name] = debt{need, a.inc, until}
	}
}

// debt is a part of the log that a host has to send again.
type debt struct {
	need        uint64
	incarnation uint64 // that owes it: nobody else can
	until       clock.Instant
}

// given checks that a restored server gives nothing but ways back to anybody, and takes
// no claim of anything else, while a host owes it a part of the log.
func (t *checker) given(s *server, to string) {
	if g := s.state.Hosts[to].Grant; g != nil && g.Purpose == host.Rollback {
		return
	}
	for name, d := range s.owed { // order-free: any one will do
		h := s.state.Hosts[name]
		if h != nil && h.Seq < d.need && h.Incarnation == d.incarnation && h.IdentityStatus() == "" && !d.until.Reached(s.now()) {
			s.w.violate("S33", "%s is granted something while %s owes the server a part of its history", to, name)
			return
		}
	}
}

// restored forgets what a restored log forgot.
func (t *checker) restored() {
	t.behind, t.labs.doubted = true, true
	clear(t.acked)
}

// setBack checks that the log is said to lack a part of a host's history only if it does,
// or the host says so falsely.
func (t *checker) setBack(w *World, name string) {
	for a := w.hosts[name]; a != nil; a = a.copy {
		if w.log.cut || a.overclaims {
			return
		}
	}
	w.violate("S33", "the log has all that %s was acknowledged, and says that it was set back", name)
}

// checkBudgets compares what really happens on the hosts with what budgets allow.
func (w *World) checkBudgets() {
	repairing := 0
	for _, a := range w.agents {
		if a.repairing() {
			repairing++
		}
	}
	w.checks.repairing = max(w.checks.repairing, repairing)
	over := false
	for i, b := range w.fleet.budgets {
		n := 0
		for _, name := range b.members {
			if w.hosts[name].disrupted() {
				n++
			}
		}
		over = over || n > b.max
		if n > b.max && !w.checks.behind {
			w.violate("S1", "%d hosts of budget b%d are disrupted, %d allowed", n, i, b.max)
		}
	}
	if w.checks.behind && !over && !w.owed() {
		w.checks.behind = false
	}
}

// owed reports whether a host knows more than the log does. That a window for
// repairs is open is in no event of the host's own: a restored log that forgot its
// claim does not learn of it before it closes.
func (w *World) owed() bool {
	for _, a := range w.agents {
		if a.out || a.lies() {
			continue
		}
		h := w.server.state.Hosts[a.name]
		if w.server.away() || h == nil || h.Seq < uint64(len(a.chain)) {
			return true
		}
		if g := a.core.Repairs.Grant; g != "" && (h.Grant == nil || h.Grant.ID != g || !h.Grant.Claimed) {
			return true
		}
	}
	return false
}

// settled reports whether every host that is up has nothing left to say or do.
func (w *World) settled() bool {
	for _, a := range w.agents {
		if w.ending && w.absent(a) {
			continue
		}
		if w.ending && !w.good(a) {
			return false
		}
		if !a.up || a.partitioned > 0 || uint64(len(a.chain)) != a.acked || a.core.Offer != nil {
			return false
		}
		if a.core.Repairs.Grant != "" {
			return false
		}
		m := &a.core.Machine
		if m.Phase == host.Activating || m.Phase == host.Soaking || m.Phase == host.Failed && m.Reverting {
			return false
		}
		if w.mayGoBack(a) || w.server.occupied(a.name) {
			return false
		}
		if m.Phase == host.Converged && a.looksAgain() { // the scanner looks again
			return false
		}
		if h := w.server.state.Hosts[a.name]; h == nil || h.Grant != nil || !h.Online || h.Seq != a.acked {
			return false
		}
	}
	return w.labsSettled()
}

// mayGoBack reports whether time alone lets a host be sent back that is to be.
func (w *World) mayGoBack(a *agent) bool {
	h := w.server.state.Hosts[a.name]
	if h == nil || h.NotBefore <= w.server.now() {
		return false
	}
	for _, r := range w.server.state.Rollouts { // order-free: any one will do
		if r.Plan == nil || !r.Reverting {
			continue
		}
		if i, ok := r.Plan.Leaf(a.name); ok && r.RollbackNeeded.Has(i) {
			return true
		}
	}
	return false
}

// atRest reports whether all that still waits, hosts or the server, waits for people.
func (w *World) atRest() bool {
	why := plan.Explain(w.server.state, w.server.now())
	if w.lying {
		return !w.server.waits() && w.audited() && w.stuck(why) && w.quietBeside(why)
	}
	for _, d := range w.server.state.Order {
		if r := w.server.state.Rollouts[d]; r != nil && !r.Paused && !r.Reverting && w.server.soaks(r) {
			return false
		}
	}
	return !w.server.waits() && w.audited() && w.stuck(why) && w.server.quiet(why)
}

// stuck reports whether every host that waits for something waits for people.
func (w *World) stuck(why *plan.Explainer) bool {
	for _, a := range w.agents {
		if w.ending && w.absent(a) {
			continue
		}
		if len(a.drift) > 0 && !stuckFor(why, a.name) || a.core.Machine.Phase == host.Deferred && !strandedIn(why, a.name) {
			return false
		}
	}
	return true
}

// unsettled says what has not come to rest, for a liveness failure.
func (w *World) unsettled() string {
	var parts []string
	for _, a := range w.agents {
		grant := "none"
		if h := w.server.state.Hosts[a.name]; h != nil && h.Grant != nil {
			grant = fmt.Sprintf("%s claimed=%v", h.Grant.ID, h.Grant.Claimed)
		}
		if h := w.server.state.Hosts[a.name]; a.lies() && h != nil {
			parts = append(parts, fmt.Sprintf("%s lies: %s of %s reverting=%v reboot=%q grant=%+v silent=%v overdue=%v declines=%d work=%+v", a.name, h.Machine.Phase,
				h.Machine.Rollout, h.Machine.Reverting, h.Machine.Reboot, h.Grant, h.SilentFailure, h.Overdue, h.Declines, h.Work))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s sound=%v reverting=%v up=%v acked=%d/%d grant=%s drift=%v repairs=%+v", a.name, a.core.Machine.Phase, w.good(a),
			a.core.Machine.Reverting, a.up, a.acked, len(a.chain), grant, a.drift, a.core.Repairs))
	}
	for _, d := range w.server.state.Order {
		if r := w.server.state.Rollouts[d]; r != nil {
			parts = append(parts, fmt.Sprintf("%s %s cursor=%d held=%s", r.Name, r.Phase, r.Cursor, r.Blocked))
		}
	}
	return strings.Join(append(parts, w.unsettledLabs()...), "; ")
}

// checkEnd holds the server's picture against the hosts once all is at rest.
func (w *World) checkEnd() {
	s := w.server
	if err := w.log.refold(s.state); err != nil {
		w.violate("S25", "%v", err)
	}
	for _, a := range w.agents {
		if w.ending && w.absent(a) {
			continue
		}
		h := s.state.Hosts[a.name]
		if h.Machine.Phase != a.core.Machine.Phase || h.Machine.Manifest != a.core.Machine.Manifest || h.Machine.Current != a.core.Machine.Current {
			w.violate("S24", "%s is %s on %s, the server believes %s on %s", a.name, a.core.Machine.Phase, a.core.Machine.Current.Short(),
				h.Machine.Phase, h.Machine.Current.Short())
		}
		if h.Seq < w.checks.acked[a.key] {
			w.violate("S33", "%s got the answer that %d events are durable, the log has %d", a.name, w.checks.acked[a.key], h.Seq)
		}
	}
	if !w.lying {
		w.checkDone(s)
	}
	w.checkLabs(s)
	for _, d := range s.state.Order {
		if r := s.state.Rollouts[d]; r != nil && r.Phase == rollout.Reverted && s.state.Channels[r.Channel].Latest == d {
			w.checkReverted(r)
		}
	}
}

// checkHeld is S12, and L2 for the end of a rollout: hosts that are away and never
// claimed hold nothing up.
func (w *World) checkHeld(s *server) {
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Active]
		if r == nil || r.Phase.Ended() || r.Paused || r.Reverting || !strings.HasSuffix(r.Blocked, "/waiting") {
			continue
		}
		away := 0
		for i := range r.Members {
			m := &r.Members[i]
			if m.Status == rollout.Waiting && m.Online && !m.Unwilling {
				away = -len(r.Members)
			}
			if m.Status == rollout.Waiting && (!m.Online || m.Unwilling) {
				away++
			}
		}
		if away > 0 {
			rule := "S12"
			if r.Cursor == len(r.Waves)-1 {
				rule = "L2" // its end
			}
			w.violate(rule, "%s waits for %d hosts that are away and never took a grant", r.Name, away)
		}
	}
}

// checkDone is L1: a rollout in which everybody arrived is over, and nobody waits for
// evidence that passes, or that an operator accepted.
func (w *World) checkDone(s *server) {
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Active]
		if r == nil || r.Phase.Ended() || r.Paused || r.Reverting || w.unmet(r) {
			continue
		}
		if t := r.Total(); t.Unfit == 0 && t.By[rollout.Converged]+t.By[rollout.AtTarget] == len(r.Members) && !w.mute(r) {
			w.violate("L1", "every host of %s arrived and it is %s, held by %s", r.Name, r.Phase, r.Blocked)
		}
		for i := range r.Members {
			a, err := plan.Why(s.state, r.Plan.Leaves[i].Host, s.now())
			if err == nil && a.Rollout == r.Name && a.Block != nil && a.Block.Code == gate.Compliance && a.Block.Detail == "evidence" {
				w.violate("L1", "%s waits for evidence of %s that passes or was accepted", r.Plan.Leaves[i].Host, r.Name)
			}
		}
	}
}

// crowdedOut reports whether hosts that failed and stay so fill a budget of the host.
func (w *World) crowdedOut(name string) bool {
	for _, b := range w.server.state.Budgets() {
		failed := 0
		for _, member := range b.Members {
			if a := w.hosts[member]; a.lies() || a.core.Machine.Phase == host.Failed {
				failed++
			}
		}
		if failed >= b.Max && slices.Contains(b.Members, name) {
			return true
		}
	}
	return false
}

// checkReverted is S22: after rollback-and-halt nobody that was granted is left
// on the new bundle.
func (w *World) checkReverted(r *rollout.Rollout) {
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		a := w.hosts[leaf.Host]
		m := &a.core.Machine
		if w.ending && w.absent(a) || leaf.Removed == fleet.Wipe { // nothing is left of what it ran
			continue
		}
		if !m.InFlight() && w.crowdedOut(a.name) {
			continue // failed hosts keep their slots, also from a way back
		}
		if r.Members[i].Claimed && a.running == leaf.Target && m.Manifest == r.Manifest && !wentBack(m, leaf.Target) && a.running != "" {
			w.violate("S22", "%s still runs %s after %s was reverted", leaf.Host, leaf.Target.Short(), r.Name)
		}
	}
}
