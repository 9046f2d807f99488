package plan

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Backoff between grants that a host declines: doubling from the base.
const (
	declineBase = 5 * clock.Second
	declineCap  = 10 * clock.Minute
)

// next is when a host is offered the like again that it did not take now.
func (b *Backoff) next(now clock.Instant) clock.Instant {
	return now.Add(min(declineBase<<min(b.Declines, 16), declineCap))
}

// decider collects the entries that a decision folds into the state.
type decider struct {
	s       *State
	now     clock.Instant
	entries []event.Entry
	err     error
}

// add decides an event of a host, or of the fleet.
func (d *decider) add(host string, ev event.Event) {
	if d.err != nil {
		return
	}
	var e event.Entry
	if e, d.err = d.s.entry(d.now, host, ev); d.err == nil {
		d.fold(e, ev)
	}
}

// fold folds an entry, which may have been decided elsewhere.
func (d *decider) fold(e event.Entry, ev event.Event) {
	if d.err != nil {
		return
	}
	if d.err = d.s.ApplyEvent(e, ev); d.err == nil {
		d.entries = append(d.entries, e)
	}
}

// endGrant ends the grant of a host.
func (d *decider) endGrant(h *Host, reason string, notBefore clock.Instant) {
	d.add(h.Name, event.GrantEnded{Grant: h.Grant.ID, Rollout: h.Grant.Rollout, Reason: reason, NotBefore: notBefore})
}

// withdraw ends what was offered and not claimed, where hit. No host is kept from
// going back.
func (d *decider) withdraw(reason string, hit func(*Host) bool) {
	for _, name := range d.s.HostNames() {
		if h := d.s.Hosts[name]; h.offered() && h.Grant.Purpose != host.Rollback && hit(h) {
			d.endGrant(h, reason, 0)
		}
	}
}

// ReportError says why a host's report is refused whole; nothing was decided
// and the state is unchanged.
type ReportError struct{ Reason string }

func (e *ReportError) Error() string { return e.Reason }

// Ingest folds a host's own events, which the caller has verified to continue
// its chain up to head; decoded are what they were made of or decoded from, nil to
// decode them here. It returns the entries to commit: the events, what follows from
// them, and the head. Acked is up to where the host says that it was acknowledged, where
// that is more than the log has; it is logged ahead of the rest. A report that does not follow the chain, or says what no host
// may say, is a *ReportError.
func Ingest(s *State, name string, events []event.Entry, decoded []event.Event, head event.HostHead, acked uint64, now clock.Instant) ([]event.Entry, error) {
	decoded = slices.Grow(decoded, len(events)-len(decoded))
	for i := len(decoded); i < len(events); i++ {
		ev, err := event.Decode(events[i])
		if err != nil {
			return nil, &ReportError{Reason: fmt.Sprintf("event %d of host %s: %v", events[i].HostSeq, name, err)}
		}
		decoded = append(decoded, ev)
	}
	h := s.Hosts[name]
	if err := check(h, name, events, decoded); err != nil {
		return nil, err
	}
	d := &decider{s: s, now: now, entries: make([]event.Entry, 0, len(events)+2)}
	d.markReturned(h)
	if acked > h.Seq && acked > h.Replayed.To && h.Replayed.Times < maxReplays {
		d.add(name, s.logRestored(h, acked))
	}
	for i, e := range events {
		if s.lacksClaim(h, e.HostSeq, decoded[i]) {
			d.add(name, s.logRestored(h, events[len(events)-1].HostSeq))
		}
		acts := h.Machine.Grant
		s.stepped = nil
		d.fold(e, decoded[i])
		if s.stepped != nil {
			d.add(name, *s.stepped)
		}
		switch ev := decoded[i].(type) {
		case event.GrantDeclined:
			d.declined(h, ev)
		case event.HostStepped:
			if why := s.needless(h); why != "" {
				d.endGrant(h, why, 0)
			}
			if h.Machine.Grant != acts && h.offered() && h.Grant.Purpose == host.Update { // that it claimed before the log was restored
				d.endGrant(h, "the host acts on "+h.Machine.Grant, 0)
			}
		case event.RepairOver:
			if h.Grant.yields() {
				d.endGrant(h, "nothing is left to repair", 0)
			}
		}
	}
	d.add(name, head)
	return d.entries, d.err
}

// needless says why a host has no use for what it was offered, by what it has reported
// since, or is empty. A restored log offers again what a host left long ago.
func (s *State) needless(h *Host) string {
	switch g := h.Grant; {
	case !h.offered():
	case g.Purpose == host.Reboot && !h.Machine.Staged():
		return "the host waits for no reboot any more"
	case g.Purpose == host.Update && s.Rollouts[g.Manifest] != nil && s.ahead(h, s.Rollouts[g.Manifest]):
		return "the host took a later rollout, " + h.Machine.Rollout
	}
	return ""
}

// check looks at a whole report before anything of it is folded.
func check(h *Host, name string, events []event.Entry, decoded []event.Event) error {
	if h == nil || h.Incarnation == 0 {
		return &ReportError{Reason: "host " + name + " is not enrolled; steady token create " + name}
	}
	for i, e := range events {
		if !event.FromHost(e.Type) || e.Host() != name {
			return &ReportError{Reason: fmt.Sprintf("host %s reports %s of host %q, which is not its to report", name, e.Type, e.Host())}
		}
		if e.Incarnation != h.Incarnation || e.HostSeq != h.Seq+uint64(i)+1 {
			return &ReportError{Reason: fmt.Sprintf("event %d/%d of host %s does not follow %d/%d", e.Incarnation, e.HostSeq, name, h.Incarnation, h.Seq+uint64(i))}
		}
		if err := Reportable(e, decoded[i]); err != nil {
			return &ReportError{Reason: fmt.Sprintf("event %d of host %s: %v", e.HostSeq, name, err)}
		}
	}
	return nil
}

// maxInstant bounds the instants that hosts report, far beyond every clock, so that
// sums with them neither overflow nor lose digits in JSON.
const maxInstant clock.Instant = 1 << 52

// Reportable says what of a host's event no machine could report, whatever happened to
// it. What a host may report, and contradicts what it reported before, is taken.
func Reportable(e event.Entry, ev event.Event) error {
	if e.At < 0 || e.At > maxInstant {
		return fmt.Errorf("it is of the instant %d: expected 0 to %d", int64(e.At), int64(maxInstant))
	}
	switch ev := ev.(type) {
	case event.HostStepped:
		if !ev.From.Known() || !ev.To.Known() {
			return fmt.Errorf("a host cannot go from phase %q to %q: one of them does not exist", ev.From, ev.To)
		}
		_, err := ev.HostInput()
		return err
	case event.HostFacts:
		return ev.Check()
	case event.RepairNeeded:
		if n := len(ev.Resources); n == 0 || n > host.MaxRepairNames {
			return fmt.Errorf("it names %d resources to repair, 1 to %d are allowed", n, host.MaxRepairNames)
		}
	}
	return nil
}

// markReturned says that a host which was away is there, now that it speaks.
func (d *decider) markReturned(h *Host) {
	if !h.Online {
		d.add(h.Name, event.HostReturned{})
	}
}

// mayFree reports whether a decline is of a grant that its host does not act on: also of
// one that it claimed and, before it knew of that, gave back. Where two agents are the host,
// one may act on what the other gives back.
func (h *Host) mayFree(ev event.GrantDeclined) bool {
	g := h.Grant
	return g != nil && g.ID == ev.Grant && (!g.Claimed || host.GivesBack(ev.Code) && !h.Forked)
}

// declined frees the slot of a grant that its host will not take.
func (d *decider) declined(h *Host, ev event.GrantDeclined) {
	if !h.mayFree(ev) {
		return
	}
	final := h.Grant.Purpose != host.Repair && !h.Machine.InFlight() && (ev.Code == host.DeclineAtTarget || ev.Code == host.DeclineQuarantined)
	var notBefore clock.Instant
	if b := h.backoff(h.Grant.Purpose); b != nil && !final {
		notBefore = b.next(d.now)
	}
	d.endGrant(h, "declined: "+ev.Code+": "+ev.Detail, notBefore)
}

// ClaimRefusedError says why a claim is refused; nothing was decided.
type ClaimRefusedError struct{ Reason string }

func (e *ClaimRefusedError) Error() string { return e.Reason }

// Claim commits a host's claim of a grant. A repeated claim of a grant that is
// claimed already returns no entries and no error.
func Claim(s *State, name, grant string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	refuse := func(format string, a ...any) ([]event.Entry, error) {
		return nil, &ClaimRefusedError{Reason: fmt.Sprintf(format, a...)}
	}
	if h == nil {
		return refuse("host %s is not known", name)
	}
	g := h.Grant
	if g == nil || g.ID != grant {
		if (h.Machine.Grant == grant || h.Machine.Reboot == grant) && h.Machine.Phase != "" {
			return nil, nil // claimed, and the host has gone on from there
		}
		return refuse("grant %s is not open for host %s", grant, name)
	}
	if g.Claimed {
		return nil, nil
	}
	if g.Expires.Reached(now) {
		return refuse("grant %s expired at %s", grant, g.Expires)
	}
	r := s.Rollouts[g.Manifest]
	if r == nil {
		return refuse("rollout %s is gone", g.Rollout)
	}
	if b := gate.First(s.ask(s.claimFacts(h, r, now)), purposes[g.Purpose], gate.AtClaim); b != nil {
		return refuse("%s", b.Message)
	}
	d := &decider{s: s, now: now}
	d.markReturned(h)
	d.add(name, event.GrantClaimed{Grant: grant, Rollout: g.Rollout})
	return d.entries, d.err
}

// Presence folds that a host was heard from, or was not for too long. It returns
// nothing when that is no news.
func Presence(s *State, name string, online bool, lastSeen, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	if h == nil || h.Incarnation == 0 || h.Online == online {
		return nil, nil
	}
	d := &decider{s: s, now: now}
	if online {
		d.add(name, event.HostReturned{})
	} else {
		d.add(name, event.HostSilent{LastSeen: lastSeen})
	}
	return d.entries, d.err
}

// Record folds events that were decided elsewhere from verified input: trust,
// releases, enrolment, tokens.
func Record(s *State, name string, now clock.Instant, events ...event.Event) ([]event.Entry, error) {
	d := &decider{s: s, now: now}
	for _, ev := range events {
		d.add(name, ev)
	}
	return d.entries, d.err
}

// VerbError says why an operator's verb does not apply, and what would. Unknown says
// that what it names does not exist.
type VerbError struct {
	Reason  string
	Unknown bool
}

func (e *VerbError) Error() string { return e.Reason }

func verbErrorf(format string, a ...any) error { return &VerbError{Reason: fmt.Sprintf(format, a...)} }

func unknownErrorf(format string, a ...any) error {
	return &VerbError{Reason: fmt.Sprintf(format, a...), Unknown: true}
}

// Verb is what an operator may do to a rollout.
type Verb string

// The verbs. Resume ends a pause, or a halt with the failures so far
// acknowledged; Cancel makes a halt final and halts first if need be, and says of
// a reverted rollout that what waits for its channel need not wait for a fix.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Cancel Verb = "cancel"
)

// Operate carries out a verb on a rollout by name or manifest digest.
func Operate(s *State, verb Verb, id, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	r := s.Find(id)
	if r == nil {
		return nil, unknownErrorf("there is no rollout %q; steady rollout list shows them", id)
	}
	if err := s.may(verb, r, now); err != nil {
		return nil, err
	}
	d := &decider{s: s, now: now}
	switch verb {
	case Pause:
		d.add("", event.RolloutPaused{Rollout: r.Name, Manifest: r.Manifest, Reason: reason, Actor: actor})
	case Resume:
		d.resume(r, reason, actor)
	case Cancel:
		d.cancel(r, reason, actor)
	default:
		return nil, verbErrorf("%s is no verb that needs a reason alone", verb)
	}
	return d.entries, d.err
}

func (s *State) mayResume(r *rollout.Rollout) error {
	c := s.Channels[r.Channel]
	if b := s.controls(r.Name, r.Manifest); b != nil {
		return verbErrorf("%s; %s", b.Message, b.ClearedBy)
	}
	switch {
	case r.Final:
		return verbErrorf("rollout %s was cancelled; push a release instead, or if the cause was outside of it: steady rollout retry %s", r.Name, r.Name)
	case r.Reverting && r.Phase.Ended():
		return verbErrorf("rollout %s was reverted; push a fixed release instead, or if the cause was outside of it: steady rollout retry %s", r.Name, r.Name)
	case r.Reverting:
		return verbErrorf("rollout %s is being reverted; push a fixed release instead", r.Name)
	case r.Phase == rollout.Failed && c.Latest != r.Manifest:
		return verbErrorf("rollout %s was followed by another", r.Name)
	case r.Phase != rollout.Failed && !r.Paused:
		return verbErrorf("rollout %s is %s; there is nothing to resume", r.Name, Status(r))
	}
	return nil
}

func (d *decider) resume(r *rollout.Rollout, reason, actor string) {
	halted := r.Phase == rollout.Failed
	d.add("", event.RolloutResumed{Rollout: r.Name, Manifest: r.Manifest, Reason: reason, Actor: actor})
	if halted {
		d.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(rollout.Failed), To: string(rollout.Active),
			Reason: "resumed: " + reason, Actor: actor})
	}
}

func (d *decider) cancel(r *rollout.Rollout, reason, actor string) {
	if !r.Phase.Ended() {
		d.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(rollout.Failed),
			Reason: "cancelled: " + reason, Actor: actor, Final: true})
	} else {
		d.add("", event.RolloutCancelled{Rollout: r.Name, Manifest: r.Manifest, Reason: reason, Actor: actor})
	}
	d.withdraw("rollout "+r.Name+" was cancelled", func(h *Host) bool {
		return h.Grant.Manifest == r.Manifest && (h.Grant.Purpose == host.Update || h.Grant.Purpose == host.Reboot)
	})
}

// Status names where a rollout stands, overlays included, for people.
func Status(r *rollout.Rollout) string {
	switch {
	case r.Final:
		return rollout.StatusCancelled
	case r.Phase == rollout.Failed:
		return rollout.StatusHalted
	case r.Phase == rollout.Terminal:
		return rollout.StatusDone
	case r.Phase == rollout.Reverted && r.NotBack() > 0:
		return rollout.StatusRevertFailed
	case r.Reverting && !r.Phase.Ended():
		return rollout.StatusReverting
	case r.Paused && !r.Phase.Ended():
		return rollout.StatusPaused
	}
	return string(r.Phase)
}

// ClearQuarantine allows a bundle again on a channel.
func ClearQuarantine(s *State, channel, bundle, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	c := s.Channels[channel]
	if c == nil {
		return nil, unknownErrorf("there is no channel %q; steady status shows them", channel)
	}
	if t := s.signedQuarantine(channel, bundle); t != nil {
		return nil, needsSignature("bundle "+t.Bundle.Short(), t, "steady quarantine clear "+channel+" "+t.Bundle.Short()+" --sign KEYS")
	}
	for d := range c.Quarantine { // order-free: at most one has this digest
		if string(d) == bundle || d.Short() == bundle {
			return Record(s, "", now, event.QuarantineCleared{Channel: channel, Digest: d, Reason: reason, Actor: actor})
		}
	}
	return nil, verbErrorf("bundle %s is not quarantined on channel %s", bundle, channel)
}

// Answer says where a host stands and, if it has not moved yet, why.
type Answer struct {
	Host string `json:"host"`
	// Former are the names that the host had before it was renamed, the newest first.
	Former  []FormerName `json:"former,omitempty"`
	Channel string       `json:"channel"`
	Rollout string       `json:"rollout"`
	Wave    string       `json:"wave"`
	Status  string       `json:"status"`
	Current string       `json:"current"`
	Target  string       `json:"target"`
	// Message says it in a sentence.
	Message string `json:"message"`
	// Block is the first gate that blocks.
	Block *gate.Block `json:"block,omitempty"`
	Gates []Gate      `json:"gates"`
	// Turn is when the host's grant comes, of one that waits for it.
	Turn *Turn `json:"turn,omitempty"`
	// Pending names a newer rollout of the channel that is not open yet, and
	// PendingBlock what it waits for.
	Pending      string      `json:"pending,omitempty"`
	PendingBlock *gate.Block `json:"pendingBlock,omitempty"`
	PendingGates []Gate      `json:"pendingGates,omitempty"`
	// WaveBlocks is everything that keeps the rollout's open wave from being promoted.
	WaveBlocks []*gate.Block `json:"waveBlocks,omitempty"`
	// Accepted is what operators let pass in the waves up to the host's.
	Accepted []string `json:"accepted,omitempty"`
	// Repair is what the host waits to repair or repairs now, apart from any
	// rollout.
	Repair *RepairAnswer `json:"repair,omitempty"`
	// Reboot is the reboot that what is staged on the host waits for.
	Reboot *RebootAnswer `json:"reboot,omitempty"`
	// Degraded is what the host is degraded for; nil while it is not.
	Degraded *Degradation `json:"degraded,omitempty"`
}
