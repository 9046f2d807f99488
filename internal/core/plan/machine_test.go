package plan_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// machine is one host: the real agent's reducer, an outbox, and a body whose
// work is done when the test says so. Its clock does not read like the server's.
type machine struct {
	lie         clock.Duration // its clock is ahead by that
	w           *world
	name        string
	incarnation uint64
	agent       agent.State
	generation  agent.Generation // that is to run
	round       int64            // of probes
	online      bool
	seq         uint64
	outbox      []event.Entry
	boot        string
	boots       int

	preparing, claiming, reverting bool
	activating                     bool
	broken                         map[digest.Digest]bool // bundles whose probes fail here
	runs                           digest.Digest
	drift                          map[string]bool // what a repair would have to stop: true while it is under way
	stuck                          bool            // repairs fail here
	unseen                         bool            // has a past that the server did not see
	stages                         bool            // nothing is switched here without a reboot
	stagedIn                       string          // the boot in which something was staged
	rebooting                      bool
	observe                        bool // repairs are to be observed
}

// clock is the agent's own.
func (m *machine) clock() clock.Instant { return m.w.now.Add(m.lie) - start + 1000 }

// step gives the reducer an input, keeps what it reports and carries out its effects.
// It returns why the machine dropped the input.
func (m *machine) step(in agent.Input) error {
	t, err := m.agent.Step(in, m.clock())
	if err != nil {
		m.w.t.Fatalf("report: %v", err)
	}
	for _, ev := range t.Events {
		m.report(ev)
	}
	for _, e := range t.Effects {
		if err := e.Run(body{m}); err != nil {
			m.w.t.Fatalf("effect: %v", err)
		}
	}
	return t.Dropped
}

func (m *machine) report(ev event.Event) {
	e, err := event.NewEntry(m.clock(), event.HostSubject(m.name), ev)
	if err != nil {
		m.w.t.Fatalf("report: %v", err)
	}
	m.seq++
	e.Incarnation, e.HostSeq = m.incarnation, m.seq
	m.outbox = append(m.outbox, e)
}

type body struct{ m *machine }

func (b body) Activate(e agent.Activate) error {
	b.m.activating, b.m.reverting, b.m.generation = true, false, e.Generation
	return nil
}

func (b body) Leave(agent.Leave) error { return nil }

func (b body) Revert(e agent.Revert) error {
	b.m.activating, b.m.reverting, b.m.generation = false, true, e.Generation
	if e.Bundle != b.m.agent.Machine.From {
		return fmt.Errorf("S21: a revert to %s, not to %s", e.Bundle.Short(), b.m.agent.Machine.From.Short())
	}
	return nil
}

func (b body) StartProbes(e agent.StartProbes) error   { b.m.round = e.Round; return nil }
func (b body) Prepare(agent.Prepare) error             { b.m.preparing = true; return nil }
func (b body) Claim(agent.Claim) error                 { b.m.preparing, b.m.claiming = false, true; return nil }
func (b body) Observe(agent.Observe) error             { b.m.observe = true; return nil }
func (b body) BeginRepairs(agent.BeginRepairs) error   { return nil }
func (b body) CloseRepairs(agent.CloseRepairs) error   { return nil }
func (b body) Sweep(agent.Sweep) error                 { return nil }
func (b body) RunResources(agent.RunResources) error   { return nil }
func (b body) StopResources(agent.StopResources) error { return nil }
func (b body) BeginReboot(agent.BeginReboot) error     { b.m.rebooting = true; return nil }

// stage reports whether what is switched now has to wait for a reboot.
func (m *machine) stage() bool {
	if m.stages && m.stagedIn == "" {
		m.stagedIn = m.boot
	}
	if m.stagedIn == m.boot {
		return true
	}
	m.stagedIn = ""
	return false
}

// reboot ends a reboot that was begun, in its boot or not at all.
func (m *machine) reboot(ok bool) {
	switch {
	case !m.rebooting:
	case ok:
		m.restart(true)
	default:
		m.rebooting = false
		_ = m.step(agent.RebootFailed{Detail: "exit code 1"}) // may be too late: its deadline passed
	}
}

// drifts has resources be other than declared, or be so again by themselves.
func (m *machine) drifts(in bool, names ...string) {
	if m.drift == nil {
		m.drift = map[string]bool{}
	}
	for _, name := range names {
		if in && m.runs != "" && m.agent.Machine.AtRest() {
			if _, known := m.drift[name]; !known {
				m.drift[name] = false
			}
		} else if !in && !m.drift[name] {
			delete(m.drift, name)
		}
	}
	m.look()
}

// look tells the reducer what is held back and what is under way.
func (m *machine) look() {
	if !m.agent.Machine.AtRest() {
		clear(m.drift) // the generation repairs everything on its way
	}
	var d agent.RepairsObserved
	for _, name := range slices.Sorted(maps.Keys(m.drift)) {
		if m.drift[name] {
			d.Pending, d.Running = true, true
		} else {
			d.Blocked = append(d.Blocked, name)
		}
	}
	if d.Reason = "changed by hand"; m.stuck && m.agent.Repairs.Grant != "" {
		d.Failed, d.Blocked = d.Blocked, nil
	}
	m.observe = false
	_ = m.step(d)
}

// repair begins what may begin in the open window, or ends what began.
func (m *machine) repair() {
	began := false
	for _, name := range slices.Sorted(maps.Keys(m.drift)) {
		switch {
		case m.drift[name]:
			delete(m.drift, name)
		case m.agent.Repairs.Open(m.clock()) && !m.stuck:
			m.drift[name], began = true, true
		}
	}
	if !began {
		m.look()
	}
}

// poll takes the offer that the server has for this host, if any.
func (m *machine) poll() {
	h := m.w.s.Hosts[m.name]
	if !m.online || h.Grant == nil || h.Grant.Claimed {
		return
	}
	g := h.Grant
	doc := m.w.docs[g.Manifest]
	_ = m.step(agent.Granted{Grant: g.ID, Purpose: g.Purpose, Term: 1, Plan: *doc.HostPlan(m.name), TTL: g.Expires.Sub(m.w.now), Reason: g.Reason,
		Wall: m.w.now, Newest: m.w.channels[doc.Header.Channel].Manifests[0].Digest})
}

// prepare ends the download.
func (m *machine) prepare(ok bool) {
	if o := m.agent.Offer; o != nil && m.preparing {
		m.preparing = false
		if ok {
			_ = m.step(agent.Prepared{Grant: o.Grant})
		} else {
			_ = m.step(agent.PrepareFailed{Grant: o.Grant, Detail: "no room"})
		}
	}
}

// claim asks the server; the answer may be lost on its way back.
func (m *machine) claim(lost bool) {
	o := m.agent.Offer
	if !m.online || o == nil || !m.claiming {
		return
	}
	entries, err := plan.Claim(m.w.s, m.name, o.Grant, m.w.now)
	_, refused := err.(*plan.ClaimRefusedError)
	if err != nil && !refused {
		m.w.t.Fatalf("claim: %v", err)
	}
	m.w.commit(entries, nil)
	if lost {
		return
	}
	m.claiming = false
	if err := m.step(agent.ClaimAnswered{Grant: o.Grant, Accepted: !refused}); err != nil {
		m.w.t.Fatalf("S24: host %s claimed %s and cannot act on it: %v\n%s", m.name, o.Grant, err, m.w.tail())
	}
}

// observed tells how far the generation has come; it may be too late.
func (m *machine) observed(o agent.Outcome, detail string) {
	_ = m.step(agent.GenerationObserved{Generation: m.generation, Outcome: o, Code: "retries-exhausted", Detail: detail})
}

// activated ends an activation.
func (m *machine) activated(ok bool) {
	if !m.activating {
		return
	}
	m.activating = false
	if ok && m.stage() {
		m.observed(agent.Staged, "kernel")
		return
	}
	if ok {
		m.runs = m.agent.Machine.Target
		m.observed(agent.Complete, "")
	} else {
		m.observed(agent.Broken, "exit 1")
	}
}

// reverted ends an attempt to go back.
func (m *machine) reverted(ok bool) {
	if !m.reverting {
		return
	}
	m.reverting = false
	if ok && m.stage() {
		m.observed(agent.Staged, "kernel")
		return
	}
	if !ok {
		m.observed(agent.Broken, "exit 1")
		return
	}
	m.runs = m.agent.Machine.From
	m.observed(agent.Complete, "")
}

// probe looks at every probe once.
func (m *machine) probe() {
	for _, p := range m.agent.Machine.Probes {
		m.probed(p.Name, !m.broken[m.agent.Machine.Current])
	}
}

func (m *machine) probed(name string, pass bool) {
	reason := ""
	if !pass {
		reason = "exit 1"
	}
	_ = m.step(agent.ProbeObserved{Round: m.round, ProbeObserved: host.ProbeObserved{Name: name, Pass: pass, Reason: reason}}) // not in the plan: dropped
}

// elapse wakes the reducer when it asked to be woken.
func (m *machine) elapse() {
	for range 8 {
		due := m.agent.Due()
		if !due.Reached(m.clock()) {
			return
		}
		if err := m.step(agent.Elapsed{}); err != nil {
			m.w.t.Fatalf("elapsed: %v", err)
		}
		if m.observe {
			m.look()
			continue
		}
		if m.agent.Due() == due {
			m.w.t.Fatalf("host %s is due at %d and stepping does not help: %+v", m.name, due, m.agent.Machine)
		}
	}
	m.w.t.Fatalf("host %s is due again and again", m.name)
}

// restart is an agent that comes back with what it had on disk.
func (m *machine) restart(reboot bool) {
	if reboot {
		m.boots++
		m.boot = fmt.Sprintf("boot-%d", m.boots+1)
	}
	m.activating, m.reverting, m.preparing, m.claiming, m.rebooting = false, false, false, false, false
	if err := m.step(agent.Started{BootID: m.boot, Current: m.runs}); err != nil {
		m.w.t.Fatalf("boot: %v", err)
	}
	for name := range m.drift { // order-free: what was under way was cut off
		m.drift[name] = false
	}
}

// deliver sends the outbox, and compares the server's mirror (S24).
func (m *machine) deliver() {
	if !m.online {
		return
	}
	_ = m.step(agent.Contact{Era: m.agent.Era()}) // always legal
	if len(m.outbox) == 0 {
		return
	}
	events := m.outbox
	m.outbox = nil
	m.w.commit(plan.Ingest(m.w.s, m.name, events, nil, event.HostHead{Incarnation: m.incarnation, Seq: m.seq}, 0, m.w.now))
	m.agree()
}

// agree compares the machine with its mirror; the outbox is empty.
func (m *machine) agree() {
	if m.unseen {
		return
	}
	a, b := m.agent.Machine, m.w.s.Hosts[m.name].Machine
	if a.Phase != b.Phase || a.Current != b.Current || a.Cause != b.Cause || a.Grant != b.Grant || a.From != b.From ||
		a.Target != b.Target || a.Reboot != b.Reboot || a.Rebooted != b.Rebooted || a.Deadline != b.Deadline || a.Manifest != b.Manifest || a.SoakFrom != b.SoakFrom || a.Reverting != b.Reverting || a.Detail != b.Detail {
		m.w.t.Fatalf("S24: host %s is %+v, its mirror %+v\n%s", m.name, a, b, m.w.tail())
	}
	for i, p := range a.Probes {
		if q := b.Probes[i]; p.Name != q.Name || p.Seen != q.Seen || p.Passing != q.Passing {
			m.w.t.Fatalf("S24: probe %s of host %s is %+v, its mirror %+v", p.Name, m.name, p, q)
		}
	}
}

// work does everything that a healthy host does by itself, once.
func (m *machine) work() {
	m.elapse()
	m.poll()
	m.prepare(true)
	m.claim(false)
	m.activated(true)
	m.reverted(true)
	m.reboot(true)
	m.activated(true)
	m.reverted(true)
	m.repair()
	m.repair()
	m.deliver()
	m.probe()
	m.deliver()
}
