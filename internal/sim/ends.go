package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/trust"
)

// Identities that end: by an operator's verb, by a release that says
// so, by a second agent on the same state, or by a machine that is set up anew.

// response is what people do about a host that is refused or shared, once they notice.
type response uint8

const (
	enrolAgain response = iota
	retire              // decommission it and switch it off
	leave               // it stays cut off
)

func (f response) String() string {
	return [...]string{"is enrolled again", "is retired", "is left alone"}[f]
}

// ends plans how identities end, from draws of its own: what else a schedule holds
// stays as it is.
func (p *planning) ends() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x454e4453))}
	if q.r.IntN(6) != 0 {
		return
	}
	w.ending = true
	for range 1 + q.r.IntN(3) {
		a, f, at := w.agents[q.r.IntN(len(w.agents))], response(q.r.IntN(3)), q.some(0.1)
		switch q.r.IntN(6) {
		case 0:
			q.add(at, func() { w.revoke(a, f) }, "%s is revoked and %s", a.name, f)
		case 1:
			q.add(at, func() { w.revokeSigned(a, f) }, "%s is revoked by a release and %s", a.name, f)
		case 2:
			f, removed := response(q.r.IntN(2)), q.r.IntN(2) == 0
			q.add(at, func() { w.decommission(a, f, removed) }, "%s is decommissioned and %s", a.name, f)
		case 3:
			q.add(at, func() { a.again() }, "%s is set up anew", a.name)
		default:
			f, old, alone := response(q.r.IntN(2)), q.between(0, 2*clock.Minute), q.r.IntN(4) == 0
			a.copied = true
			q.add(at, func() { w.duplicate(a, f, old, alone) }, "the state of %s of %s before runs a second time", a.name, old)
		}
	}
}

// identify refuses a certificate that is not in use any more, as the server does
// before it reads a request.
func (s *server) identify(a *agent) error {
	h := s.state.Hosts[a.name]
	if h == nil {
		return nil // the log has yet to hear of the host
	}
	_, err := s.core.View(a.name, nil).Admit(a.name, coreserver.Certificate{Serial: a.serial, Issued: a.issued})
	return err
}

// admits says whether a host may enrol with a token made now, as the registrar does.
func (s *server) admits(name string) bool {
	h := s.state.Hosts[name]
	return h == nil || h.RevokedBefore <= s.now() && h.RevokedBefore <= s.w.now
}

// enrolled is what the log says of a host's new identity.
func (a *agent) enrolled(s *server) event.HostEnrolled {
	ev := event.HostEnrolled{Incarnation: 1, Token: a.name, Serial: a.name}
	if h := s.state.Hosts[a.name]; h != nil && h.Incarnation > 0 {
		a.w.serials++
		ev.Incarnation, ev.Serial = h.Incarnation+1, a.name+"-"+strconv.Itoa(a.w.serials)
		ev.Token = ev.Serial
	}
	return ev
}

// escalate has people see to a host that the leader refuses, some time later.
func (w *World) escalate(a *agent) {
	if a.of != nil || a.escalated || a.out || a.left {
		return
	}
	a.escalated = true
	w.after(w.between(clock.Second, 10*clock.Minute), func() { w.respond(a) })
}

// respond does about a host what people decided, unless the server holds it for sound.
func (w *World) respond(a *agent) {
	s := w.server
	if s.away() {
		w.after(5*clock.Second, func() { w.respond(a) })
		return
	}
	a.escalated = false
	h := s.state.Hosts[a.name]
	if a.out || a.enrolling || s.identify(a) == nil && h.IdentityStatus() == "" && a.copy == nil {
		return
	}
	if h.IdentityStatus() == gate.Leaving && !h.Leaving.Done && s.identify(a) == nil { // its workloads have yet to go
		w.escalate(a)
		return
	}
	switch a.response {
	case leave:
		a.left = true
	case retire:
		s.try(plan.Decommission(s.state, a.name, "drill", "operator", s.now()))
		if s.away() || s.state.Hosts[a.name].IdentityStatus() != gate.Decommissioned {
			w.escalate(a)
			return
		}
		a.out = true
		a.halt()
		w.trace("%s is switched off", a.name)
	default:
		a.again()
	}
}

// revoke has an operator end a host's certificates.
func (w *World) revoke(a *agent, f response) {
	s := w.server
	if s.away() || a.inc == 0 || a.out || a.enrolling {
		return
	}
	a.response = f
	s.try(plan.Revoke(s.state, a.name, "drill", "operator", s.now()))
	if !s.away() && s.identify(a) == nil {
		w.violate("S43", "%s was revoked and its certificate is in use", a.name)
	}
}

// revokeSigned has the next release say that what a host has now has ended.
func (w *World) revokeSigned(a *agent, f response) {
	if a.inc == 0 || a.out || a.enrolling {
		return
	}
	a.response = f
	w.revoked = append(w.revoked, fleet.Revocation{Host: a.name, NotBefore: w.now - w.now%1000 + 1000, Reason: "drill"})
	w.push()
}

// withdrawn checks that a server which took a release refuses what that withdraws,
// whatever its log forgot.
func (s *server) withdrawn() {
	for _, r := range s.w.revoked {
		if a := s.w.hosts[r.Host]; a.issued < r.NotBefore && a.serial != "" && s.identify(a) == nil {
			s.w.violate("S43", "the newest release revokes %s and its certificate is in use", r.Host)
		}
	}
}

// decommission has an operator retire a host; fleet files may go without it then.
func (w *World) decommission(a *agent, f response, removed bool) {
	s := w.server
	if s.away() || a.inc == 0 || a.out || a.enrolling {
		return
	}
	a.response = f
	s.try(plan.Decommission(s.state, a.name, "drill", "operator", s.now()))
	if !s.away() && s.identify(a) == nil {
		w.violate("S43", "%s was decommissioned and its certificate is in use", a.name)
	}
	if removed && f == retire && w.fleet.canaryMax[w.fleet.channelOf[a.name]] == 0 {
		w.removed = append(w.removed, a.name)
	}
}

// declares reports whether fleet files name a host.
func (w *World) declares(name string) bool { return !slices.Contains(w.removed, name) }

// named leaves out of a list the hosts that fleet files do not name any more.
func (w *World) named(list []string) []string {
	if len(w.removed) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !w.declares(name) })
}

// halt ends an agent for good, or until it is set up anew.
func (a *agent) halt() {
	a.up, a.w.touched = false, true
	a.life++
}

// again sets a host up anew: its state is gone, and it enrols with a new token.
func (a *agent) again() {
	if a.inc == 0 || a.out || a.enrolling {
		return
	}
	a.w.trace("%s is set up anew", a.name)
	a.liar, a.overclaims = nil, a.overclaims && !a.lies()
	if a.copy != nil {
		a.copy.halt()
		a.copy = nil
	}
	a.halt()
	a.core, a.chain, a.events, a.acked = core.State{}, nil, nil, 0
	a.trusted, a.seen, a.listed = trust.State{}, edition{}, ""
	a.running, a.acting, a.staged, a.unproven, a.mark = "", "", 0, false, 0
	clear(a.drift)
	clear(a.restaged)
	a.witnessed = witnessed{}
	delete(a.w.checks.acked, a.key)
	a.response, a.left, a.enrolling, a.setBack, a.anchored = enrolAgain, false, true, false, 0
	a.enrol()
}

// absent reports whether nothing more is to come of a host: it is off, cut off for
// good, or shut out by a clock that was far ahead when it was revoked.
func (w *World) absent(a *agent) bool {
	return a.out || a.lies() || a.left && w.server.identify(a) != nil || a.enrolling && !w.server.admits(a.name)
}

// mute reports whether a host of a rollout was left cut off with a control that
// failed last: only people can say that it does not matter.
func (w *World) mute(r *rollout.Rollout) bool {
	for i := r.Outstanding.Next(0); w.ending && i >= 0; i = r.Outstanding.Next(i + 1) {
		if w.absent(w.hosts[r.Plan.Leaves[i].Host]) {
			return true
		}
	}
	return false
}

// good reports whether a host is one agent with an identity that counts.
func (w *World) good(a *agent) bool {
	h := w.server.state.Hosts[a.name]
	return a.copy == nil && !a.escalated && a.core.Parked == nil && h != nil && h.IdentityStatus() == "" && w.server.identify(a) == nil
}

// identityIn reads from the log alone why the present identity of a host counts
// for nothing.
func (l *store) identityIn(name string) (standing string) {
	issued, incarnation, leaves := clock.Instant(0), uint64(0), uint64(0)
	removed := (event.OverrideAccepted{}).EventType()
	for i := range l.entries {
		switch ev := l.events[i].(type) {
		case event.OverrideAccepted:
			if ev.Action == fleet.OverrideRemove && ev.Host == name && ev.Incarnation == incarnation && (standing == "" || standing == removed) {
				standing, leaves = removed, ev.Epoch
			}
		case event.RootTrusted:
			if standing == removed && leaves < ev.Epoch { // it never took it
				standing = ""
			}
		}
		if l.entries[i].Host() != name {
			continue
		}
		switch ev := l.events[i].(type) {
		case event.HostEnrolled:
			standing, issued, incarnation = "", l.entries[i].At, ev.Incarnation
		case event.WorkloadsRemoved:
			if standing == "" || standing == removed {
				standing = ev.EventType()
			}
		case event.HostDecommissioned, event.HostForked:
			standing = ev.EventType()
		case event.HostRevoked:
			if ev.NotBefore > issued && standing == "" {
				standing = ev.EventType()
			}
		}
	}
	return standing
}

// follows acts on what was just committed about identities: it cuts connections,
// has people look, and checks that nothing is given to what has ended.
func (s *server) follows(e *event.Entry) {
	w := s.w
	switch e.Type {
	case (event.HostRevoked{}).EventType(), (event.HostDecommissioned{}).EventType():
		for _, a := range []*agent{w.hosts[e.Host()], w.hosts[e.Host()].copy} {
			if a != nil && s.parked[a] != nil && s.identify(a) != nil {
				delete(s.parked, a)
				a.hungUp()
			}
		}
		w.escalate(w.hosts[e.Host()])
	case (event.HostForked{}).EventType():
		w.escalate(w.hosts[e.Host()])
	case (event.OverrideAccepted{}).EventType():
		for _, a := range w.agents {
			if h := s.state.Hosts[a.name]; h != nil && h.Leaving != nil {
				w.escalate(a)
			}
		}
	case (event.Granted{}).EventType(), (event.GrantClaimed{}).EventType():
		if was := w.log.identityIn(e.Host()); was != "" {
			w.violate("S43", "%s of %s after %s", e.Type, e.Host(), was)
		}
	}
}
