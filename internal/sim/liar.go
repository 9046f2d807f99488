package sim

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// Hosts that were taken over. Such a host has its keys, and from then on sends whatever
// it can sign; several share what they know. What they do to themselves is nobody's
// concern: the judges look at the others, which no liar may keep from anything that as
// many failed hosts would not keep them from.

// liar is what has a host.
type liar struct {
	a     *agent
	r     *rand.Rand
	style style
	known *secrets
}

// secrets is what liars tell each other.
type secrets struct {
	grants []string
}

// style is what a liar is after.
type style uint8

const (
	babbles  style = iota // any message, in any order
	declines              // every offer, for ever
	ignores               // every offer, and keeps up its heartbeats
	claims                // and reports nothing
	wavers                // its soak begins again and again
	stages                // waits for a reboot that it never takes
	hurries               // converges at once, by its own clock
	invents               // converges on grants that nobody gave
	fails                 // everything that it takes
	leads                 // says that it runs releases that nobody has
	stays                 // on what is rolled back
	vanishes              // and comes back, again and again
	mends                 // what never ends
	reboots               // again and again
	styles
)

var styleNames = [styles]string{"babbles", "declines all", "ignores all", "claims and is silent", "flaps for ever", "never reboots", "converges at once",
	"converges by grants of its own", "fails all", "says that it is ahead", "never goes back", "comes and goes", "repairs for ever", "reboots for ever"}

// liars has hosts of some schedules be taken over for good. The draw is its own, so that
// other schedules stay as they are.
func (p *planning) liars() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0x11a2))
	if drawn := r.IntN(12) == 0; w.cfg.Liars == Never || w.cfg.Liars == Some && !drawn {
		return
	}
	known, free := &secrets{}, slices.DeleteFunc(slices.Clone(w.agents), func(a *agent) bool { return a.copied || a.out })
	if len(free) < 2 {
		return
	}
	w.ending, w.lying = true, true
	for range 1 + r.IntN(min(3, len(free)-1)) {
		i := r.IntN(len(free))
		l := &liar{a: free[i], r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x11a2<<8+uint64(i))), style: style(r.IntN(int(styles))), known: known}
		free = slices.Delete(free, i, i+1)
		at := epoch.Add(clock.Minute + clock.Duration(r.Int64N(int64(w.cfg.Faulty)*2/3)))
		p.add(at, l.begin, "%s is compromised and %s", l.a.name, styleNames[l.style])
	}
}

// begin takes the host over, once it has an identity and nothing of it is under way.
func (l *liar) begin() {
	a := l.a
	if a.out || a.left || a.copy != nil {
		return
	}
	if a.inc == 0 || a.enrolling || !a.up {
		a.w.after(10*clock.Second, l.begin)
		return
	}
	a.life++ // what it planned is void
	a.asked++
	a.liar, a.overclaims, a.w.touched = l, true, true
	a.acting, a.leaving, a.partitioned = "", false, 0
	clear(a.drift)
	clear(a.restaged)
	delete(a.w.checks.acked, a.key)
	a.w.lied[a.name] = true
	a.w.trace("%s is compromised", a.name)
	l.turn()
}

// lies reports whether a host is taken over.
func (a *agent) lies() bool { return a.liar != nil }

// turn does one thing, and comes again.
func (l *liar) turn() {
	a, w := l.a, l.a.w
	if a.liar != l {
		return // it was set up anew
	}
	every := w.liesEvery()
	w.after(1+clock.Duration(l.r.Int64N(int64(every))), l.turn)
	s := w.choose()
	if l.style == vanishes && w.now/clock.Instant(5*clock.Minute)%2 == 0 {
		return
	}
	if s.away() || !s.seen(a) {
		return
	}
	h := s.state.Hosts[a.name]
	if h == nil || h.Incarnation != a.inc {
		return
	}
	if g, _ := s.session(a.name).Offer(s.view(a.name), s.now()); g != nil && !slices.Contains(l.known.grants, g.ID) {
		l.known.grants = append(l.known.grants, g.ID)
	}
	l.heartbeat(s, h)
	if !s.away() && s.state.Hosts[a.name].Incarnation == a.inc {
		l.act(s, s.state.Hosts[a.name])
	}
}

// liesEvery is the most between two turns: liars are slower while all else waits for them.
func (w *World) liesEvery() clock.Duration {
	if w.now < w.faultsEnd {
		return 20 * clock.Second
	}
	return clock.Minute
}

// one in n.
func (l *liar) one(n int) bool { return l.r.IntN(n) == 0 }

// number is any number, and often one that is close to n.
func (l *liar) number(n uint64) uint64 {
	switch l.r.IntN(6) {
	case 0:
		return l.r.Uint64()
	case 1:
		return math.MaxUint64
	case 2:
		return n + 1
	case 3:
		return 0
	}
	return n
}

// instant is its own clock mostly, or the end of all time.
func (l *liar) instant() clock.Instant {
	now := l.a.now()
	switch l.r.IntN(12) {
	case 0:
		return 0
	case 1:
		return 1 << 52
	case 2:
		return now + clock.Instant(l.r.Int64N(int64(400*clock.Day)))
	case 3:
		return max(0, now-clock.Instant(l.r.Int64N(int64(400*clock.Day))))
	}
	return now
}

// grant names any grant that it knows of.
func (l *liar) grant(h *plan.Host) string {
	run := ""
	if n := len(l.known.grants); n > 0 {
		run = plan.RunOf(l.known.grants[n-1])
	}
	switch l.r.IntN(6) {
	case 0:
		if n := len(l.known.grants); n > 0 {
			return l.known.grants[l.r.IntN(n)]
		}
	case 1:
		return "g999-" + run + "-0123456789ab-update"
	case 2:
		return []string{"", "g1", "../../root", "\x1b[2J"}[l.r.IntN(4)]
	}
	if h.Grant != nil {
		return h.Grant.ID
	}
	return h.Machine.Grant
}

// manifest is any that was released, or none.
func (l *liar) manifest(h *plan.Host) digest.Digest {
	w := l.a.w
	switch channel := w.fleet.channels[l.r.IntN(len(w.fleet.channels))]; {
	case l.one(8):
		return digest.Of([]byte("nothing"))
	case l.one(3) && len(w.listed[channel]) > 0:
		return w.listed[channel][l.r.IntN(len(w.listed[channel]))].Digest
	case h.Grant != nil:
		return h.Grant.Manifest
	}
	return h.Machine.Manifest
}

// heartbeat tells the truth mostly; one that says that it is parked ends all else.
func (l *liar) heartbeat(s *server, h *plan.Host) {
	m := coreserver.Heartbeat{Incarnation: l.a.inc, LastSeq: h.Seq}
	if l.one(4) {
		m.Incarnation, m.LastSeq, m.Pending, m.Repairing, m.Mark = l.number(m.Incarnation), l.number(h.Seq), l.number(0), l.grant(h), l.number(0)
	}
	if l.style == babbles && l.one(100) {
		m.Parked = "behind\x1b[31m"
	}
	s.heartbeat(l.a, m)
}

// act does what its style asks for.
func (l *liar) act(s *server, h *plan.Host) {
	if l.one(10) {
		l.babble(s, h)
		return
	}
	g := h.Grant
	switch l.style {
	case babbles, vanishes:
		l.babble(s, h)
	case declines:
		if l.one(4) { // and would have it forgotten
			in := l.claimed(h, l.grant(h), l.manifest(h))
			l.steps(s, h, step{in, host.Activating}, step{host.Activated{Observed: in.Target}, host.Soaking}, step{host.Elapsed{}, host.Converged})
		} else if g != nil {
			l.report(s, h, event.GrantDeclined{Grant: g.ID, Code: l.code(), Detail: "no"})
		}
	case ignores:
	case claims:
		l.claim(s, h)
	case wavers, stages, hurries, fails, stays:
		if g != nil && (g.Purpose == host.Update || l.style != stays) {
			l.claim(s, h)
		} else {
			l.goOn(s, h)
		}
	case invents:
		l.invent(s, h)
	case leads:
		l.lead(s, h)
	case mends:
		l.mend(s, h)
	case reboots:
		l.reboot(s, h)
	}
}

// mend needs a repair whenever it is at rest, claims it and never ends it; offers of all else
// it lets expire then.
func (l *liar) mend(s *server, h *plan.Host) {
	switch m, g := &h.Machine, h.Grant; {
	case g != nil && g.Purpose == host.Repair && !g.Claimed:
		_, _ = s.claim(l.a, g.ID, s.term)
	case !m.AtRest():
		l.claim(s, h)
		l.goOn(s, s.state.Hosts[l.a.name])
	case g == nil:
		l.report(s, h, event.RepairNeeded{RepairNeed: host.RepairNeed{Manifest: m.Manifest, Bundle: m.Current, Resources: []string{"exec/mine"}, Reason: "it says"}})
	case g.Claimed && l.one(40) && l.a.w.now < l.a.w.faultsEnd:
		l.report(s, h, event.RepairOver{Grant: g.ID, Detail: "it says"})
	}
}

// reboot stages what it booted, and takes another reboot for it.
func (l *liar) reboot(s *server, h *plan.Host) {
	m, g := &h.Machine, h.Grant
	switch {
	case g != nil && g.Claimed && g.Purpose == host.Reboot:
		l.steps(s, h, step{host.RebootClaimed{Grant: g.ID}, m.Phase})
	case g != nil:
		l.claim(s, h)
	case m.Phase == host.Activating:
		l.steps(s, h, step{host.ActivationDeferred{Component: "kernel"}, host.Deferred})
	case m.Phase == host.Deferred && m.Reboot != "":
		l.steps(s, h, step{host.Booted{BootID: m.BootID + "'", Current: m.Current}, host.Activating}, step{host.ActivationDeferred{Component: "kernel"}, host.Deferred})
	}
}

func (l *liar) code() string {
	return []string{host.DeclineBusy, host.DeclineAtTarget, host.DeclineOldTerm, host.DeclinePrepare, host.DeclineGivenBack, host.DeclineExpired, "because"}[l.r.IntN(7)]
}

// claim claims what it is offered, of any term, and begins.
func (l *liar) claim(s *server, h *plan.Host) {
	g := h.Grant
	if g == nil {
		return
	}
	if !g.Claimed {
		term := s.term
		if l.one(10) {
			term = l.number(term)
		}
		_, _ = s.claim(l.a, g.ID, term)
		return
	}
	if l.style == claims && !l.one(20) {
		return
	}
	switch g.Purpose {
	case host.Update:
		l.steps(s, h, step{l.claimed(h, g.ID, g.Manifest), host.Activating})
	case host.Rollback:
		l.steps(s, h, step{host.RevertClaimed{Grant: g.ID, Reason: "ordered"}, host.Failed})
	case host.Reboot:
		l.steps(s, h, step{host.RebootClaimed{Grant: g.ID}, h.Machine.Phase})
	case host.Repair:
		l.report(s, h, event.RepairOver{Grant: g.ID, OK: l.one(2), Detail: "done"})
	}
}

// claimed is that a host begins with what a manifest gives it.
func (l *liar) claimed(h *plan.Host, grant string, manifest digest.Digest) host.Claimed {
	in := host.Claimed{Grant: grant, Manifest: manifest, From: h.Machine.Current, BootID: "boot", Target: digest.Of([]byte("mine"))}
	if m := l.a.w.docs[manifest]; m != nil {
		in.Rollout, in.Release = m.Header.Rollout(), m.Header.Release()
		if i, ok := m.Leaf(l.a.name); ok {
			in.Target, in.Wave = m.Leaves[i].Target, m.Leaves[i].Wave
		}
	}
	return in
}

// goOn has what it claimed go the way that it wants.
func (l *liar) goOn(s *server, h *plan.Host) {
	m := &h.Machine
	soaked := host.ProbeObserved{Name: "health", Pass: true}
	switch {
	case m.Phase == host.Activating && l.style == stages:
		l.steps(s, h, step{host.ActivationDeferred{Component: "kernel"}, host.Deferred})
	case m.Phase == host.Activating && l.style == fails:
		l.steps(s, h, step{host.ActivationFailed{Code: "exit-1", Detail: "no"}, host.Failed})
	case m.Phase == host.Activating && l.style == wavers:
		l.steps(s, h, step{host.Activated{Observed: m.Target}, host.Soaking})
	case m.Phase == host.Activating:
		l.steps(s, h, step{host.Activated{Observed: m.Target}, host.Soaking}, step{soaked, host.Soaking}, step{host.Contact{}, host.Soaking}, step{host.Elapsed{}, host.Converged})
	case m.Phase == host.Soaking && l.style == wavers && l.one(3):
		l.steps(s, h, step{host.Booted{BootID: "boot", Current: m.Current}, host.Soaking})
	case m.Phase == host.Soaking && l.style == wavers:
		soaked.Pass = l.one(2)
		l.steps(s, h, step{soaked, host.Soaking})
	case m.Phase == host.Failed && m.Reverting && l.style == fails && l.one(4):
		l.steps(s, h, step{host.RevertFailed{Code: "no"}, host.Failed})
	}
}

// invent goes all the way on a grant of its own making.
func (l *liar) invent(s *server, h *plan.Host) {
	manifest := l.manifest(h)
	m := l.a.w.docs[manifest]
	if m == nil || !l.one(4) {
		return
	}
	in := l.claimed(h, l.grant(h), manifest)
	if l.one(3) { // as one that comes with a past
		l.steps(s, h, step{host.Booted{BootID: "boot", Current: in.Target}, host.Converged})
		return
	}
	l.steps(s, h, step{in, host.Activating}, step{host.Activated{Observed: in.Target}, host.Soaking},
		step{host.ProbeObserved{Name: "health", Pass: true}, host.Soaking}, step{host.Contact{}, host.Soaking}, step{host.Elapsed{}, host.Converged})
}

// lead says that it runs a release of the far future.
func (l *liar) lead(s *server, h *plan.Host) {
	if !l.one(4) {
		return
	}
	in := l.claimed(h, l.grant(h), digest.Of([]byte("of tomorrow")))
	in.Rollout, in.Release = l.a.w.fleet.channelOf[l.a.name]+"@tomorrow", fleet.ReleaseVersion{Epoch: l.number(1), Version: l.number(1 << 60)}
	l.steps(s, h, step{in, host.Activating}, step{host.Activated{Observed: in.Target}, host.Soaking}, step{host.Elapsed{}, host.Converged})
}

// step is an input of the machine and where it says that this took it.
type step struct {
	in host.Input
	to host.Phase
}

// steps reports steps that follow each other.
func (l *liar) steps(s *server, h *plan.Host, all ...step) {
	m := h.Machine
	var events []event.Event
	for _, st := range all {
		if in, is := st.in.(host.Claimed); is {
			m.Rollout, m.Manifest = in.Rollout, in.Manifest
		}
		events = append(events, l.stepped(&m, st))
		m.Phase = st.to
	}
	l.report(s, h, events...)
}

func (l *liar) stepped(m *host.State, st step) event.HostStepped {
	data, err := host.EncodeInput(st.in)
	if err != nil {
		l.a.w.violate("core", "%v", err)
	}
	ev := event.HostStepped{Rollout: m.Rollout, Manifest: m.Manifest, Input: st.in.Kind(), Data: data, From: m.Phase, To: st.to}
	if st.to == host.Failed {
		ev.Cause, ev.Detail = host.ActivationFailedCause, "it says"
	}
	return ev
}
