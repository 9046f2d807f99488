package audit

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// hostEvent checks presence, and what hosts report beside their machine.
func (l *Log) hostEvent(e event.Entry, ev event.Event) {
	h := l.Host(e.Host())
	switch ev := ev.(type) {
	case event.HostEnrolled:
		l.must(ev.Incarnation > h.Incarnation, "S5", "host %s enrolled as incarnation %d after %d", h.Name, ev.Incarnation, h.Incarnation)
	case event.HostSilent:
		l.must(h.Online, "S10", "host %s went silent and was not there", h.Name)
	case event.HostFailedSilently:
		at, there := l.SilenceEnds(h)
		l.must(at != 0 && at <= e.At && ev.Deadline == at && ev.Overdue == there, "S10",
			"host %s, %s, was given up by %s, and may take until %s", h.Name, h.Phase, ev.Deadline, at)
	case event.HostSlotFreed:
		l.must(ev.Reason != "", "S28", "the slot of host %s was freed without a reason", h.Name)
		l.must(l.FreesSlot(h, e.At), "S1", "the slot of host %s, %s, was freed before what it was granted is over", h.Name, h.Phase)
	case event.LogRestored:
		l.must(ev.Incarnation == h.Incarnation && ev.From == h.Seq && ev.From < ev.To, "S33",
			"the log of host %s was set back from event %d/%d to %d by its word, it has %d/%d", h.Name, ev.Incarnation, ev.To, ev.From, h.Incarnation, h.Seq)
	case event.HostDegraded:
		l.must(len(ev.Resources)+len(ev.Probes) > 0, "S28", "host %s is degraded for nothing", h.Name)
	case event.RepairNeeded:
		l.consistent(ev.Reason != "" && len(ev.Resources) > 0, h, "S28", "host %s waits for a repair without a reason", h.Name)
	case event.RepairOver:
		l.consistent(ev.Detail != "", h, "S28", "host %s ended a repair without a reason", h.Name)
		if ev.Grant == "" {
			return
		}
		g := h.Grant
		if e.HostSeq <= h.Replayed && (g == nil || g.ID != ev.Grant) {
			return // of the part that the log lacks
		}
		l.disputed(g != nil && g.ID == ev.Grant && g.Purpose == host.Repair, h, "S24", "host %s ended repair %s, which is not open for it", h.Name, ev.Grant)
		l.disputed(g == nil || g.ID != ev.Grant || g.Claimed || e.HostSeq <= h.Replayed, h, "S23", "host %s repaired under grant %s, which it did not claim", h.Name, ev.Grant)
	}
}

// step checks what a host reports of its machine against what machines may do.
func (l *Log) step(e event.Entry, ev event.HostStepped) {
	h := l.Host(e.Host())
	was := h.Machine
	in, err := ev.HostInput()
	if err != nil {
		l.consistent(false, h, "S25", "host %s: %v", h.Name, err)
		return
	}
	if _, booted := in.(host.Booted); booted && h.Phase == "" { // a host may come with a past
		l.apply(e, ev)
		return
	}
	if ev.From != h.Phase {
		l.consistent(false, h, "S19", "host %s reports a step from %q and was %q", h.Name, ev.From, h.Phase)
	}
	if !host.Legal(h.Phase, ev.To) {
		l.consistent(false, h, "S19", "host %s went from %q to %q", h.Name, h.Phase, ev.To)
		l.apply(e, ev)
		return
	}
	l.consistent(h.Accepts(in, ev), h, "S19", "host %s reports that %s brought it from %q to %q in %s", h.Name, ev.Input, h.Phase, ev.To, ev.Manifest.Short())
	l.input(h, in, ev.To, e.HostSeq <= h.Replayed)
	if l.apply(e, ev); was.Phase == ev.To {
		return
	}
	switch ev.To {
	case host.Failed:
		l.consistent(ev.Cause != "", h, "S28", "host %s failed without a cause", h.Name)
	case host.Reverted:
		l.consistent(h.Past || h.Current == h.From, h, "S21", "host %s went back to %s, it came from %s", h.Name, h.Current.Short(), h.From.Short())
		l.ended(h, was.Outcome)
	case host.Converged:
		l.soaked(h, e.At)
		l.ended(h, was.Outcome)
	}
}

// input checks that what begins was claimed, and what goes on may. told says that the log
// lacks what the server recorded of it, which then is no proof against it.
func (l *Log) input(h *oracle.Host, in host.Input, to host.Phase, told bool) {
	g := h.Grant
	claimed := func(id string, p host.Purpose) bool {
		return told || g != nil && g.ID == id && g.Claimed && g.Purpose == p
	}
	switch in := in.(type) {
	case host.Claimed:
		l.disputed(claimed(in.Grant, host.Update), h, "S23", "host %s activates on grant %s, which it did not claim", h.Name, in.Grant)
		l.disputed(g == nil || g.ID != in.Grant || g.Manifest == in.Manifest && g.Target == in.Target, h, "S3", "host %s activates something else than grant %s says", h.Name, in.Grant)
		return
	case host.RevertClaimed:
		l.disputed(claimed(in.Grant, host.Rollback), h, "S23", "host %s goes back on grant %s, which it did not claim", h.Name, in.Grant)
	case host.RebootClaimed:
		overtaken := g == nil && h.AtRest() // it booted by itself, and answers a grant that ended with that
		l.disputed(told || overtaken || g != nil && g.ID == in.Grant && g.Purpose == host.Reboot, h, "S24", "host %s took grant %s to reboot, which is not open for it", h.Name, in.Grant)
		l.disputed(told || g == nil || g.ID != in.Grant || g.Claimed, h, "S23", "host %s reboots under grant %s, which it did not claim", h.Name, in.Grant)
	case host.Booted:
		return
	}
	if h.Phase == host.Deferred && to == host.Activating {
		l.consistent(false, h, "S23", "host %s goes on with what is staged on %s, and not in another boot", h.Name, in.Kind())
	}
}

// soaked checks that a host was healthy for as long as its plan asks. A plan is known by
// the digest that the host itself names; that there is none, or another, is no proof.
func (l *Log) soaked(h *oracle.Host, at clock.Instant) {
	if h.Current != h.Target {
		l.consistent(false, h, "S20", "host %s converged on %s and should run %s", h.Name, h.Current.Short(), h.Target.Short())
	}
	m, leaf := l.Plan(h)
	if leaf == nil {
		l.disputed(h.Unseen, h, "S3", "host %s converged on a plan that does not name it", h.Name)
		return
	}
	soak := m.Header.Waves[leaf.Wave].Soak
	l.consistent(at.Sub(h.SoakFrom) >= soak, h, "S9", "host %s converged after %s of a soak of %s", h.Name, at.Sub(h.SoakFrom), soak)
	for _, p := range l.Required(h) {
		last := h.Probes[p.Name]
		l.consistent(last.Seen && last.Passing, h, "S9", "host %s converged and its probe %s was seen %t, passing %t", h.Name, p.Name, last.Seen, last.Passing)
	}
}

// ended checks that what the machine acts on ends exactly once. again is how it ended
// before.
func (l *Log) ended(h *oracle.Host, again host.Phase) {
	l.consistent(again == "", h, "S24", "grant %s of host %s ended %s and then %s", h.Acting, h.Name, again, h.Phase)
	g := l.grants[h.Acting]
	if g == nil {
		l.consistent(h.Acting != "", h, "S24", "host %s is %s and acts on no grant", h.Name, h.Phase)
		l.disputed(h.Acting == "" || h.Unseen, h, "S24", "host %s is %s by grant %q, which was never given", h.Name, h.Phase, h.Acting)
		return
	}
	l.disputed(again != "" || l.outcomes[g.ID] == "", h, "S24", "grant %s of host %s ended %s and then %s", g.ID, h.Name, l.outcomes[g.ID], h.Phase)
	l.disputed(g.Host == h.Name, h, "S24", "grant %s of host %s was claimed by host %s", g.ID, g.Host, h.Name)
	l.outcomes[g.ID] = h.Phase
}
