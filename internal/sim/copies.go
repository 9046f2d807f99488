package sim

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
)

// Two agents on one identity: the state of a host is copied and runs a second time.
// The server finds it by the real code: chains that part, and heartbeats by turns.

// duplicate copies what a host has on disk, and starts it some time later; the first
// one may be gone by then.
func (w *World) duplicate(a *agent, f response, old clock.Duration, alone bool) {
	if a.inc == 0 || a.out || a.enrolling || a.copy != nil {
		return
	}
	c := a.twin()
	if c == nil {
		return
	}
	w.after(old, func() {
		if a.copy != nil || a.out || a.enrolling || a.serial != c.serial || w.now >= w.faultsEnd {
			return
		}
		w.trace("a copy of %s starts", a.name)
		a.copy, a.response = c, f
		if alone {
			a.halt()
			w.escalate(a)
		}
		c.start()
	})
}

// twin copies what survives a crash.
func (a *agent) twin() *agent {
	c := newAgent(a.w, a.name, a.skew)
	c.of, c.copied, c.key = a, true, a.name+"'"
	c.boot, c.inc, c.serial, c.issued = a.boot+100, a.inc, a.serial, a.issued
	raw, err := json.Marshal(&a.core)
	if err == nil {
		err = json.Unmarshal(raw, &c.core)
	}
	if err != nil {
		a.w.violate("core", "%v", err)
		return nil
	}
	c.chain, c.events, c.acked = slices.Clone(a.chain), slices.Clone(a.events), a.acked
	c.trusted, c.seen = a.trusted, a.seen
	c.running, c.acting, c.stages, c.staged, c.facts = a.running, a.acting, a.stages, a.staged, a.facts
	c.drift = maps.Clone(a.drift)
	for name := range a.restaged { // order-free: it is booted as it is made
		delete(c.drift, name)
	}
	delete(a.w.checks.acked, c.key)
	return c
}

// link is where a host's chain stands after an event.
func (a *agent) link(seq uint64) identity.Chain { return a.linkIn(a.chain[:seq]) }

// linkIn is where it stands after events that it had, if its state was set back since.
func (a *agent) linkIn(chain []event.Entry) identity.Chain {
	c := identity.Genesis("sim", a.name, a.inc)
	for i := range chain {
		c = c.Next(chain[i].At, chain[i].Type, chain[i].Body)
	}
	return c
}

// histories is the log as reports are compared with it.
type histories struct{ *store }

// LastAbout implements identity.Histories for hosts, whose own events are all that a
// report is compared with: those have the host as their subject.
func (l histories) LastAbout(_ context.Context, subject event.Subject, limit int) (out []event.Record, _ error) {
	for i := len(l.entries) - 1; i >= l.base().n && len(out) < limit; i-- {
		if l.entries[i].Subject == subject {
			out = append(out, event.Record{Entry: l.entries[i], Seq: uint64(i) + 1})
		}
	}
	return out, nil
}

// parts holds a batch against the chain that the server has. What follows it is
// fresh; it is not one history when the host told another before.
func (s *server) parts(a *agent, h *plan.Host, chain, batch []event.Entry) (fresh []event.Entry, head event.HostHead, one bool) {
	end := a.linkIn(chain)
	head = event.HostHead{Incarnation: a.inc, Seq: end.Seq, Hash: end.Hash[:]}
	r := identity.Report{Host: a.name, Incarnation: a.inc, Entries: batch, Head: end}
	known := identity.Chain{Seq: h.Seq}
	copy(known.Hash[:], h.ChainHash)
	fresh, one, err := r.After(context.Background(), "sim", known, histories{s.w.log}, 1000)
	if err != nil {
		s.w.violate("core", "%v", err)
	}
	return fresh, head, one
}

// forked records that an identity runs twice.
func (s *server) forked(a *agent, seq uint64) {
	s.w.trace("%s is found to run twice", a.name)
	s.step(coreserver.Fork{Host: a.name, Incarnation: a.inc, Seq: seq})
}

// process names the process that an agent is now.
func (a *agent) process() string {
	if !a.copied {
		return ""
	}
	return a.key + "/" + strconv.Itoa(int(a.life))
}

// oneHistory checks that the log has no other history of a host than the one that
// it took of the agent just now, up to an event, unless it says so.
func (t *checker) oneHistory(s *server, a *agent, upTo uint64) {
	if s.state.Hosts[a.name].Forked {
		return
	}
	for i := s.w.log.base().n; i < len(s.w.log.entries); i++ { // what was pruned no report is compared with
		e := &s.w.log.entries[i]
		if e.Host() != a.name || e.HostSeq == 0 || e.HostSeq > upTo || e.Incarnation != a.inc {
			continue
		}
		if e.HostSeq > uint64(len(a.chain)) || a.chain[e.HostSeq-1].At != e.At || string(a.chain[e.HostSeq-1].Body) != string(e.Body) {
			s.w.violate("S43", "event %d of %s is of another agent than the one that is followed, and nobody noticed", e.HostSeq, a.name)
			return
		}
	}
}

// disrupted reports whether what runs on a host is being changed now, as far as it
// is one host of the fleet: of two agents nobody can say which one the server
// counts, and what fleet files name no more is in no budget, nor a retired host once
// its time is over.
func (a *agent) disrupted() bool {
	if a.copy != nil || a.setBack || a.out || a.lies() || !a.core.Machine.InFlight() && !a.repairing() || !a.w.declares(a.name) {
		return false
	}
	if a.w.ending {
		h := a.w.server.state.Hosts[a.name]
		return h == nil || h.Ended == nil || !h.Ended.Freed
	}
	return true
}
