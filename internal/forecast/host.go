package forecast

import (
	"fmt"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// Host is a host that acts in a world: the agent's reducer, with a body that does
// as the model says.
type Host struct {
	w     *World
	name  string
	core  core.State
	skew  clock.Duration // its clock is the world's and this
	how   Behaviour      // of the manifest about
	about digest.Digest
	next  Behaviour // of the grant that it was offered last

	outbox  server.Batch
	seq     uint64
	sending bool
	wakeAt  clock.Instant
	claims  string // the grant that it wants to claim
	repairs bool   // run
	round   int64  // of probes
	turn    int    // counts what runs: an older activation's end is void
}

// Drive has a host act in the world from now on, from where the server's state has
// it; skew is how far its clock is ahead of the world's, and refused are bundles
// that it quarantined.
func (w *World) Drive(name string, skew clock.Duration, refused ...digest.Digest) *Host {
	rec := w.State.Hosts[name]
	h := &Host{w: w, name: name, skew: skew, outbox: server.Batch{Host: name}}
	w.hosts[name] = h
	if rec == nil {
		return h
	}
	h.seq = rec.Seq
	h.core.Machine, h.core.Generation = rec.Machine, core.GenerationOf(&rec.Machine)
	for _, d := range refused {
		h.core.Quarantine = append(h.core.Quarantine, core.QuarantineEntry{Digest: d})
	}
	if p := w.hostPlan(rec.Machine.Manifest, name); p != nil {
		h.core.Plan = *p
		h.adapt(p)
	}
	h.resume()
	return h
}

// Drives reports whether the host acts in the world.
func (w *World) Drives(name string) bool { return w.hosts[name] != nil }

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
		h.run([]core.Effect{core.BeginReboot{}})
	case m.Phase == host.Activating:
		left := m.ClaimedAt.Add(h.how.Activation).Sub(h.now())
		h.activate(h.core.Generation, max(left, 0))
	case m.Phase == host.Failed && m.Reverting:
		h.revert(h.core.Generation)
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
func (h *Host) later(d clock.Duration, run func()) { h.schedule(d, action{run, h, h.turn}) }

// always is later whatever the host runs.
func (h *Host) always(d clock.Duration, run func()) { h.schedule(d, action{run, h, anyTurn}) }

func (h *Host) schedule(d clock.Duration, a action) { h.w.queue.Push(h.w.Now.Add(max(d, 0)), a) }

// logged follows what the log says about the host.
func (h *Host) logged(e *event.Entry) {
	switch e.Type {
	case event.HostEnrolled{}.EventType(): // a new life
		h.w.Drive(h.name, h.skew)
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
	if g := h.grant(); g != nil && g.Purpose == host.Update {
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
	h.step(core.Granted{Grant: g.ID, Purpose: g.Purpose, Term: h.w.Term, TTL: g.Expires.Sub(h.w.Now), Reason: g.Reason, Plan: *p, Wall: h.w.Now})
}

// claim asks for the grant that the host prepared.
func (h *Host) claim() {
	o := h.core.Offer
	if o == nil || h.claims != o.Grant || !h.online() {
		return
	}
	h.claims = ""
	accepted := h.w.Step(server.Claim{Host: h.name, Grant: o.Grant}) == nil && h.w.err == nil
	if accepted && o.Purpose == host.Update {
		h.how, h.about = h.next, o.Plan.Manifest
	}
	h.step(core.ClaimAnswered{Grant: o.Grant, Accepted: accepted})
}

// claimed acts on a claim that the server has and the host had not acted on.
func (h *Host) claimed(g *plan.Grant) {
	p := h.w.hostPlan(g.Manifest, h.name)
	if p == nil {
		return
	}
	if g.Purpose == host.Update {
		h.adapt(p)
	}
	h.core.Offer = &core.Offer{Grant: g.ID, Purpose: g.Purpose, Term: h.w.Term, Plan: *p, Reason: g.Reason, Prepared: true}
	h.step(core.ClaimAnswered{Grant: g.ID, Accepted: true})
}

// step gives the reducer an input.
func (h *Host) step(in core.Input) {
	t, err := h.core.Step(in, h.now())
	if err != nil {
		h.w.Fail(fmt.Errorf("host %s: %w", h.name, err))
		return
	}
	for _, ev := range t.Events {
		h.record(ev)
	}
	h.run(t.Effects)
	h.rest()
}

func (h *Host) run(effects []core.Effect) {
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
		h.step(core.Elapsed{})
	})
}

// record keeps an event for the server and sends it.
func (h *Host) record(ev event.Event) {
	e := event.Entry{At: h.now(), Type: ev.EventType(), Subject: event.HostSubject(h.name)}
	if !h.w.bare {
		var err error
		if e, err = event.NewEntry(h.now(), event.HostSubject(h.name), ev); err != nil {
			h.w.Fail(err)
			return
		}
	}
	h.outbox.Entries, h.outbox.Events = append(h.outbox.Entries, e), append(h.outbox.Events, ev)
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
	b := &h.outbox
	if len(b.Entries) == 0 || rec == nil || rec.Incarnation == 0 || !rec.Online || h.cut() {
		return
	}
	for i := range b.Entries {
		h.seq++
		b.Entries[i].Incarnation, b.Entries[i].HostSeq = rec.Incarnation, h.seq
	}
	b.View, b.Head = h.w.View(h.name), event.HostHead{Incarnation: rec.Incarnation, Seq: h.seq}
	h.w.Fail(h.w.Step(b))
	b.Entries, b.Events = b.Entries[:0], b.Events[:0]
	h.always(0, h.reach)
}

// cut reports whether the server cannot be reached because of what runs.
func (h *Host) cut() bool {
	return h.how.Cut && h.core.Machine.Phase == host.Soaking && h.core.Machine.Manifest == h.about
}

// reach is contact with the server.
func (h *Host) reach() {
	if h.core.AwaitsContact() && h.online() && !h.cut() {
		h.step(core.Contact{Era: h.core.Era()})
	}
}
