// Package plan is the server's state, as a fold over the log, and its
// decisions, as functions of that state and an instant. Decide functions and
// Next fold what they decide into the state and return it as entries for the
// log; a caller that cannot commit the entries must throw the state away and
// fold the log again.
//
// Its parts: the fold (fold.go, and what each host and rollout derives from it in
// state.go and budget.go); the agenda of what has to be looked at (agenda.go); the
// planner (next.go, open.go, grant.go, revert.go, repair.go, reboot.go); what hosts
// (ingest.go) and operators (promote.go, override.go, blocks.go,
// identity.go) ask for; and the Explainer, which says why (why.go, explain.go,
// earliest.go). All ask the gates by way of facts.go. What holds something back is
// decided in package gate, what people are warned of in package warning.
package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// Documents gives the content that events name by digest. The same digest
// always gives the same content, so a fold that reads it stays a function.
type Documents interface {
	// Manifest returns a manifest with all of its leaves and budget members.
	Manifest(digest.Digest) (*rollout.Manifest, error)
}

// Release is the newest accepted release.
type Release struct {
	Version   uint64                   `json:"version"`
	Epoch     uint64                   `json:"epoch"`
	Ref       string                   `json:"ref"`
	Resolved  digest.Digest            `json:"resolved"`
	Roster    digest.Digest            `json:"roster"`
	Envelopes map[string]digest.Digest `json:"envelopes"`
	At        clock.Instant            `json:"at"`
}

// Channel is one release train.
type Channel struct {
	Name              string              `json:"name"`
	FreshnessWindow   clock.Duration      `json:"freshnessWindow"`
	ReconcileInterval clock.Duration      `json:"reconcileInterval"`
	OnNewRef          fleet.OnNewRef      `json:"onNewRef"`
	Manifests         []fleet.ManifestRef `json:"manifests"`
	// Active is the rollout that is not ended, or the last one that failed and
	// may be resumed; empty when there is none.
	Active digest.Digest `json:"active,omitempty"`
	// Latest is the last manifest opened; the head of Manifests is pending while
	// it differs from it.
	Latest digest.Digest `json:"latest,omitempty"`
	// Converged is the last manifest that ended Terminal: what returning hosts
	// are given.
	Converged digest.Digest `json:"converged,omitempty"`
	// PendingSince is when a release first listed what the channel should open next.
	PendingSince clock.Instant `json:"pendingSince,omitempty"`
	// Queued is the manifest logged as waiting for the active rollout.
	Queued digest.Digest `json:"queued,omitempty"`
	// Deferral is the last reason logged for not opening.
	Deferral string `json:"deferral,omitempty"`
	// Quarantine maps a bundle to why it failed on this channel.
	Quarantine map[digest.Digest]string `json:"quarantine,omitempty"`
}

// Grant is a grant that is not finished.
type Grant struct {
	ID       string        `json:"id"`
	Manifest digest.Digest `json:"manifest"`
	Rollout  string        `json:"rollout"`
	Purpose  host.Purpose  `json:"purpose"`
	Target   digest.Digest `json:"target"`
	Reason   string        `json:"reason"`
	// At is when it was given; zero in snapshots of before that was kept.
	At      clock.Instant `json:"at,omitempty"`
	Expires clock.Instant `json:"expires"`
	Claimed bool          `json:"claimed,omitempty"`
}

// Host is what the server knows of one host.
type Host struct {
	Name        string        `json:"name"`
	Incarnation uint64        `json:"incarnation,omitempty"` // zero before enrolment
	EventKey    []byte        `json:"eventKey,omitempty"`
	TokenDoc    digest.Digest `json:"tokenDoc,omitempty"`
	// Serial is of the newest certificate, PrevSerial of the one that it was
	// renewed with. Only these two are good.
	Serial     string        `json:"serial,omitempty"`
	PrevSerial string        `json:"prevSerial,omitempty"`
	NotAfter   clock.Instant `json:"notAfter,omitempty"`
	// IssuedAt is when the newest certificate was recorded, or issued if the log lacked it.
	IssuedAt clock.Instant `json:"issuedAt,omitempty"`
	// RevokedBefore ends certificates issued earlier.
	RevokedBefore clock.Instant `json:"revokedBefore,omitempty"`
	// Seq and ChainHash are the end of the host's event chain.
	Seq       uint64 `json:"seq,omitempty"`
	ChainHash []byte `json:"chainHash,omitempty"`
	Online    bool   `json:"online,omitempty"`
	// Replayed is the part of the chain that is in no record of the server.
	Replayed Replayed `json:"replayed,omitzero"`
	// Clock ties the host's own instants to the server's.
	Clock HostClock `json:"clock,omitzero"`
	// LastSeen is when a host that is away was last heard.
	LastSeen clock.Instant `json:"lastSeen,omitempty"`
	// SilentSince is set while an in-flight host is not heard from.
	SilentSince clock.Instant `json:"silentSince,omitempty"`
	// SilentFailure says that it was failed for it, until it reports; Overdue that it
	// was there meanwhile, until it reports progress.
	SilentFailure bool `json:"silentFailure,omitempty"`
	Overdue       bool `json:"overdue,omitempty"`
	// Work is when the host began what it does of a rollout.
	Work    Work       `json:"work,omitzero"`
	Machine host.State `json:"machine"`
	Grant   *Grant     `json:"grant,omitempty"`
	// Freeze keeps the host from every grant but one to go back, whoever enrols as it.
	Freeze *event.HostFrozen `json:"freeze,omitempty"`
	// Occupied are the entries of the host's managed layer that sessions own, by kind/name.
	// An event that removes one does not say whose it was.
	Occupied map[string]Occupant `json:"occupied,omitempty"`
	// Repair is what waits for a grant of purpose Repair; nil when nothing does.
	Repair *Repair `json:"repair,omitempty"`
	// Degraded is what the host is degraded for; nil while it is not.
	Degraded *Degradation `json:"degraded,omitempty"`
	// Forked says that two events claimed one place in the chain.
	Forked bool `json:"forked,omitempty"`
	// Parked is the code of why the host itself does nothing until it enrols again.
	Parked string `json:"parked,omitempty"`
	// Leaving is the signed removal of this incarnation; nil while there is none.
	Leaving *Leaving `json:"leaving,omitempty"`
	// Former are the names before this one, which FormerNames gives to readers.
	Former []FormerName `json:"former,omitempty"`
	// Facts are what this incarnation is; nil until it says so.
	Facts *event.HostFacts `json:"facts,omitempty"`
	// Ended says why the present identity counts for nothing; nil while it does.
	Ended *Ended `json:"ended,omitempty"`

	Backoff // of grants of rollouts

	inFlight    bool
	idle        bool            // as idles says
	queued      uint64          // the place that it has in the line of repairs
	opening     clock.Instant   // when a window opens that its repair waits for
	givenUpAt   clock.Instant   // when it is looked at to be given up
	budgets     []int           // ids of active budgets it belongs to, ascending
	memberships []membership    // its places in the live rollouts
	plan        *fleet.HostPlan // of Machine.Manifest
}

// Backoff is what a host declined, and when it is granted the like again.
type Backoff struct {
	Declines    int           `json:"declines,omitempty"` // in a row, with offers that it let expire
	NotBefore   clock.Instant `json:"notBefore,omitempty"`
	DeclineCode string        `json:"declineCode,omitempty"`
	Detail      string        `json:"declineDetail,omitempty"`
	// LastDecline is why it declined last; unlike the code it stays while the next offer is open.
	LastDecline string `json:"lastDecline,omitempty"`
}

// backoff is that of grants of a purpose; nil once the repair is over.
func (h *Host) backoff(p host.Purpose) *Backoff {
	switch {
	case p != host.Repair:
		return &h.Backoff
	case h.Repair != nil:
		return &h.Repair.Backoff
	}
	return nil
}

// InFlight reports whether the host may be disrupted now, offered grants
// included.
func (h *Host) InFlight() bool {
	return !h.freedSlot() && (h.Grant != nil || h.Machine.InFlight() || h.SilentFailure)
}

// Acting reports whether the host does something of a rollout by itself, so that
// its silence is news.
func (h *Host) Acting() bool {
	switch m := &h.Machine; m.Phase {
	case host.Activating, host.Soaking, host.Deferred:
		return true
	case host.Failed:
		if m.Reverting {
			return true
		}
	}
	g := h.rolloutGrant() // a silent repair fails no rollout: its grant keeps the slot
	return g != nil && g.Claimed
}

// maxUntaken is how many offers in a row a host may decline or let expire before nobody waits
// for it any more.
const maxUntaken = 5

// unwilling reports whether a host did not take what it was offered so often that nobody waits
// for it, also while it repairs. It is offered more all the same.
func (h *Host) unwilling() bool {
	g := h.rolloutGrant()
	return h.Declines >= maxUntaken && (g == nil || !g.Claimed) && (!h.Acting() || h.Machine.Staged())
}

// SpentToken is an enrolment token that cannot be used again.
type SpentToken struct {
	Host        string        `json:"host"`
	KeyDigest   digest.Digest `json:"keyDigest"`
	Certificate digest.Digest `json:"certificate"`
}

// membership is a host's place in a live rollout.
type membership struct {
	r *rollout.Rollout
	i int
}

// State is everything the server knows. Exported fields that encode to JSON are
// the state; the rest is derived.
type State struct {
	Root      event.RootTrusted       `json:"root"`
	Release   Release                 `json:"release"`
	Timestamp event.TimestampAccepted `json:"timestamp"`
	// Elapsed is how much time the log shows since the timestamp was accepted.
	Elapsed   Elapsed                            `json:"elapsed,omitzero"`
	Channels  map[string]*Channel                `json:"channels"`
	Edges     []fleet.Edge                       `json:"edges"`
	Hosts     map[string]*Host                   `json:"hosts"`
	Rollouts  map[digest.Digest]*rollout.Rollout `json:"rollouts"`
	Order     []digest.Digest                    `json:"order"` // in which they opened
	Pruned    []PrunedRollout                    `json:"pruned,omitempty"`
	Grants    uint64                             `json:"grants"`
	Repairs   uint64                             `json:"repairs,omitempty"` // that hosts asked for
	Tokens    map[string]SpentToken              `json:"tokens"`
	Operators access.Tokens                      `json:"operators"`
	// Verdicts are the required static controls that manifests fail, in words.
	Verdicts map[digest.Digest][]string `json:"verdicts,omitempty"`
	// Overrides are the signed words of operators, and Signed counts their changes.
	Overrides gate.Overrides `json:"overrides,omitzero"`
	Signed    uint64         `json:"signed,omitempty"`
	// Resumed is when the server began to serve again after hosts that act could not report.
	Resumed clock.Instant `json:"resumed,omitempty"`
	warning.Warnings
	docs        Documents
	names       map[string]digest.Digest // the newest rollout of each name
	budgets     []Budget                 // active ones
	repairQueue []repairRequest          // hosts with something to repair, by place
	agenda
	stepped *event.MirrorDiverged // what the last fold of a step found
	watch   func(event.Entry, event.Event)
	bare    bool
	run     string // that grants carry
	facts   facts  // of what the planner asks about
	// hostNames and channelNames are what names made last.
	hostNames, channelNames []string
	keys                    map[string][]string // who enrolled with each event key; made when somebody enrols
}

// New returns the state before the first event.
func New(docs Documents) *State {
	return &State{
		Channels: map[string]*Channel{}, Hosts: map[string]*Host{},
		Rollouts: map[digest.Digest]*rollout.Rollout{},
		Tokens:   map[string]SpentToken{}, Operators: access.Tokens{},
		docs: docs, names: map[string]digest.Digest{},
		agenda: agenda{dirty: map[string]bool{}, openings: map[string]clock.Instant{}},
	}
}

// Watch has f told of every entry that is folded from now on, with the event that
// it was made of or decoded to; nil ends that. f must not touch s.
func (s *State) Watch(f func(event.Entry, event.Event)) { s.watch = f }

// Bare has what is decided from now on come as entries without bodies: for a state
// whose log nobody keeps. Who wants the events watches.
func (s *State) Bare() { s.bare = true }

func (s *State) entry(at clock.Instant, host string, ev event.Event) (event.Entry, error) {
	if s.bare {
		return event.Entry{At: at, Type: ev.EventType(), Subject: event.HostSubject(host)}, nil
	}
	return event.NewEntry(at, event.HostSubject(host), ev)
}

// Host returns a host's record, making it if need be.
func (s *State) host(name string) *Host {
	h := s.Hosts[name]
	if h == nil {
		h = &Host{Name: name}
		s.Hosts[name] = h
	}
	return h
}

// ChannelNames lists the channels in order. The list is shared and must not be changed.
func (s *State) ChannelNames() []string {
	s.channelNames = names(s.channelNames, s.Channels)
	return s.channelNames
}

// HostNames lists the hosts in order. The list is shared and must not be changed.
func (s *State) HostNames() []string {
	s.hostNames = names(s.hostNames, s.Hosts)
	return s.hostNames
}

// names lists the keys of a map in order. Nothing is ever taken out of it: the list
// of before is the one of now if it is as long. Else it is a new one, and whoever
// walks the old one may go on.
func names[T any](list []string, m map[string]T) []string {
	if len(list) == len(m) {
		return list
	}
	list = make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Find returns a rollout by name or by manifest digest, the latest of a name.
func (s *State) Find(id string) *rollout.Rollout {
	return cmp.Or(s.Rollouts[digest.Digest(id)], s.Rollouts[s.names[id]])
}

// live lists the rollouts that members are kept for: each channel's latest one
// and the one that returning hosts are given.
func (s *State) live(c *Channel) []*rollout.Rollout {
	rs := make([]*rollout.Rollout, 0, 2)
	if r := s.Rollouts[c.Latest]; r != nil {
		rs = append(rs, r)
	}
	if r := s.Rollouts[c.Converged]; r != nil && c.Converged != c.Latest {
		rs = append(rs, r)
	}
	return rs
}

// refresh brings everything derived from a host up to date.
func (s *State) refresh(h *Host) {
	if now := h.InFlight(); now != h.inFlight {
		h.inFlight = now
		for _, id := range h.budgets {
			if now {
				s.budgets[id].InFlight++
			} else {
				s.budgets[id].InFlight--
			}
		}
		if !now {
			s.freed(h)
		}
	}
	s.countIdle(h)
	s.enqueueRepair(h)
	s.wakeGivenUp(h)
	for _, at := range h.memberships {
		if s.setMember(h, at.r, at.i) {
			s.dirty[at.r.Channel] = true
		}
	}
}

// setMember brings a member of a bound rollout up to date, and reports whether that
// may change what is decided on it.
func (s *State) setMember(h *Host, r *rollout.Rollout, i int) bool {
	status, final := s.status(h, r, &r.Plan.Leaves[i])
	changed := r.Set(i, rollout.Member{Status: status, Online: h.Reachable(), Unwilling: h.unwilling(), Final: final, HasSlot: h.inFlight, Unfit: h.Degraded != nil && h.Degraded.Bundle})
	failing := h.fails(r) // other controls may fail than before
	changed = r.Outstanding.Put(i, failing) || failing || changed
	changed = r.Staged.Put(i, h.stagedIn(r)) || changed
	return r.Reverting && s.setRollback(h, r, i) || changed
}

// status derives what a host stands at in a rollout.
func (s *State) status(h *Host, r *rollout.Rollout, leaf *fleet.Leaf) (status rollout.Status, settled bool) {
	m, g := &h.Machine, h.rolloutGrant()
	here := m.Manifest == r.Manifest
	switch {
	case h.freedSlot() && r.Marks[h.Name].Claimed:
		return rollout.Broken, true // it took part, and nothing more comes of it
	case h.SilentFailure && (here || g != nil && g.Claimed && g.Manifest == r.Manifest):
		return rollout.Broken, true // nothing more comes of it by itself
	case g != nil && g.Manifest == r.Manifest && g.Purpose == host.Update:
		if g.Claimed {
			return rollout.Claimed, false
		}
		return rollout.Offered, false
	case here && !h.startsAgain(r):
		switch m.Phase {
		case host.Activating, host.Soaking, host.Deferred:
			return rollout.Claimed, false
		case host.Converged:
			return rollout.Converged, false
		case host.Failed:
			return rollout.Broken, !m.Reverting
		case host.Reverted:
			return rollout.RolledBack, false
		}
	}
	switch {
	case m.Current != "" && m.Current == leaf.Target && !m.InFlight() && g == nil:
		return rollout.AtTarget, false
	case s.ahead(h, r):
		return rollout.Ahead, false
	case h.absent() && g == nil:
		return rollout.Absent, false
	case h.SilentFailure && !h.Reachable():
		return rollout.Waiting, false // nobody waits for what it was doing elsewhere
	case g != nil, h.Repairing() && h.Reachable(), m.Phase == host.Activating, m.Phase == host.Soaking,
		m.Phase == host.Deferred && !s.replaceable(h, r),
		m.Phase == host.Failed && m.Reverting:
		return rollout.Busy, false
	case h.refusesItself(r, r.Marks[h.Name].Refused):
		return rollout.Refused, false
	}
	return rollout.Waiting, false
}

// ahead reports whether a host took a rollout that opened after r and stays on
// it, so that r has nothing more to say to it. What was reverted since does not
// count: its own rollout fetches such a host back, or, once that is followed by
// another, r is where the host belongs. A rollout that only the host knows of is placed
// by the version of its release.
func (s *State) ahead(h *Host, r *rollout.Rollout) bool {
	m := &h.Machine
	if m.Phase != host.Converged && (m.Phase != host.Failed || m.Reverting) {
		return false
	}
	took := s.Rollouts[m.Manifest]
	if took == nil { // the log never opened it: it was restored from a backup
		return r.Plan != nil && channelOf(m.Rollout) == r.Channel && r.Plan.Header.Release().Before(m.Release)
	}
	return took.Place > r.Place && (!took.Reverting || s.Channels[took.Channel].Latest == took.Manifest)
}

// attach binds a rollout to its manifest and sets its members.
func (s *State) attach(r *rollout.Rollout) error {
	m, err := s.docs.Manifest(r.Manifest)
	if err != nil {
		return err
	}
	if err := r.Bind(m); err != nil {
		return err
	}
	s.setMembers(r)
	return nil
}

// setMembers brings every member of a bound rollout up to date.
func (s *State) setMembers(r *rollout.Rollout) {
	for i := range r.Plan.Leaves {
		s.setMember(s.host(r.Plan.Leaves[i].Host), r, i)
	}
}

// hostPlan returns what the manifest of the host's machine says for it.
func (s *State) hostPlan(h *Host, d digest.Digest) *fleet.HostPlan {
	if h.plan != nil && h.plan.Manifest == d {
		return h.plan
	}
	m, err := s.docs.Manifest(d)
	if err != nil {
		return nil
	}
	h.plan = m.HostPlan(h.Name)
	return h.plan
}
