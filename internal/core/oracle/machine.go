package oracle

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Machine is a host's machine as its reports tell of it. Each report says which phase
// it went to; the machine is never stepped here.
type Machine struct {
	Phase                 host.Phase
	Manifest              digest.Digest
	From, Target, Current digest.Digest
	Acting                string // the claimed grant that it acts on
	Reboot                string // the claimed grant to boot what is staged
	Reverting             bool   // on the way back by itself
	Reverts               int    // failed attempts to go back
	SoakFrom              clock.Instant
	Claimed, Activated    clock.Instant        // on its own clock
	Probes                map[string]Probe     // since the activation
	Outcome               host.Phase           // of what it acts on: Converged or Reverted, once
	Past                  bool                 // it came with one: nobody knows where it came from
	Channel               string               // of the rollout
	Release               fleet.ReleaseVersion // that the plan was made for
	Cause                 host.Cause
	Boot                  string
	Rebooted              bool // in the present attempt to go back
	RebootsBack           bool // to go back, by an instant
	BackBy                clock.Instant
}

// Probe is the last result of a probe. Failing lists the controls that did not pass.
type Probe struct {
	Seen    bool // since the last start of the agent
	Passing bool
	Failing []string
}

// Staged reports whether the host waits for a reboot that it may not do yet.
func (m *Machine) Staged() bool { return m.Phase == host.Deferred && m.Reboot == "" }

// AtRest reports whether the machine is through with what it claimed.
func (m *Machine) AtRest() bool { return m.Phase == host.Converged || m.Phase == host.Reverted }

// moving reports whether the host is on its way, forward or back.
func (m *Machine) moving() bool {
	return m.Phase == host.Activating || m.Phase == host.Soaking || m.Phase == host.Deferred || m.Phase == host.Failed && m.Reverting
}

// rebooting reports whether the host may be away for a reboot of its own.
func (m *Machine) rebooting() bool {
	return m.Phase == host.Deferred && m.Reboot != "" || m.Phase == host.Failed && m.Reverting && m.RebootsBack
}

// stepped follows the machine by what the host reports. A step that no machine makes
// is not followed.
func (f *Facts) stepped(h *Host, at clock.Instant, ev event.HostStepped) error {
	in, err := ev.HostInput()
	if err != nil {
		return err
	}
	was, log := h.Machine, h.granted(in)
	if h.Accepts(in, ev) {
		f.replayed(h, in)
	}
	if boot, isBoot := in.(host.Booted); isBoot && h.Phase == "" { // a host may come with a past
		h.Machine = Machine{Phase: ev.To, Manifest: ev.Manifest, Current: boot.Current, Past: ev.Manifest != "", Cause: ev.Cause, Boot: boot.BootID}
		if _, leaf := f.leaf(h.Name, ev.Manifest); leaf != nil {
			h.Target = leaf.Target
		}
	} else if h.Accepts(in, ev) {
		if log || h.Seq <= h.Replayed {
			f.follow(h, at, in, ev)
			_, begins := in.(host.Claimed)
			h.Apart = h.Apart && !begins
		} else {
			h.Apart = true
		}
	}
	m := &h.Machine
	// What was given up while it was there goes on by progress alone.
	progress := was.Phase != m.Phase || was.SoakFrom != m.SoakFrom || was.Reboot != m.Reboot || was.Reverts != m.Reverts || was.Acting != m.Acting
	h.Reports = h.Reports || progress
	h.SilentFailure = h.SilentFailure && h.Overdue
	if g := h.Grant; g != nil {
		outran := g.Purpose == host.Reboot && g.Claimed && m.AtRest() // it booted by itself before it heard that it may
		if m.Acting == g.ID || m.Reboot == g.ID || outran {
			h.Grant = nil
		}
	}
	r := f.Find(m.Manifest)
	if r == nil {
		return nil
	}
	switch in.(type) {
	case host.Claimed, host.RebootClaimed:
		if _, claims := in.(host.Claimed); (claims || was.Staged()) && log && was.Accepts(in, ev) {
			h.NotBefore, h.Untaken = 0, 0
		}
	}
	f.soakedIn(h)
	if m.Phase == host.Failed && was.Phase != host.Failed && m.Cause != host.RevertOrdered && !h.earlier(r) {
		away := m.Cause == host.ContactLost && f.resumed > h.Claim.At.Add(m.Activated.Sub(m.Claimed))
		r.mark(h.Name, func(k *Mark) { k.Failed, k.Proven, k.Away = true, true, away })
	}
	return nil
}

// granted reports whether the log has the claim of what an input begins, if it begins something.
// Who booted by itself and is at rest begins nothing with the grant for that.
func (h *Host) granted(in host.Input) bool {
	grant := ""
	switch in := in.(type) {
	case host.Claimed:
		grant = in.Grant
	case host.RevertClaimed:
		grant = in.Grant
	case host.RebootClaimed:
		if grant = in.Grant; h.AtRest() {
			return true
		}
	default:
		return true
	}
	return h.Grant != nil && h.Grant.ID == grant && h.Grant.Claimed
}

// Accepts reports whether any machine takes a step that the host reports, by what it reported
// before: from where it is, and in the rollout that it is in.
func (m *Machine) Accepts(in host.Input, ev event.HostStepped) bool {
	manifest := m.Manifest
	if claim, claims := in.(host.Claimed); claims {
		manifest = claim.Manifest
	}
	return ev.Manifest == manifest && host.Accepts(in, m.Phase, ev.To)
}

// replayed makes up for a claim that no record of the server has, as that of the part that a
// restored log lacks: it counts from when the server learned of it.
func (f *Facts) replayed(h *Host, in host.Input) {
	manifest, grant := h.Manifest, ""
	update, begins := false, true
	switch in := in.(type) {
	case host.Claimed:
		manifest, grant, update = in.Manifest, in.Grant, true
	case host.RevertClaimed:
		grant = in.Grant
	case host.RebootClaimed:
		grant, begins = in.Grant, false
	default:
		return
	}
	told := h.Seq <= h.Replayed && (h.Grant == nil || h.Grant.ID != grant || !h.Grant.Claimed)
	if begins {
		h.Unseen = told
	}
	if !told {
		return
	}
	if update {
		h.Claim = Claim{manifest, h.ReplayedAt}
	}
	h.Began, h.WorksFrom, h.Reports = h.ReplayedAt, h.ReplayedAt, false
	if r := f.Find(manifest); r != nil {
		r.Granted = r.Granted || update
		r.mark(h.Name, func(m *Mark) { m.Claimed = true })
	}
}

// follow takes one legal step.
func (f *Facts) follow(h *Host, at clock.Instant, in host.Input, ev event.HostStepped) {
	m := &h.Machine
	f.input(h, at, in)
	was := m.Phase
	m.Phase = ev.To
	switch {
	case was == ev.To:
	case ev.To == host.Failed:
		if m.Cause != host.RevertOrdered {
			m.Cause = ev.Cause
		}
		manifest, leaf := f.leaf(h.Name, m.Manifest)
		if m.Cause == host.ContactLost || manifest != nil && policyOf(manifest, leaf).OnHealthFailure == fleet.RollbackAndHalt {
			m.Reverting, m.Rebooted, m.RebootsBack = true, false, false
		}
	case ev.To == host.Reverted:
		m.Reverting, m.RebootsBack, m.Outcome = false, false, host.Reverted
	case ev.To == host.Converged:
		m.Outcome = host.Converged
	}
}

// input keeps what an input says by itself.
func (f *Facts) input(h *Host, at clock.Instant, in host.Input) {
	m := &h.Machine
	switch in := in.(type) {
	case host.Claimed:
		*m = Machine{Phase: m.Phase, Claimed: at, Manifest: in.Manifest, From: in.From, Target: in.Target, Current: m.Current, Acting: in.Grant, Boot: in.BootID, Release: in.Release}
		m.Channel, _, _ = strings.Cut(in.Rollout, "@")
	case host.RebootClaimed:
		m.Reboot = in.Grant
	case host.Activated:
		m.Current, m.SoakFrom, m.Activated, m.Probes = in.Observed, at, at, map[string]Probe{}
	case host.ProbeObserved:
		f.observed(h, at, in)
	case host.RevertClaimed:
		m.Acting, m.Outcome = in.Grant, ""
		if m.Phase == host.Reverted || m.Phase == host.Failed && m.Reverting {
			return // it went back by itself while it claimed
		}
		if m.Phase != host.Failed {
			m.Cause = host.RevertOrdered
		}
		m.Reverting, m.Reverts, m.Rebooted, m.RebootsBack = true, 0, false, false
	case host.RevertCompleted:
		m.Current, m.Probes = in.Observed, nil
	case host.RevertFailed:
		m.stayed()
	case host.RebootFailed:
		if m.Phase == host.Failed && m.RebootsBack {
			m.stayed()
		}
	case host.Elapsed:
		if m.Phase == host.Failed && m.RebootsBack && m.BackBy <= at {
			m.stayed()
		}
	case host.RevertDeferred:
		if m.Rebooted {
			m.stayed()
		} else if m.Reverting {
			m.RebootsBack = true
			if manifest, leaf := f.leaf(h.Name, m.Manifest); manifest != nil {
				m.BackBy = at.Add(policyOf(manifest, leaf).ActivationDeadline)
			}
		}
	case host.Booted:
		m.booted(at, in)
	}
}

// stayed counts an attempt to go back that came to nothing.
func (m *Machine) stayed() {
	if !m.Reverting {
		return
	}
	m.Rebooted, m.RebootsBack = false, false
	if m.Reverts++; m.Reverts >= host.MaxReverts {
		m.Reverting = false
	}
}

func (m *Machine) booted(at clock.Instant, in host.Booted) {
	another := m.Boot != in.BootID
	m.Boot = in.BootID
	switch m.Phase {
	case host.Deferred:
		m.Rebooted = m.Rebooted || another
	case host.Failed:
		if m.Reverting && another {
			m.Rebooted, m.RebootsBack = true, false
		}
	case host.Soaking: // each probe is to be seen again
		m.SoakFrom = at
		fresh := map[string]Probe{}
		for name, p := range m.Probes { // order-free: it copies a map
			p.Seen = false
			fresh[name] = p
		}
		m.Probes = fresh
	case "", host.Pending:
		m.Current = in.Current
	}
}

// observed keeps what a probe says; one that fails and names no control fails as a
// whole. One that turns begins the soak again.
func (f *Facts) observed(h *Host, at clock.Instant, in host.ProbeObserved) {
	if h.Probes == nil {
		return
	}
	last, there := h.Probes[in.Name]
	turned := there && (last.Seen || in.Pass) && last.Passing != in.Pass
	if turned && h.Phase == host.Soaking && slices.ContainsFunc(f.Required(h), func(p *fleet.Probe) bool { return p.Name == in.Name }) {
		h.SoakFrom = at
	}
	p := Probe{Seen: true, Passing: in.Pass}
	for _, r := range in.Results[:min(len(in.Results), host.MaxResults)] {
		if !in.Pass && r.Status != host.ControlPass {
			p.Failing = append(p.Failing, r.Control+" of probe "+in.Name)
		}
	}
	if !in.Pass && p.Failing == nil {
		p.Failing = []string{"probe " + in.Name + " as a whole"}
	}
	h.Probes[in.Name] = p
}

// Plan returns the manifest that the host's machine is on and what it says of the host;
// nil if there is none.
func (f *Facts) Plan(h *Host) (*rollout.Manifest, *fleet.Leaf) { return f.leaf(h.Name, h.Manifest) }

// Required lists the probes of the host's plan that have to pass.
func (f *Facts) Required(h *Host) []*fleet.Probe {
	m, leaf := f.Plan(h)
	if leaf == nil {
		return nil
	}
	var out []*fleet.Probe
	for _, k := range leaf.Probes {
		if p := &m.Header.Probes[k]; enforced(p) {
			out = append(out, p)
		}
	}
	return out
}

func enforced(p *fleet.Probe) bool { return p.Mode == fleet.Enforce }
