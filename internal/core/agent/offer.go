package agent

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

const (
	// maxTermStep bounds how far a term may be above the last one seen. Terms rise by
	// one with each lease; nothing signs them, and a server that lied about one must
	// not be able to shut a host off for ever.
	maxTermStep = 1 << 16
	// maxGrantLife bounds what a server may ask this host to remember of a grant.
	maxGrantLife = 24 * clock.Hour
	// MaxGrantName is what a server itself takes for the name of a grant, in bytes. A
	// longer one would not fit in the events that name it.
	MaxGrantName = 64
)

// Malformed says why a grant cannot be one: its name is empty, too long or not printable
// ASCII, or there are no grants of its purpose. It is empty for one that can.
func Malformed(grant string, purpose host.Purpose) string {
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if grant == "" || len(grant) > MaxGrantName || strings.ContainsFunc(grant, bad) {
		return fmt.Sprintf("a grant is named by 1 to %d printable characters, not by %q", MaxGrantName, grant[:min(len(grant), MaxGrantName)])
	}
	if !purpose.Known() {
		return fmt.Sprintf("a grant has no purpose %q", purpose[:min(len(purpose), MaxGrantName)])
	}
	return ""
}

// Granted is a grant of the server with what State.Proof asks for, verified.
type Granted struct {
	Grant   string
	Purpose host.Purpose
	Term    uint64
	TTL     clock.Duration // from now on
	Reason  string
	// Plan is the verified plan; of a grant that needs none, its manifest alone.
	Plan fleet.HostPlan
	// Newest is the manifest that the plan's channel rolls out by the newest snapshot
	// which the host accepted; empty where none was asked for.
	Newest digest.Digest
	// Wall is the host's own wall clock, and Slack how far it may be wrong.
	Wall  clock.Instant
	Slack clock.Duration
	// Overrides are those that prove a rollback, or have the host take again what it
	// refuses, if one does.
	Overrides *OverridesReceived
}

func (in Granted) apply(t *turn) error {
	if in.Overrides != nil {
		if err := in.Overrides.apply(t); err != nil {
			return err
		}
		for i := range in.Overrides.Overrides {
			if again := t.s.Overrides.EndedBy(&in.Overrides.Overrides[i]); again != nil {
				t.decline(in.Grant, host.DeclineOverride, again.Message())
				return nil
			}
		}
	}
	t.cured()
	s := t.s
	o := Offer{Grant: in.Grant, Purpose: in.Purpose, Term: in.Term, Plan: in.Plan, Reason: in.Reason,
		Expires: t.now.Add(min(max(in.TTL, 0), maxGrantLife))}
	switch {
	case o.Term > s.MaxTerm && o.Term-s.MaxTerm > maxTermStep:
		t.decline(o.Grant, host.DeclineTermJump, "the server's term is far above the last one seen")
		return nil
	case s.Removal != nil:
		t.decline(o.Grant, host.DeclineOverride, s.Removal.message())
		return nil
	case o.Term < s.MaxTerm:
		t.decline(o.Grant, host.DeclineOldTerm, "the server's term is older than one already seen")
		return nil
	}
	t.Save = t.Save || o.Term > s.MaxTerm
	s.MaxTerm = o.Term
	if s.knows(o.Grant) {
		return nil
	}
	code, detail := t.refuses(&o, in.Wall, in.Slack)
	if code == "" && o.Purpose == host.Update {
		code, detail = s.refusesOlder(&o.Plan, in.Newest)
	}
	if code != "" {
		t.decline(o.Grant, code, detail)
		return nil
	}
	t.Accepted = true
	o.Prepared = o.Purpose != host.Update // else there is nothing to prepare: it was for the activation
	s.Offer = &o
	t.resume()
	return nil
}

// knows reports whether a grant is under way or was acted on: it is offered again.
func (s *State) knows(grant string) bool {
	return s.Offer != nil && s.Offer.Grant == grant || s.Machine.Grant == grant || s.Machine.Reboot == grant || s.Repairs.did(grant)
}

// refuses says why an offer is not taken; an empty code means that it is.
func (t *turn) refuses(o *Offer, wall clock.Instant, slack clock.Duration) (code, detail string) {
	s := t.s
	if s.Declined == o.Grant {
		return host.DeclineGivenBack, "this host gave the grant back before"
	}
	windows := o.Plan.Windows
	switch o.Purpose {
	case host.Rollback:
		windows = nil // going back is always allowed
	case host.Repair:
		windows = s.Plan.Windows
	}
	if closed := o.within(windows, wall, t.now, slack); closed != "" {
		return host.DeclineWindow, closed
	}
	switch o.Purpose {
	case host.Update:
		return s.refusesUpdate(o)
	case host.Rollback:
		return s.refusesRollback(o)
	case host.Repair:
		return s.refusesRepair(o)
	case host.Reboot:
		return s.refusesReboot(o)
	}
	return host.DeclineUnsupported, "this agent accepts no " + string(o.Purpose) + " grants"
}

// within limits an offer to the host's signed maintenance windows by its wall clock,
// give or take slack: inside them it must be claimed before the first of them closes;
// outside it returns which one is closed. A wrong clock, or a server that lies, can
// only delay.
func (o *Offer) within(windows []clock.Window, wall, now clock.Instant, slack clock.Duration) (closed string) {
	if len(windows) == 0 {
		return ""
	}
	for _, at := range []clock.Instant{wall, wall.Add(slack), wall.Add(-slack)} {
		if !clock.AllOpen(windows, at) {
			continue
		}
		ends := at.Add(o.Expires.Sub(now))
		for i := range windows {
			ends = min(ends, windows[i].Closes(at, ends))
		}
		o.Expires = min(o.Expires, now.Add(ends.Sub(wall)+slack))
		return ""
	}
	w := &windows[max(0, clock.FirstClosed(windows, wall))]
	return "it is " + wall.String() + " here and maintenance window " + w.Name + " is closed"
}

func (s *State) refusesUpdate(o *Offer) (code, detail string) {
	m := &s.Machine
	switch {
	case s.Repairs.Grant != "":
		return host.DeclineBusy, "the host is being repaired under " + s.Repairs.Grant
	case m.Phase == host.Activating || m.Phase == host.Soaking || (m.Phase == host.Failed && m.Reverting), m.Rebooting(),
		m.Phase == host.Deferred && m.Manifest == o.Plan.Manifest:
		return host.DeclineBusy, "the host is " + string(m.Phase) + " in " + m.Rollout
	case s.Quarantined(o.Plan.Target):
		return host.DeclineQuarantined, "this host quarantined " + o.Plan.Target.Short()
	case s.forbidden(o) != nil:
		return host.DeclineOverride, s.forbidden(o).Message()
	case m.Current == o.Plan.Target && m.Phase != host.Failed && m.Phase != host.Deferred:
		return host.DeclineAtTarget, "the host runs " + o.Plan.Target.Short() + " already"
	}
	return "", ""
}

// refusesOlder refuses another plan of the channel while the host has converged on the
// one that is rolled out: that one was signed before. The way back is a rollback, or a
// release that names the older bundles. A server that was restored from a backup knows
// no better.
func (s *State) refusesOlder(p *fleet.HostPlan, newest digest.Digest) (code, detail string) {
	m := &s.Machine
	if newest == "" || m.Manifest != newest || p.Manifest == newest || m.Phase != host.Converged || p.Channel != s.Plan.Channel {
		return "", ""
	}
	return host.DeclineOlderPlan, "the host runs " + m.Rollout + ", the newest release of its channel, and " + p.Rollout + " is older; push the newest release to the server"
}

func (s *State) refusesRollback(o *Offer) (code, detail string) {
	m := &s.Machine
	switch {
	case m.Manifest != o.Plan.Manifest:
		return host.DeclineOtherRollout, "the host is not in that rollout"
	case s.Plan.Removed == fleet.Wipe:
		return host.DeclineNothingToDo, "the host was wiped, and nothing is left to go back to"
	case m.Phase == host.Reverted || m.Phase == host.Pending || m.Phase == "" || (m.Phase == host.Failed && m.Reverting):
		return host.DeclineNothingToDo, "the host is " + string(m.Phase) + " already"
	case s.Repairs.Grant != "":
		return host.DeclineBusy, "the host is being repaired under " + s.Repairs.Grant
	}
	return "", ""
}

// refusesReboot is of a reboot into what is staged.
func (s *State) refusesReboot(o *Offer) (code, detail string) {
	m := &s.Machine
	switch {
	case m.Manifest != o.Plan.Manifest || m.Target != o.Plan.Target:
		return host.DeclineOtherRollout, "the host is not in that rollout"
	case m.Phase != host.Deferred:
		return host.DeclineNothingToDo, "the host is " + string(m.Phase) + " and waits for no reboot"
	case s.forbidden(o) != nil:
		return host.DeclineOverride, s.forbidden(o).Message()
	case m.Reboot != "":
		return host.DeclineBusy, "the host is rebooting under " + m.Reboot
	}
	return "", ""
}

// Prepared says that all that an offer needs is on the host; the claim follows.
type Prepared struct{ Grant string }

func (in Prepared) apply(t *turn) error {
	o := t.s.Offer
	switch {
	case o == nil || o.Grant != in.Grant:
	case o.Expires.Reached(t.now):
		t.giveBack(host.DeclineExpired, "preparing took longer than the grant lasts")
	case t.s.forbidden(o) != nil:
		t.giveBack(host.DeclineOverride, t.s.forbidden(o).Message())
	default:
		prepared := *o
		prepared.Prepared = true
		t.s.Offer = &prepared
		t.claim()
	}
	return nil
}

// claim asks for the claim of the offer at hand. Nothing is claimed under a stale
// timestamp or a withdrawn manifest, except what goes back or repairs.
func (t *turn) claim() {
	o := t.s.Offer
	t.emit(Claim{Offer: *o, Verify: o.Purpose == host.Update || o.Purpose == host.Reboot})
}

// PrepareFailed says that an offer cannot be prepared, or does not hold any more,
// also while its claim is under way. The server may grant again.
type PrepareFailed struct{ Grant, Detail string }

func (in PrepareFailed) apply(t *turn) error {
	if o := t.s.Offer; o != nil && o.Grant == in.Grant {
		t.giveBack(host.DeclinePrepare, in.Detail)
	}
	return nil
}

// ClaimAnswered is the server's answer to a claim. Stale is set when the fleet's
// documents are too old to activate anything.
type ClaimAnswered struct {
	Grant    string
	Accepted bool
	Stale    *Refused
}

func (in ClaimAnswered) apply(t *turn) error {
	s, o := t.s, t.s.Offer
	if o == nil || o.Grant != in.Grant {
		return nil
	}
	t.Save = true
	if in.Accepted && in.Stale != nil && o.Purpose == host.Update {
		t.giveBack(host.DeclinePrepare, "refused: "+in.Stale.Detail)
		return in.Stale.apply(t)
	}
	s.Offer = nil
	if !in.Accepted {
		return nil
	}
	var err error
	switch o.Purpose {
	case host.Repair:
		t.openRepairs(o.Grant)
	case host.Rollback:
		err = t.machine(host.RevertClaimed{Grant: o.Grant, Reason: o.Reason})
	case host.Reboot:
		err = t.machine(host.RebootClaimed{Grant: o.Grant})
	default:
		err = t.update(o)
	}
	if t.Dropped != nil { // the host went on by itself while it claimed
		s.Declined = o.Grant
		t.decline(o.Grant, host.DeclineGivenBack, "the host is "+string(s.Machine.Phase)+" in "+s.Machine.Rollout)
	}
	return err
}

// update begins the activation of a claimed offer. The plan stays that of the machine's
// rollout when the machine does not take it.
func (t *turn) update(o *Offer) error {
	s := t.s
	before, from := s.Plan, s.WayBack()
	s.Plan = o.Plan
	err := t.machine(host.Claimed{
		Grant: o.Grant, Rollout: o.Plan.Rollout, Manifest: o.Plan.Manifest, Wave: o.Plan.Wave,
		From: from, Target: o.Plan.Target, BootID: s.Machine.BootID, Release: o.Plan.Release,
	})
	if t.Dropped != nil {
		s.Plan = before
	}
	return err
}

// WayBack is the bundle that a host goes back to from what it activates next.
func (s *State) WayBack() digest.Digest {
	if p := s.Machine.Phase; p == host.Failed || p == host.Deferred { // a fix for a host that did not go back, or is half way
		return s.Machine.From
	}
	return s.Machine.Current
}

// giveBack drops the offer at hand for good.
func (t *turn) giveBack(code, detail string) {
	grant := t.s.Offer.Grant
	t.s.Offer, t.s.Declined = nil, grant
	t.decline(grant, code, detail)
}

func (t *turn) decline(grant, code, detail string) {
	t.report(event.GrantDeclined{Grant: grant, Code: code, Detail: detail})
}
