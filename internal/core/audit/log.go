package audit

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Log checks a log as it grows. It keeps what it needs of the events itself and
// reads nothing of the planner's state.
type Log struct {
	finding
	docs     plan.Documents
	seq      uint64
	at       clock.Instant // of the event that is looked at
	server   clock.Instant // of the newest event of the server
	setBack  int           // how often the server's clock was
	hosts    map[string]*hostFacts
	rollouts []*rolloutFacts // in the order in which they opened
	channels map[string]*channelFacts
	edges    []fleet.ChannelEdge
	grants   map[string]*grantFacts
	barred   map[digest.Digest]bool // manifests that fail a required control
	epoch    uint64                 // of keys
	words    []event.OverrideAccepted
}

// hostFacts is what the log says of one host.
type hostFacts struct {
	name                string
	incarnation, seq    uint64
	gap                 bool // in its chain
	online, silent      bool
	overdue             bool // silent in its reports alone
	phase               host.Phase
	reverting           bool
	reverts             int // failed attempts to go back
	manifest            digest.Digest
	plan                *fleet.HostPlan // the last one read; nil at first
	from, target        digest.Digest
	issued              clock.Instant // when its newest certificate was recorded
	ended               bool          // its identity counts for nothing
	shut                bool          // since its certificates ended: it is not heard any more
	slotUntil           clock.Instant // of one that is retired
	freed               bool          // gave its slot back for good
	unseen              bool          // came with a past: nobody knows from where it came
	current             digest.Digest
	grant               string // that the machine acts on
	open                *grantFacts
	need                *host.RepairNeed // that it waits for, or repairs
	reboot              string           // the claimed grant to reboot that the machine acts on
	boot                string           // it acts in
	outcome             host.Phase       // of the grant that it acts on: Converged or Reverted, once
	rebooted            bool             // in the present attempt to go back
	completed, soakFrom clock.Instant
	probes              map[string]look // of those seen since activation
	frozen              clock.Instant   // until when; zero is not
	unfit               bool            // its bundle does not run as it should
}

// look is the last look of a probe: which controls did not pass, if it read evidence.
type look struct {
	passing bool
	failing []string
}

// absent says whether nobody waits for the host: it never enrolled, or was retired.
func (h *hostFacts) absent() bool { return h.incarnation == 0 || h.slotUntil != 0 }

// reachable says whether the host is there with an identity that counts.
func (h *hostFacts) reachable() bool { return h.online && !h.ended && !h.overdue }

// inFlight says whether the host counts against its budgets.
func (h *hostFacts) inFlight() bool { return !h.freed && (h.open != nil || h.rolling()) }

// permit is the host's open grant of a rollout: one that lets it repair, or that
// it may still lose to a rollout, is none.
func (h *hostFacts) permit() *grantFacts {
	if h.open != nil && (h.open.Purpose == host.Repair || h.open.Purpose == host.Reboot && !h.open.claimed) {
		return nil
	}
	return h.open
}

// rolling is inFlight by a rollout.
func (h *hostFacts) rolling() bool {
	return h.permit() != nil || h.silent || h.phase == host.Activating || h.phase == host.Soaking ||
		h.phase == host.Deferred || h.phase == host.Failed
}

// moving says whether the host is on its way, forward or back.
func (h *hostFacts) moving() bool {
	return h.phase == host.Activating || h.phase == host.Soaking || h.phase == host.Deferred ||
		h.phase == host.Failed && h.reverting
}

// grantFacts is one grant.
type grantFacts struct {
	event.Granted
	host      string
	manifest  digest.Digest
	at        clock.Instant
	claimed   bool
	claimedAt clock.Instant
	setBack   int        // of the log, then
	declined  bool       // by its host, which then never acts on it
	outcome   host.Phase // Converged or Reverted, once
}

// rolloutFacts is one rollout.
type rolloutFacts struct {
	name, channel string
	manifest      *rollout.Manifest
	phase         rollout.Phase
	cursor        int
	paused, final bool
	reverting     bool
	ordered       bool // by a signed override
	resumed       bool // since it failed
	granted       map[string]bool
	claimed       map[string]bool
	failed        map[string]bool
	acknowledged  map[string]bool
	held          string          // the code of the last reason logged for not promoting
	soaked        bool            // somebody converged in it
	glass         bool            // every wave was opened at once
	forced        bool            // its last wave, by an operator
	excused       map[excuse]bool // evidence that an operator accepted
}

// channelFacts is one channel.
type channelFacts struct {
	manifests         []fleet.ManifestRef
	onNewRef          fleet.OnNewRef
	latest, converged *rolloutFacts
	quarantine        map[digest.Digest]bool
	deferral          string // the last one logged for the ref that is to open
}

// NewLog returns a checker that has seen nothing yet.
func NewLog(docs plan.Documents) *Log {
	return &Log{docs: docs, hosts: map[string]*hostFacts{}, channels: map[string]*channelFacts{}, grants: map[string]*grantFacts{}, barred: map[digest.Digest]bool{}}
}

// Observe takes the next committed entry and returns what it violates.
func (l *Log) Observe(seq uint64, e event.Entry) []Violation {
	ev, err := event.Decode(e)
	if err != nil {
		l.seq = seq
		return []Violation{{Invariant: "S25", Words: fmt.Sprintf("event %d: %v", seq, err)}}
	}
	return l.ObserveEvent(seq, e, ev)
}

// ObserveEvent is Observe of an entry that ev was decoded from.
func (l *Log) ObserveEvent(seq uint64, e event.Entry, ev event.Event) []Violation {
	l.out = nil
	if seq != l.seq+1 {
		l.addf("S25", "event %d follows event %d", seq, l.seq)
	}
	l.seq, l.at = seq, e.At
	if e.HostSeq == 0 {
		if e.At < l.server {
			l.setBack++
		}
		l.server = e.At
	}
	if e.HostSeq != 0 || event.FromHost(e.Type) {
		l.chain(e)
	}
	if !l.overrideEvent(ev) && !l.fleetEvent(e, ev) && !l.rolloutEvent(ev) && !l.operatorEvent(e, ev) && !l.grantEvent(e, ev) && !l.hostEvent(e, ev) {
		l.addf("S25", "event %d of type %s is not checked", seq, e.Type)
	}
	for i := range l.out {
		l.out[i].Words = fmt.Sprintf("event %d (%s): %s", seq, e.Type, l.out[i].Words)
	}
	return l.out
}

func (l *Log) chain(e event.Entry) {
	h := l.host(e.Host)
	if !event.FromHost(e.Type) {
		l.addf("S3", "the chain of host %s holds an event that hosts do not report", e.Host)
	}
	if e.Incarnation != h.incarnation || e.HostSeq != h.seq+1 {
		l.addf("S33", "event %d/%d of host %s follows %d/%d", e.Incarnation, e.HostSeq, e.Host, h.incarnation, h.seq)
		h.gap = true
	}
	if h.shut {
		l.addf("S43", "event %d of host %s was taken after its certificates ended", e.HostSeq, e.Host)
	}
	h.seq = e.HostSeq
}

// consistent adds, unless ok, what the events of a host prove by themselves: no record
// of the server may be part of the proof. Of a chain with a gap nothing is proven.
func (l *Log) consistent(ok bool, h *hostFacts, invariant, format string, a ...any) {
	if ok {
		return
	}
	if l.addf(invariant, format, a...); !h.gap {
		l.out[len(l.out)-1].Host = h.name
	}
}

func (l *Log) host(name string) *hostFacts {
	h := l.hosts[name]
	if h == nil {
		h = &hostFacts{name: name}
		l.hosts[name] = h
	}
	return h
}

func (l *Log) channel(name string) *channelFacts {
	c := l.channels[name]
	if c == nil {
		c = &channelFacts{quarantine: map[digest.Digest]bool{}}
		l.channels[name] = c
	}
	return c
}

// find returns the rollout that an event names.
func (l *Log) find(name string, d digest.Digest) *rolloutFacts {
	for i := len(l.rollouts) - 1; i >= 0; i-- {
		if r := l.rollouts[i]; r.name == name && (d == "" || r.manifest.Digest == d) {
			return r
		}
	}
	l.addf("S25", "rollout %s never opened", name)
	return nil
}

// of returns the newest rollout of a manifest and its place in the order of
// opening.
func (l *Log) of(d digest.Digest) (*rolloutFacts, int) {
	for i := len(l.rollouts) - 1; i >= 0; i-- {
		if l.rollouts[i].manifest.Digest == d {
			return l.rollouts[i], i
		}
	}
	return nil, -1
}

// fleetEvent takes what concerns the fleet as a whole.
func (l *Log) fleetEvent(e event.Entry, ev event.Event) bool {
	switch ev := ev.(type) {
	case event.ReleaseAccepted:
		l.edges = ev.ChannelEdge
		for _, cr := range ev.Channels {
			c := l.channel(cr.Channel)
			c.manifests, c.onNewRef = cr.Manifests, cr.OnNewRef
			if c.latest != nil && len(cr.Manifests) > 0 && cr.Manifests[0].Digest == c.latest.manifest.Digest {
				c.deferral = ""
			}
		}
	case event.ComplianceEvaluated:
		l.verdict(ev)
	case event.QuarantineAdded:
		l.must(ev.Reason != "", "S28", "a quarantine without a reason")
		l.channel(ev.Channel).quarantine[ev.Digest] = true
	case event.QuarantineCleared:
		l.must(ev.Actor != "", "S17", "a quarantine cleared by nobody")
		l.must(l.held(ev.Channel, "", ev.Digest, "") == nil, "S17", "a signed quarantine of %s on %s cleared without a signature", ev.Digest.Short(), ev.Channel)
		delete(l.channel(ev.Channel).quarantine, ev.Digest)
	case event.HostEnrolled:
		h := l.host(e.Host)
		l.must(ev.Incarnation > h.incarnation, "S5", "host %s enrolled as incarnation %d after %d", e.Host, ev.Incarnation, h.incarnation)
		*h = hostFacts{name: e.Host, incarnation: ev.Incarnation, issued: e.At, frozen: h.frozen}
		for _, r := range l.rollouts { // a new disk took no grant
			delete(r.claimed, h.name)
		}
	case event.RootTrusted:
		l.epochBegins(ev.Epoch)
	case event.CertificateRenewed:
		l.host(e.Host).issued = e.At
	case event.HostRevoked:
		h := l.host(e.Host)
		l.must(ev.Reason != "" && ev.Actor != "", "S28", "host %s was revoked by nobody, or without a reason", h.name)
		if h.incarnation != 0 && ev.NotBefore > h.issued {
			h.ended, h.shut = true, true
		}
	case event.HostDecommissioned:
		h := l.host(e.Host)
		l.must(ev.Reason != "" && ev.Actor != "", "S28", "host %s was decommissioned by nobody, or without a reason", h.name)
		h.ended, h.shut, h.slotUntil = true, true, ev.SlotUntil
	case event.HostForked:
		l.host(e.Host).ended = true
	case event.HostDegraded:
		l.must(len(ev.Resources)+len(ev.Probes) > 0, "S28", "host %s is degraded for nothing", e.Host)
		l.host(e.Host).unfit = ev.Bundle
	case event.HostRecovered:
		l.host(e.Host).unfit = false
	case event.TimestampAccepted, event.VerifyFailed, event.SourceFailed, event.SourceRecovered, event.ExpiryWarned, event.ExpiryCleared, event.EnrolRefused,
		event.HostHead, event.TrustRefused, event.BundleQuarantined, event.FileKept,
		event.ResourceReported, event.OperatorTokenAdded, event.OperatorTokenUsed, event.OperatorTokenRevoked, event.MirrorDiverged:
		// Nothing that the planner decides reads these.
	case event.ManagedSet, event.ManagedRemoved, event.ManagedAsked, event.HostTuned, event.HostRetried, event.StreamOpened:
		l.managed(e, ev)
	default:
		return false
	}
	return true
}

// managed checks what the server did without a signature: somebody answers for it.
func (l *Log) managed(e event.Entry, ev event.Event) {
	actor := ""
	switch ev := ev.(type) {
	case event.ManagedSet:
		actor = ev.Actor
	case event.ManagedRemoved:
		actor = ev.Actor
	case event.ManagedAsked:
		actor = ev.Actor
	case event.HostTuned:
		actor = ev.Actor
	case event.HostRetried:
		actor = ev.Actor
	case event.StreamOpened:
		actor = ev.Actor
	}
	l.must(actor != "" && e.Host != "", "S17", "%s of host %q by nobody", e.Type, e.Host)
}
