package forecast

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Host is a host that acts in a world: the agent's reducer, with a body that does
// as the model says.
type Host struct {
	w     *World
	name  string
	core  host.Agent
	skew  clock.Duration // its clock is the world's and this
	how   Behaviour      // of the manifest about
	about digest.Digest
	next  Behaviour // of the grant that it was offered last

	outbox  []event.Entry
	said    []event.Event // what the outbox was made of
	seq     uint64
	sending bool
	wakeAt  clock.Instant
	claims  string // the grant that it wants to claim
	turn    int    // counts what runs: an older activation's end is void
}

// Take has a host act in the world from now on, from where the server's state has
// it; skew is how far its clock is ahead of the world's, and refused are bundles
// that it quarantined.
func (w *World) Take(name string, skew clock.Duration, refused ...digest.Digest) *Host {
	rec := w.State.Hosts[name]
	h := &Host{w: w, name: name, skew: skew}
	w.hosts[name] = h
	if rec == nil {
		return h
	}
	h.seq = rec.Seq
	h.core.Machine = rec.Machine
	for _, d := range refused {
		h.core.Quarantine = append(h.core.Quarantine, host.QuarantineEntry{Digest: d})
	}
	if p := w.hostPlan(rec.Machine.Manifest, name); p != nil {
		h.core.Plan = *p
		h.adapt(p)
	}
	h.resume()
	return h
}

// Release has a host act no longer: somebody else plays it.
func (w *World) Release(name string) {
	if h := w.hosts[name]; h != nil {
		h.turn++
		h.outbox, h.said = nil, nil
		delete(w.hosts, name)
	}
}

// Takes reports whether the host acts in the world.
func (w *World) Takes(name string) bool { return w.hosts[name] != nil }

func (w *World) hostPlan(d digest.Digest, name string) *fleet.HostPlan {
	if d == "" {
		return nil
	}
	m, err := w.Docs.Manifest(d)
	if err != nil {
		return nil
	}
	return m.HostPlan(name)
}

func (h *Host) now() clock.Instant { return h.w.Now.Add(h.skew) }

// adapt asks the model how this plan goes here.
func (h *Host) adapt(p *fleet.HostPlan) { h.how, h.about = h.w.Model.Behave(h.name, p), p.Manifest }

// resume goes on with what the machine is at, and with a grant that is out.
func (h *Host) resume() {
	m := &h.core.Machine
	switch {
	case m.Rebooting():
		h.run([]host.Effect{host.BeginReboot{}})
	case m.Phase == host.Activating:
		left := m.ClaimedAt.Add(h.how.Activation).Sub(h.now())
		h.activate(m.Target, max(left, 0))
	case m.Phase == host.Failed && m.Reverting:
		h.revert(m.From)
	case m.Phase == host.Soaking:
		h.watch(m.CompletedAt)
		h.reach()
	}
	h.rest()
	if g := h.grant(); g != nil && !g.Claimed {
		h.offered()
	} else if g != nil && m.Grant != g.ID && g.Purpose != host.Repair {
		h.claimed(g) // the claim was committed, and the host had not said more
	}
}

func (h *Host) grant() *plan.Grant {
	if rec := h.w.State.Hosts[h.name]; rec != nil {
		return rec.Grant
	}
	return nil
}

func (h *Host) online() bool {
	rec := h.w.State.Hosts[h.name]
	return rec != nil && rec.Online
}

// later has run called in d, unless what the host runs has changed since or it is
// played by others.
func (h *Host) later(d clock.Duration, run func()) {
	turn := h.turn
	h.w.after(d, func() {
		if h.turn == turn && h.w.hosts[h.name] == h {
			run()
		}
	})
}

// always is later whatever the host runs.
func (h *Host) always(d clock.Duration, run func()) {
	h.w.after(d, func() {
		if h.w.hosts[h.name] == h {
			run()
		}
	})
}

// told hears what the log says about the host.
func (h *Host) told(e *event.Entry) {
	switch e.Type {
	case event.Granted{}.EventType():
		h.always(h.expect().Report, h.offered)
	case event.HostReturned{}.EventType():
		h.always(0, func() {
			h.flush()
			h.offered()
			h.claim()
		})
	}
}

// expect asks the model how the plan of the grant would go.
func (h *Host) expect() Behaviour {
	h.next = h.how
	if g := h.grant(); g != nil && g.Purpose == host.Forward {
		if p := h.w.hostPlan(g.Manifest, h.name); p != nil {
			h.next = h.w.Model.Behave(h.name, p)
		}
	}
	return h.next
}

// offered takes the grant that the server has for this host.
func (h *Host) offered() {
	g := h.grant()
	if g == nil || g.Claimed || !h.online() {
		return
	}
	p := h.w.hostPlan(g.Manifest, h.name)
	if p == nil {
		return
	}
	h.expect()
	o := host.Offer{Grant: g.ID, Purpose: g.Purpose, Term: h.w.Term, Plan: *p, Reason: g.Reason,
		Expires: h.now().Add(g.Expires.Sub(h.w.Now))}
	h.run(h.core.Granted(o, h.now()))
	h.rest()
}

// claim asks for the grant that the host prepared.
func (h *Host) claim() {
	o := h.core.Offer
	if o == nil || h.claims != o.Grant || !h.online() {
		return
	}
	h.claims = ""
	grant, repair := o.Grant, o.Purpose == host.Repair
	accepted := h.w.claim(h.name, grant)
	if repair {
		h.run(h.core.RepairAnswered(grant, accepted, h.now()))
		return
	}
	if accepted && o.Purpose == host.Forward {
		h.how, h.about = h.next, o.Plan.Manifest
	}
	if in := h.core.ClaimAnswered(grant, accepted, "modelled"); in != nil {
		h.step(in)
	}
}

// claimed acts on a claim that the server has and the host had not acted on.
func (h *Host) claimed(g *plan.Grant) {
	p := h.w.hostPlan(g.Manifest, h.name)
	if p == nil {
		return
	}
	if g.Purpose == host.Forward {
		h.adapt(p)
	}
	h.core.Offer = &host.Offer{Grant: g.ID, Purpose: g.Purpose, Term: h.w.Term, Plan: *p, Reason: g.Reason, Prepared: true}
	if in := h.core.ClaimAnswered(g.ID, true, "modelled"); in != nil {
		h.step(in)
	}
}

// step moves the machine; what it cannot take is dropped, as the agent does.
func (h *Host) step(in host.Input) {
	before := h.core.Machine
	effects, report, err := h.core.Step(in, h.now())
	if illegal := (*host.IllegalError)(nil); errors.As(err, &illegal) {
		return
	}
	if err != nil {
		h.w.Fail(fmt.Errorf("host %s: %w", h.name, err))
		return
	}
	if report {
		ev, err := event.NewHostStepped(&before, &h.core.Machine, in)
		if err != nil {
			h.w.Fail(err)
			return
		}
		h.record(ev)
	}
	h.run(effects)
	h.rest()
}

func (h *Host) run(effects []host.Effect) {
	for _, e := range effects {
		if err := e.Run(h); err != nil {
			h.w.Fail(fmt.Errorf("host %s: %w", h.name, err))
		}
	}
}

// rest sleeps until the reducer is due.
func (h *Host) rest() {
	due := h.core.Due()
	if due == 0 || due == h.wakeAt {
		return
	}
	h.wakeAt = due
	h.always(due.Sub(h.now()), func() {
		if h.wakeAt != due {
			return
		}
		h.wakeAt = 0
		h.run(h.core.Expire(h.now()))
		h.step(host.Elapsed{})
		h.rest()
	})
}

// record keeps an event for the server and sends it.
func (h *Host) record(ev event.Event) {
	e := event.Entry{At: h.now(), Type: ev.EventType(), Host: h.name}
	if !h.w.bare {
		var err error
		if e, err = event.NewEntry(h.now(), h.name, ev); err != nil {
			h.w.Fail(err)
			return
		}
	}
	h.outbox, h.said = append(h.outbox, e), append(h.said, ev)
	if !h.sending {
		h.sending = true
		h.always(h.how.Report, func() {
			h.sending = false
			h.flush()
		})
	}
}

// flush has the server take what there is to report. Its answer is contact.
func (h *Host) flush() {
	rec := h.w.State.Hosts[h.name]
	if len(h.outbox) == 0 || rec == nil || rec.Incarnation == 0 || !rec.Online || h.cut() {
		return
	}
	batch, said := h.outbox, h.said
	h.outbox, h.said = nil, nil
	for i := range batch {
		h.seq++
		batch[i].Incarnation, batch[i].HostSeq = rec.Incarnation, h.seq
	}
	if h.w.Commit(plan.IngestRead(h.w.State, h.name, batch, said, event.HostHead{Incarnation: rec.Incarnation, Seq: h.seq}, h.w.Now)) {
		h.always(0, h.reach)
	}
}

// cut reports whether the server cannot be reached because of what runs.
func (h *Host) cut() bool {
	return h.how.Cut && h.core.Machine.Phase == host.Soaking && h.core.Machine.Manifest == h.about
}

// reach is contact with the server.
func (h *Host) reach() {
	m := &h.core.Machine
	if (m.ConfirmBy != 0 || m.BlameBy != 0) && h.online() && !h.cut() {
		h.step(host.Contact{})
	}
}
