package model

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// facts are what a log says, with nothing worked out from it.
type facts struct {
	docs     Documents
	fresh    clock.Instant // of the newest freshness statement
	taken    clock.Instant // when it was taken
	seen     clock.Instant // the latest that the server wrote since
	edges    []fleet.ChannelEdge
	channels map[string]*channelFacts
	hosts    map[string]*hostFacts
	rollouts []*rolloutFacts          // in the order of opening
	asked    int                      // repairs
	words    []event.OverrideAccepted // in force, in the order of their coming
	barred   map[digest.Digest]bool   // manifests that fail a required control
	keys     uint64                   // the epoch of the newest root
	epochOf  uint64                   // that of the newest release
}

type channelFacts struct {
	name              string
	window            clock.Duration
	onNewRef          fleet.OnNewRef
	listed            []fleet.ManifestRef
	active            *rolloutFacts // not ended, or halted and neither cancelled nor replaced
	latest, converged *rolloutFacts
	queued            digest.Digest
	deferral          string
	quarantine        map[digest.Digest]bool
}

type grantFacts struct {
	id       string
	manifest digest.Digest
	purpose  host.Purpose
	target   digest.Digest
	expires  clock.Instant
	claimed  bool
}

type hostFacts struct {
	name       string
	online     bool
	silentAt   clock.Instant // while it acts and is not heard
	failed     bool          // for its silence, until it reports
	overdue    bool          // it was there meanwhile: until it reports progress
	claimed    claimFacts    // the newest of a rollout's target
	began      clock.Instant // its newest claim or progress
	heardAgain clock.Instant // after a silence
	moved      bool          // progress whose instant the next head says
	machine    host.State
	grant      *grantFacts
	frozen     clock.Instant
	notBefore  clock.Instant
	need       *host.RepairNeed
	place      int // in the line of repairs
	needBefore clock.Instant
	enrolled   bool
	issued     clock.Instant // its newest certificate
	standing   standing
	slotUntil  clock.Instant // of one that is retired
	freed      bool
	unfit      bool // does not run its bundle as it should
}

// claimFacts are when a host claimed a manifest's target, on the server's clock.
type claimFacts struct {
	manifest digest.Digest
	at       clock.Instant
}

type mark struct{ failed, proven, refused, claimed bool }

type rolloutFacts struct {
	name, channel                     string
	manifest                          *rollout.Manifest
	phase                             rollout.Phase
	endedAt                           clock.Instant
	cursor                            int
	forced                            map[int]bool    // waves that an operator let pass: who waits in them is late
	accepted                          map[string]bool // failing evidence that was accepted with them, by host and control
	paused, reverting, ordered, final bool
	granted                           bool          // to anybody
	soaked                            clock.Instant // when somebody converged in it by either clock
	held                              string
	marks                             map[string]*mark
	excused                           []int // failures that an operator took note of, by wave
	gone                              bool  // pruned
}

func read(docs Documents, log []Entry) (*facts, error) {
	f := &facts{docs: docs, channels: map[string]*channelFacts{}, hosts: map[string]*hostFacts{}, barred: map[digest.Digest]bool{}}
	for i := range log {
		if err := f.take(&log[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return f, nil
}

func (f *facts) host(name string) *hostFacts {
	h := f.hosts[name]
	if h == nil {
		h = &hostFacts{name: name}
		f.hosts[name] = h
	}
	return h
}

// find returns the newest rollout of a manifest, or nil.
func (f *facts) find(d digest.Digest) *rolloutFacts {
	for _, r := range slices.Backward(f.rollouts) {
		if r.manifest.Digest == d && !r.gone {
			return r
		}
	}
	return nil
}

func (f *facts) planOf(name string, d digest.Digest) *fleet.HostPlan {
	if m, err := f.docs.Manifest(d); err == nil {
		return m.HostPlan(name)
	}
	return nil
}

// outdated reports whether a rollout was signed in a key epoch that has ended: hosts
// take nothing of it any more.
func (f *facts) outdated(r *rolloutFacts) bool { return r.manifest.Header.Epoch < f.keys }

func (r *rolloutFacts) mark(name string) *mark {
	if r.marks[name] == nil {
		r.marks[name] = &mark{}
	}
	return r.marks[name]
}

// take reads one event.
func (f *facts) take(e *Entry) error {
	if !event.FromHost(e.Event.EventType()) {
		f.seen = max(f.seen, e.At)
	}
	switch ev := e.Event.(type) {
	case event.ReleaseAccepted:
		f.released(ev)
	case event.TimestampAccepted:
		f.fresh, f.taken, f.seen = ev.IssuedAt, e.At, e.At
	case event.HostEnrolled:
		f.hosts[e.Host] = &hostFacts{name: e.Host, frozen: f.host(e.Host).frozen, enrolled: true, issued: e.At}
	case event.CertificateRenewed, event.HostRevoked, event.HostDecommissioned, event.HostForked, event.HostSlotFreed:
		f.host(e.Host).identity(e.At, e.Event)
	case event.HostSilent:
		h := f.host(e.Host)
		h.online = false
		if h.acts() {
			h.silentAt = e.At
		}
	case event.HostReturned:
		h := f.host(e.Host)
		h.online, h.silentAt, h.heardAgain = true, 0, e.At
	case event.HostFailedSilently:
		f.failedSilently(f.host(e.Host))
		f.host(e.Host).overdue = ev.Overdue
	case event.HostHead:
		if h := f.host(e.Host); h.moved {
			h.began, h.moved = e.At, false
		}
	case event.HostStepped:
		f.stepped(f.host(e.Host), e, ev)
	case event.HostDegraded:
		f.host(e.Host).unfit = ev.Bundle
	case event.HostRecovered:
		f.host(e.Host).unfit = false
	case event.HostFrozen:
		f.host(e.Host).frozen = ev.Until
	case event.HostUnfrozen:
		f.host(e.Host).frozen = 0
	case event.RepairNeeded, event.RepairOver, event.GrantDeclined, event.Granted, event.GrantClaimed, event.GrantEnded:
		f.granted(f.host(e.Host), e.At, e.Event)
	case event.QuarantineAdded:
		f.channels[ev.Channel].quarantine[ev.Digest] = true
	case event.QuarantineCleared:
		c := f.channels[ev.Channel]
		delete(c.quarantine, ev.Digest)
		for _, r := range []*rolloutFacts{c.latest, c.converged} {
			if r != nil && r.phase == rollout.Terminal {
				r.excuse()
			}
		}
	case event.OverrideAccepted:
		f.signed(ev)
	case event.RootTrusted:
		f.keys = ev.Epoch
		f.epoch(ev.Epoch)
	case event.ComplianceEvaluated:
		f.barred[ev.Manifest] = slices.ContainsFunc(ev.Failures, func(x fleet.ControlFailure) bool { return x.Mode == fleet.Enforce })
	case event.MirrorDiverged, event.TrustRefused, event.BundleQuarantined, event.FileKept,
		event.ResourceReported, event.EnrolRefused, event.VerifyFailed, event.SourceFailed, event.SourceRecovered, event.ExpiryWarned, event.ExpiryCleared,
		event.OperatorTokenAdded, event.OperatorTokenUsed, event.OperatorTokenRevoked, event.StreamOpened, event.ManagedSet, event.ManagedRemoved, event.ManagedAsked, event.HostTuned, event.HostRetried:
		// Nothing that is decided reads these.
	default:
		return f.moved(e)
	}
	return nil
}

func (f *facts) released(ev event.ReleaseAccepted) {
	f.edges, f.epochOf = ev.ChannelEdge, ev.Epoch
	for _, cr := range ev.Channels {
		c := f.channels[cr.Channel]
		if c == nil {
			c = &channelFacts{name: cr.Channel, quarantine: map[digest.Digest]bool{}}
			f.channels[cr.Channel] = c
		}
		c.window, c.onNewRef, c.listed = cr.FreshnessWindow, cr.OnNewRef, cr.Manifests
		if c.next() == nil {
			c.queued, c.deferral = "", ""
		}
	}
}

// next is what the channel is to open, or nil.
func (c *channelFacts) next() *fleet.ManifestRef {
	if len(c.listed) == 0 || c.latest != nil && c.latest.manifest.Digest == c.listed[0].Digest {
		return nil
	}
	return &c.listed[0]
}

// moved reads what moves a rollout.
func (f *facts) moved(e *Entry) error {
	switch ev := e.Event.(type) {
	case event.RolloutQueued:
		f.channels[ev.Channel].queued = ev.Manifest
	case event.RolloutDeferred:
		f.channels[ev.Channel].deferral = ev.TargetRef + " " + ev.BlockedBy + " " + ev.Reason
	case event.RolloutOpened:
		m, err := f.docs.Manifest(ev.Manifest)
		if err != nil {
			return err
		}
		r := &rolloutFacts{name: ev.Rollout, channel: ev.Channel, manifest: m, phase: rollout.Opening, marks: map[string]*mark{},
			excused: make([]int, len(m.Header.Waves)), paused: f.says(fleet.OverridePause, "", ev.Manifest, "", "")}
		f.rollouts = append(f.rollouts, r)
		c := f.channels[ev.Channel]
		c.active, c.latest, c.queued, c.deferral = r, r, "", ""
	case event.RolloutMoved:
		f.phase(f.find(ev.Manifest), ev, e.At)
	case event.RolloutReverting:
		r := f.find(ev.Manifest)
		r.reverting, r.ordered = true, r.ordered || ev.Override != ""
	case event.RolloutPaused:
		f.find(ev.Manifest).paused = true
	case event.RolloutResumed:
		r := f.find(ev.Manifest)
		r.paused = false
		if r.phase == rollout.Failed {
			r.excuse()
		}
	case event.RolloutCancelled:
		r := f.find(ev.Manifest)
		r.final = true
		if c := f.channels[r.channel]; c.active == r {
			c.active = nil
		}
	case event.WavePromoted:
		r := f.find(ev.Manifest)
		r.cursor, r.held = ev.Wave+1, ""
	case event.GlassBroken:
		r := f.find(ev.Manifest)
		r.cursor, r.held, r.soaked = max(r.cursor, ev.Wave), "", 1 // as far as canaries are concerned
	case event.WaveForced:
		r := f.find(ev.Manifest)
		if r.forced == nil {
			r.forced, r.accepted = map[int]bool{}, map[string]bool{}
		}
		r.forced[ev.Wave] = true
		for _, failing := range ev.Failing {
			for _, control := range failing.Controls {
				r.accepted[failing.Host+"/"+control] = true
			}
		}
		r.cursor, r.held = min(ev.Wave+1, len(r.manifest.Header.Waves)-1), ""
	case event.WaveHeld:
		f.find(ev.Manifest).held = ev.Code
	case event.RolloutPruned:
		f.find(ev.Manifest).gone = true
	default:
		return &UnmodelledError{ev.EventType()}
	}
	return nil
}

func (f *facts) phase(r *rolloutFacts, ev event.RolloutMoved, at clock.Instant) {
	c := f.channels[r.channel]
	r.phase, r.endedAt = rollout.Phase(ev.To), at
	r.final = r.final || ev.Final
	switch {
	case r.phase == rollout.Active:
		c.active = r
	case r.phase == rollout.Terminal:
		c.converged, c.active = r, nil
	case r.phase == rollout.Failed && !r.final || r.phase == rollout.Converging:
	case c.active == r:
		c.active = nil
	}
}

// excuse has the failures so far count no more.
func (r *rolloutFacts) excuse() {
	for w := range r.excused {
		r.excused[w] = r.failures(w)
	}
}

// failures counts the members of a wave that failed or refused, whatever became
// of them.
func (r *rolloutFacts) failures(wave int) int {
	n := 0
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if m := r.marks[leaf.Host]; leaf.Wave == wave && m != nil && (m.failed || m.refused) {
			n++
		}
	}
	return n
}

// proven counts those whose own signed word says so.
func (r *rolloutFacts) proven(wave int) int {
	n := 0
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if m := r.marks[leaf.Host]; leaf.Wave == wave && m != nil && m.proven {
			n++
		}
	}
	return n
}
