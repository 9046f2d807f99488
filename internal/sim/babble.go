package sim

import (
	"math"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// What a liar sends that no agent would.

// babble sends anything: a batch of its own, a claim, or what must be refused.
func (l *liar) babble(s *server, h *plan.Host) {
	switch l.r.IntN(8) {
	case 0:
		_, _ = s.claim(l.a, l.grant(h), l.number(s.term))
	case 1:
		l.forge(s, h)
	default:
		var events []event.Event
		for range 1 + l.r.IntN(4) {
			events = append(events, l.anything(h))
		}
		l.report(s, h, events...)
	}
}

// anything is any event that a host can report.
func (l *liar) anything(h *plan.Host) event.Event {
	switch l.r.IntN(12) {
	case 0:
		return event.GrantDeclined{Grant: l.grant(h), Code: l.code(), Detail: "\x1b[2Jno"}
	case 1:
		return event.RepairNeeded{RepairNeed: host.RepairNeed{Manifest: l.manifest(h), Bundle: h.Machine.Current, Resources: []string{"exec/mine"}, Reason: "it says"}}
	case 2:
		return event.RepairOver{Grant: l.grant(h), OK: l.one(2), Detail: "it says"}
	case 3:
		return event.ResourceReported{Resource: "workspace/api", State: "Error", Layer: event.LayerBundle}
	case 4:
		return event.BundleQuarantined{Rollout: h.Machine.Rollout, Digest: h.Machine.Target, Reason: "it says"}
	case 5:
		return event.HostFacts{CPUs: 1 << 40, Kernel: "\x1b[2Jmine", GPUs: make([]event.GPU, event.MaxGPUs)}
	}
	m := h.Machine
	st := step{l.input(h), host.Phases[l.r.IntN(len(host.Phases))]}
	if in, is := st.in.(host.Claimed); is || l.one(8) {
		m.Manifest = l.manifest(h)
		if is {
			m.Rollout, m.Manifest = in.Rollout, in.Manifest
		}
	}
	for range 3 {
		if !host.Legal(m.Phase, st.to) {
			st.to = host.Phases[l.r.IntN(len(host.Phases))]
		}
	}
	return l.stepped(&m, st)
}

// input is any input of the machine.
func (l *liar) input(h *plan.Host) host.Input {
	switch l.r.IntN(14) {
	case 0, 1:
		return l.claimed(h, l.grant(h), l.manifest(h))
	case 2:
		return host.Activated{Observed: h.Machine.Target}
	case 3:
		return host.Activated{Observed: digest.Of([]byte("mine"))}
	case 4:
		return host.ActivationFailed{Code: "no", Detail: "it says"}
	case 5:
		return host.ActivationDeferred{Component: "kernel"}
	case 6:
		return host.ProbeObserved{Name: "health", Pass: l.one(2), Reason: "it says"}
	case 7:
		return host.Contact{}
	case 8:
		return host.RevertClaimed{Grant: l.grant(h), Reason: "it says"}
	case 9:
		return host.RevertCompleted{Observed: h.Machine.From}
	case 10:
		return host.RevertFailed{Code: "no", Detail: "it says"}
	case 11:
		return host.Booted{BootID: []string{"boot", "another"}[l.r.IntN(2)], Current: h.Machine.Target}
	case 12:
		return host.RebootClaimed{Grant: l.grant(h)}
	}
	return host.Elapsed{}
}

// report sends events that follow its chain; the server may refuse them.
func (l *liar) report(s *server, h *plan.Host, events ...event.Event) {
	l.send(s, h, l.entries(h, events...), true)
}

func (l *liar) entries(h *plan.Host, events ...event.Event) []event.Entry {
	var out []event.Entry
	for i, ev := range events {
		e, err := event.NewEntry(l.instant(), event.HostSubject(l.a.name), ev)
		if err != nil {
			l.a.w.violate("core", "%v", err)
			continue
		}
		e.Incarnation, e.HostSeq = h.Incarnation, h.Seq+uint64(i)+1
		out = append(out, e)
	}
	return out
}

// send gives a batch to the server, as its handler does after it verified the signature.
// What is not may must change nothing.
func (l *liar) send(s *server, h *plan.Host, batch []event.Entry, may bool) {
	w, before := l.a.w, len(l.a.w.log.entries)
	in := coreserver.Batch{Host: l.a.name, View: s.view(l.a.name), Entries: batch,
		Head: event.HostHead{Incarnation: h.Incarnation, Seq: batch[len(batch)-1].HostSeq, Hash: []byte("chain")}}
	open, was := h.Grant, h.Machine.Grant
	_, refused := s.step(in)
	if now := s.state.Hosts[l.a.name]; refused == nil && now.Machine.Grant != was && batch[0].HostSeq > now.Replayed.To && (open == nil || !open.Claimed || open.ID != now.Machine.Grant) {
		w.violate("S23", "%s goes on by grant %q, which it did not claim", l.a.name, now.Machine.Grant)
	}
	if refused != nil && len(w.log.entries) != before || refused == nil && !may && !s.away() {
		w.violate("S32", "%s sends %s as event %d of %s, and the server takes it", l.a.name, batch[0].Type, batch[0].HostSeq, batch[0].Host())
	}
}

// forge sends what no host may report.
func (l *liar) forge(s *server, h *plan.Host) {
	batch := l.entries(h, event.GrantDeclined{Grant: l.grant(h), Code: "no"})
	e := &batch[0]
	switch l.r.IntN(6) {
	case 0:
		e.HostSeq = l.number(e.HostSeq + 1)
		if e.HostSeq == h.Seq+1 {
			return
		}
	case 1:
		e.Incarnation++
	case 2:
		other := l.a.w.agents[l.r.IntN(len(l.a.w.agents))].name
		if other == l.a.name {
			return
		}
		e.Subject = event.HostSubject(other)
	case 3:
		e.At = []clock.Instant{-1, math.MinInt64, math.MaxInt64, 1<<52 + 1}[l.r.IntN(4)]
	case 4:
		batch = l.entries(h, event.GrantClaimed{Grant: l.grant(h)})
	case 5:
		if h.Seq%2 == 0 {
			batch = l.entries(h, event.HostFacts{GPUs: make([]event.GPU, event.MaxGPUs+1)})
			break
		}
		batch = l.entries(h, event.HostStepped{Input: "nonsense", Data: []byte("{}"), From: h.Machine.Phase, To: "nonsense"})
	}
	l.send(s, h, batch, false)
}
