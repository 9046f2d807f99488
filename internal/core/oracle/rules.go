package oracle

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Request is a grant that a host is to be given, or claims.
type Request struct {
	Host    *Host
	Rollout *Rollout
	Purpose host.Purpose
	Target  digest.Digest
	Claim   bool
	At      clock.Instant
	// Replaces says that a grant which yields is ended for it first.
	Replaces bool

	leaf *fleet.Leaf // of the host, or nil
}

// When a rule is asked: at the offer, at the claim, for which purposes.
type when uint8

const (
	forward when = 1 << iota
	back
	repair
	reboot
	claims
	offers
	toTarget = forward | reboot
	toChange = forward | reboot | repair
	toAny    = toChange | back
	always   = offers | claims
)

func (q *Request) when() when {
	w := offers
	if q.Claim {
		w = claims
	}
	switch q.Purpose {
	case host.Update:
		return w | forward
	case host.Rollback:
		return w | back
	case host.Repair:
		return w | repair
	case host.Reboot:
		return w | reboot
	}
	return w
}

// Rule is one thing that keeps a grant from being given or claimed.
type Rule struct {
	Invariant string
	Message   string // what is the matter if it is broken
	when      when
	broken    func(f *Facts, q *Request) bool
}

// rules are all that a grant has to keep. Where the text of a rule in the documents
// names an invariant it is that one, else S26: nothing in the log calls for the grant.
var rules = []Rule{
	{"S10", "the host is not there", offers | toAny, func(_ *Facts, q *Request) bool { return q.Host.Incarnation == 0 || !q.Host.Online || q.Host.Overdue }},
	{"S43", "the identity of the host counts for nothing", always | toAny, func(_ *Facts, q *Request) bool { return q.Host.Identity != Valid }},
	{"S2", "the host has another grant", offers | toAny, func(_ *Facts, q *Request) bool { return q.Host.Grant != nil && !(q.Replaces && q.Host.yields()) }},
	{"S2", "the host is on its way already", offers | forward, func(_ *Facts, q *Request) bool { return q.Host.moving() && !q.Host.Staged() }},
	{"S18", "the host is frozen", always | toChange, func(_ *Facts, q *Request) bool { return q.Host.Frozen > q.At }},
	{"S55", "a session has something on the host", always | toChange, (*Facts).occupied},
	{"S26", "the host declined and its time off is not over", offers | toTarget | back, func(_ *Facts, q *Request) bool { return q.Host.NotBefore > q.At }},
	{"S26", "the host declined a repair and its time off is not over", offers | repair, func(_ *Facts, q *Request) bool { return q.Host.NeedNotBefore > q.At }},
	{"S41", "a maintenance window of the host is closed", always | toChange, func(_ *Facts, q *Request) bool { return q.leaf != nil && !clock.AllOpen(q.windows(), q.At) }},
	{"S1", "a budget of the host is full", always | toAny, func(f *Facts, q *Request) bool { return f.full(q, false) && (q.Claim || f.full(q, true)) }},
	{"S29", "a budget of the host is full by what the same tick gave", offers | toAny, func(f *Facts, q *Request) bool { return f.full(q, false) && !f.full(q, true) }},
	{"S3", "the host is not in the rollout", always | toChange, func(_ *Facts, q *Request) bool { return q.leaf == nil }},
	{"S30", "the plan says something else", always | toTarget, func(_ *Facts, q *Request) bool { return q.leaf != nil && q.leaf.Target != q.Target }},
	{"S13", "the rollout is neither the newest of its channel nor the last that converged", offers | toTarget, func(f *Facts, q *Request) bool {
		c := f.Channel(q.Rollout.Channel)
		return q.Rollout != c.Latest && q.Rollout != c.Converged
	}},
	{"S13", "the host took a later rollout", offers | forward, func(f *Facts, q *Request) bool { return f.isAhead(q.Host, q.Rollout) }},
	{"S13", "the host belongs to the newest rollout of the channel", offers | forward, (*Facts).belongsToNewer},
	{"S18", "the rollout is paused, reverting or over", always | toTarget, func(_ *Facts, q *Request) bool { return !q.Rollout.gives() }},
	{"S18", "an override blocks the rollout", always | toTarget, func(f *Facts, q *Request) bool { return f.blocked(q.Rollout) }},
	{"S5", "the rollout was signed in a key epoch that has ended", always | toTarget, func(f *Facts, q *Request) bool { return f.outdated(q.Rollout) }},
	{"S42", "the rollout fails required controls", offers | toTarget, func(f *Facts, q *Request) bool { return f.Barred[q.Rollout.Manifest.Digest] }},
	{"S26", "nothing says that the channel's documents are fresh", offers | toTarget, (*Facts).wasStale},
	{"S17", "the bundle is quarantined for the host", always | toChange, func(f *Facts, q *Request) bool { return f.quarantined(q.Rollout.Channel, q.Target, q.Host.Name) }},
	{"S7", "the wave of the host is not open", offers | forward, func(_ *Facts, q *Request) bool { return q.leaf != nil && q.leaf.Wave > q.Rollout.Cursor }},
	{"S42", "evidence of an earlier wave fails", offers | forward, func(f *Facts, q *Request) bool { return q.leaf != nil && f.FailingEvidence(q.Rollout, q.leaf.Wave) }},
	{"S14", "somebody who goes before the host has not arrived", offers | toTarget, (*Facts).goesAfter},
	{"S40", "as many hosts as may try the bundle before one has converged", always | forward, (*Facts).canaries},
	{"S26", "the host needs nothing of the rollout", offers | forward, func(f *Facts, q *Request) bool {
		return q.leaf != nil && f.Position(q.Host, q.Rollout, q.leaf) != Waiting
	}},
	{"S21", "the rollout is not reverting", offers | back, func(_ *Facts, q *Request) bool { return !q.Rollout.Reverting }},
	{"S21", "the host came from somewhere else", offers | back, func(_ *Facts, q *Request) bool { return q.Target != q.Host.From }},
	{"S22", "the host has nothing of the rollout to go back from", offers | back, func(f *Facts, q *Request) bool { return !f.stays(q.Host, q.Rollout) }},
	{"S23", "the host has something else staged, or nothing", always | reboot, func(_ *Facts, q *Request) bool {
		return !q.Host.Staged() || q.Host.Manifest != q.Rollout.Manifest.Digest || q.Host.Target != q.Target
	}},
	{"S23", "the host is not at rest on what it is to repair", always | repair, func(_ *Facts, q *Request) bool {
		return !q.Host.AtRest() || q.Host.Manifest != q.Rollout.Manifest.Digest || q.Host.Current != q.Target
	}},
	{"S28", "the host waits for no such repair", offers | repair, func(_ *Facts, q *Request) bool {
		n := q.Host.Need
		return n == nil || n.Manifest != q.Rollout.Manifest.Digest || n.Bundle != q.Target
	}},
	{"S22", "the host is to go back from what it would repair", offers | repair, func(f *Facts, q *Request) bool {
		return q.Rollout.Reverting && f.Channel(q.Rollout.Channel).Latest == q.Rollout && f.stays(q.Host, q.Rollout)
	}},
}

// Broken lists the rules that a request breaks, in the order of the table.
func (f *Facts) Broken(q Request) []*Rule {
	q.leaf = leafOf(q.Rollout.Manifest, q.Host.Name)
	var out []*Rule
	asked := q.when()
	for i := range rules {
		if r := &rules[i]; r.when&asked == asked && r.broken(f, &q) {
			out = append(out, r)
		}
	}
	return out
}

// may reports whether a request keeps every rule.
func (f *Facts) may(q Request) bool {
	q.leaf = leafOf(q.Rollout.Manifest, q.Host.Name)
	asked := q.when()
	return !slices.ContainsFunc(rules, func(r Rule) bool { return r.when&asked == asked && r.broken(f, &q) })
}

func (q *Request) windows() []clock.Window { return q.Rollout.Manifest.Header.WindowsOf(q.leaf) }

// full reports whether a budget that counts now has no room for the host: one of the
// newest or the last converged rollout of any channel. A host that failed or is on its
// way uses the slot that it has, but one that is staged must find room again among
// those that change something. earlier leaves out slots that the same instant gave.
func (f *Facts) full(q *Request, earlier bool) bool {
	h := q.Host
	staged := h.Staged() && (h.Grant == nil || q.Claim)
	if !staged && h.holdsSlot() {
		return false
	}
	for _, c := range f.channels { // order-free: any one decides
		for _, r := range []*Rollout{c.Latest, c.Converged} {
			if r == nil {
				continue
			}
			for i, b := range r.Manifest.Header.Budgets {
				n, member := 0, false
				for _, o := range r.members[i] {
					switch {
					case o == h:
						member = true
					case !o.inFlight() || staged && o.idle():
					case earlier && o.Grant != nil && o.Grant.At == q.At:
					default:
						n++
					}
				}
				if member && n >= b.Max {
					return true
				}
			}
		}
	}
	return false
}

// stale reports whether the newest statement of freshness is missing or older than the
// channel allows, by the clock or by what passed in the log since it was accepted.
func (f *Facts) stale(c *Channel, now, latest clock.Instant) bool {
	return f.issued == 0 || max(now.Sub(f.issued), latest.Sub(f.accepted)) > c.Window
}

// wasStale is stale as it was before anything was decided at this instant.
func (f *Facts) wasStale(q *Request) bool {
	latest := f.latest
	if latest == q.At {
		latest = f.before
	}
	return f.stale(f.Channel(q.Rollout.Channel), q.At, latest)
}

// belongsToNewer reports whether the newest rollout of the channel has this host in an
// open wave, and still gives.
func (f *Facts) belongsToNewer(q *Request) bool {
	newer := f.Channel(q.Rollout.Channel).Latest
	if newer == nil || newer == q.Rollout || newer.Phase.Ended() || newer.Reverting {
		return false
	}
	there := leafOf(newer.Manifest, q.Host.Name)
	return there != nil && there.Wave <= newer.Cursor && f.Position(q.Host, newer, there) != Back
}

// goesAfter reports whether a host that goes before this one has not arrived.
func (f *Facts) goesAfter(q *Request) bool {
	if q.leaf == nil {
		return false
	}
	for _, name := range q.leaf.After {
		if leaf := leafOf(q.Rollout.Manifest, name); leaf != nil {
			if at := f.Position(f.Host(name), q.Rollout, leaf); at != Converged && at != AtTarget {
				return true
			}
		}
	}
	return false
}

// canaries reports whether as many other members were given the target as may be until
// one has converged.
func (f *Facts) canaries(q *Request) bool {
	r := q.Rollout
	most := r.Manifest.Header.CanaryMax
	if most == 0 {
		most = r.Absent
	}
	if most == 0 || r.Glass || r.Soaked != 0 && r.Soaked <= q.At {
		return false
	}
	n := 0
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		if leaf.Host == q.Host.Name {
			continue
		}
		switch f.Position(f.Host(leaf.Host), r, leaf) {
		case Offered, UnderWay, Broken, Returning, Back:
			n++
		default:
			if r.Marks[leaf.Host].Claimed {
				n++
			}
		}
	}
	return n >= most
}

// Opening is what is due for the newest ref of a channel.
type Opening uint8

// What may be due: nothing, that the ref waits for the rollout before it, that it waits
// for another channel, or that it opens.
const (
	OpensNothing Opening = iota
	Queues
	Defers
	Opens
)

// Opening says what is due for a channel's newest ref, and which edge it waits for.
func (f *Facts) Opening(c *Channel) (Opening, *fleet.Edge) {
	ref, cur := c.next(), c.Active
	if ref == nil {
		return OpensNothing, nil
	}
	if cur != nil {
		outdated := f.outdated(cur) && f.releaseEpoch >= f.Epoch
		keeps := c.OnNewRef != fleet.Supersede && cur.Granted && !outdated && !f.overtaken(cur)
		if cur.Reverting || !cur.Phase.Ended() && (keeps || f.Barred[ref.Digest]) {
			return Queues, nil
		}
	}
	for i := range f.Edges {
		if e := &f.Edges[i]; e.Gated == c.Name && f.unfinished(f.Channel(e.Gates)) != "" {
			return Defers, e
		}
	}
	return Opens, nil
}

// unfinished names the rollout of a channel that others wait for, and its phase:
// halted and reverted ones count until they are cancelled or replaced.
func (f *Facts) unfinished(c *Channel) string {
	if r := c.Latest; r != nil && !r.Final && (r.Granted || len(r.Manifest.Leaves) == 0 || f.all(r).Hosts > 0) && r.Phase != rollout.Terminal && r.Phase != rollout.Superseded {
		return r.Name + " is " + string(r.Phase)
	}
	if ref := c.next(); ref != nil {
		return ref.Rollout + " is about to open"
	}
	return ""
}
