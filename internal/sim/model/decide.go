package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// decider takes decisions one by one: each is a fact for the next.
type decider struct {
	*facts
	now   clock.Instant
	words []string
	err   error
}

func (d *decider) do(name string, ev event.Event) {
	d.words = append(d.words, Words(name, ev))
	if err := d.take(&Entry{At: d.now, Host: name, Event: ev}); err != nil && d.err == nil {
		d.err = err
	}
}

func (f *facts) channelNames() []string { return slices.Sorted(maps.Keys(f.channels)) }
func (f *facts) hostNames() []string    { return slices.Sorted(maps.Keys(f.hosts)) }

// tick decides all that is due: what time ends, then every channel again and again
// until none has anything to decide, then repairs, and so on until nothing is left.
func (d *decider) tick() {
	for _, name := range d.hostNames() {
		d.timeEnds(d.host(name))
	}
	for before := -1; before != len(d.words) && d.err == nil; {
		before = len(d.words)
		for calm := -1; calm != len(d.words) && d.err == nil; {
			calm = len(d.words)
			for _, name := range d.channelNames() {
				d.channel(d.channels[name])
			}
		}
		d.repairs()
	}
}

// timeEnds ends an offer that nobody claimed, a freeze, and the patience with a
// host that acts and is silent.
func (d *decider) timeEnds(h *hostFacts) {
	if g := h.grant; g != nil && !g.claimed && g.expires <= d.now {
		d.end(h)
	}
	if h.frozen != 0 && h.frozen <= d.now {
		d.do(h.name, event.HostUnfrozen{})
	}
	silent, overdue := d.deadline(h), d.overdueAt(h)
	if h.silentAt == 0 || h.failed {
		silent = 0
	}
	if h.failed && !h.online {
		overdue = 0
	}
	first, there := silent, false
	if overdue != 0 && (silent == 0 || overdue < silent) {
		first, there = overdue, h.online
	}
	if h.acts() && !h.overdue && first != 0 && first <= d.now {
		ev := event.HostFailedSilently{Manifest: h.actsFor(), Deadline: first, Overdue: there}
		if h.grant != nil && h.grant.claimed {
			ev.Grant = h.grant.id
		}
		d.do(h.name, ev)
	}
	d.freeSlot(h)
}

func (d *decider) end(h *hostFacts) { d.do(h.name, event.GrantEnded{Grant: h.grant.id}) }

// endOffers takes back what a rollout offers and nobody claimed.
func (d *decider) endOffers(r *rolloutFacts) {
	for i := range r.manifest.Leaves {
		if h := d.host(r.manifest.Leaves[i].Host); d.where(h, r, &r.manifest.Leaves[i]) == offered {
			d.end(h)
		}
	}
}

func (d *decider) move(r *rolloutFacts, to rollout.Phase) {
	d.do("", event.RolloutMoved{Manifest: r.manifest.Digest, From: string(r.phase), To: string(to)})
}

// channel decides what one channel has to.
func (d *decider) channel(c *channelFacts) {
	d.open(c)
	r := c.latest
	if r != nil && c.active == r && !r.phase.Ended() {
		d.advance(r)
	}
	if r != nil && c.active == r && r.phase == rollout.Failed && !r.reverting && r.manifest.Header.Policy.OnHealthFailure == fleet.RollbackAndHalt {
		for w := range r.excused { // it halted for want of proof, which has come since
			if r.excused[w] == 0 && r.proven(w) > r.manifest.Header.Policy.MaxFailures {
				d.do("", event.RolloutReverting{Manifest: r.manifest.Digest, Wave: w})
				break
			}
		}
	}
	if r != nil && r.reverting {
		d.sendBack(r)
	}
	d.serve(c, r)
	if c.converged != r {
		d.serve(c, c.converged)
	}
	if r != nil && c.active == r && !r.phase.Ended() && !r.reverting && !r.paused {
		d.hold(r)
	}
	d.open(c)
}

// open opens the newest ref, or says what it waits for.
func (d *decider) open(c *channelFacts) {
	ref, cur := c.next(), c.active
	if ref == nil {
		return
	}
	if cur != nil && (cur.reverting || !cur.phase.Ended() && (c.onNewRef != fleet.Supersede && cur.granted && !(d.outdated(cur) && d.epochOf >= d.keys) || d.barred[ref.Digest])) {
		if c.queued != ref.Digest {
			ev := event.RolloutQueued{Channel: c.name, Manifest: ref.Digest}
			if c.queued != "" {
				ev.Dropped = c.queued.Short()
			}
			d.do("", ev)
		}
		return
	}
	for _, e := range d.edges {
		if before := d.channels[e.Gates]; e.Gated == c.name && before != nil && d.unfinished(before) != "" {
			ev := event.RolloutDeferred{Channel: c.name, TargetRef: ref.Rollout, BlockedBy: e.Gates,
				Reason: fmt.Sprintf("channel %s waits for channel %s (%s): rollout %s", c.name, e.Gates, e.Reason, d.unfinished(before))}
			if c.deferral != ev.TargetRef+" "+ev.BlockedBy+" "+ev.Reason {
				d.do("", ev)
			}
			return
		}
	}
	if cur != nil {
		d.move(cur, rollout.Superseded)
		d.endOffers(cur)
	}
	d.do("", event.RolloutOpened{Rollout: ref.Rollout, Channel: c.name, Manifest: ref.Digest})
	switch {
	case d.says(fleet.OverrideCancel, "", ref.Digest, "", ""):
		d.do("", event.RolloutMoved{Manifest: ref.Digest, From: string(rollout.Opening), To: string(rollout.Failed), Final: true})
	case d.barred[ref.Digest]:
		d.move(c.latest, rollout.Failed)
	default:
		d.move(c.latest, rollout.Active)
	}
	if d.says(fleet.OverrideBreakGlass, "", ref.Digest, "", "") && !c.latest.phase.Ended() {
		d.do("", event.GlassBroken{Manifest: ref.Digest, Wave: len(c.latest.manifest.Header.Waves) - 1})
	}
	if d.says(fleet.OverrideRollback, "", ref.Digest, "", "") {
		d.do("", event.RolloutReverting{Manifest: ref.Digest, Wave: c.latest.cursor, Override: "signed"})
	}
}

// unfinished names the rollout of a channel that others wait for, and its phase:
// halted and reverted ones count until they are cancelled or replaced.
func (f *facts) unfinished(c *channelFacts) string {
	if r := c.latest; r != nil && !r.final && (r.granted || len(r.manifest.Leaves) == 0 || f.everyWave(r).hosts > 0) && r.phase != rollout.Terminal && r.phase != rollout.Superseded {
		return r.name + " is " + string(r.phase)
	}
	if ref := c.next(); ref != nil {
		return ref.Rollout + " is about to open"
	}
	return ""
}

// excess is the first wave with more failures than the policy allows, or -1.
func (r *rolloutFacts) excess() int {
	for w := range r.excused {
		if r.failures(w)-r.excused[w] > r.manifest.Header.Policy.MaxFailures {
			return w
		}
	}
	return -1
}

// advance fires the failure policy, or promotes as many waves as are proven and
// ends the rollout after its last.
func (d *decider) advance(r *rolloutFacts) {
	p := &r.manifest.Header.Policy
	if w := r.excess(); w >= 0 && !r.reverting {
		d.quarantine(r)
		d.endOffers(r)
		if p.OnHealthFailure == fleet.Halt || r.proven(w) <= p.MaxFailures {
			d.move(r, rollout.Failed)
			return
		}
		d.do("", event.RolloutReverting{Manifest: r.manifest.Digest, Wave: w})
		return
	}
	for !r.reverting && !r.paused {
		if d.unproven(r, d.now) != "" {
			if !d.force(r) || r.phase.Ended() {
				return
			}
			continue
		}
		if r.cursor == len(r.manifest.Header.Waves)-1 {
			d.move(r, rollout.Terminal)
			return
		}
		t := d.count(r, r.cursor, r.cursor)
		d.do("", event.WavePromoted{Manifest: r.manifest.Digest, Wave: r.cursor, Evidence: t.arrived, AtTarget: t.has,
			Failed: r.failures(r.cursor), Skipped: t.away, Absent: t.absent})
	}
}

// quarantine refuses what members failed on, and reports whether that is news.
func (d *decider) quarantine(r *rolloutFacts) (news bool) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if m := r.marks[leaf.Host]; m != nil && (m.failed || m.refused) && !d.channels[r.channel].quarantine[leaf.Target] {
			d.do("", event.QuarantineAdded{Channel: r.channel, Digest: leaf.Target, Rollout: r.name})
			news = true
		}
	}
	return news
}

// hold tells a rollout that only waits for hosts on their way from one that has
// more to grant, and says what holds its wave when that is new.
func (d *decider) hold(r *rolloutFacts) {
	all := d.everyWave(r)
	more := r.cursor < len(r.manifest.Header.Waves)-1 || all.ready > 0
	switch {
	case !more && r.phase == rollout.Active && all.moving > 0:
		d.move(r, rollout.Converging)
	case more && r.phase == rollout.Converging:
		d.move(r, rollout.Active)
	}
	if why := d.unproven(r, d.now); why != "" && r.held != strconv.Itoa(r.cursor)+"/"+why {
		d.do("", event.WaveHeld{Manifest: r.manifest.Digest, Wave: r.cursor, Code: strconv.Itoa(r.cursor) + "/" + why})
	}
}

// prunable lists ended rollouts that nobody needs: beyond the last ones of their
// channel, old enough, and with no host on them.
func (f *facts) prunable(keep int, age clock.Duration, now clock.Instant) []string {
	var out []string
	for i, r := range f.rollouts {
		c, newer := f.channels[r.channel], 0
		for _, other := range f.rollouts[i+1:] {
			if !other.gone && other.channel == r.channel {
				newer++
			}
		}
		if r.gone || newer < keep || r == c.active || r == c.latest || r == c.converged || !r.phase.Ended() || f.stoodOn(r.manifest.Digest) {
			continue
		}
		if r.endedAt.Add(age) <= now {
			out = append(out, Words("", event.RolloutPruned{Manifest: r.manifest.Digest, Phase: string(r.phase)}))
		}
	}
	return out
}

func (f *facts) stoodOn(d digest.Digest) bool {
	for _, name := range f.hostNames() {
		h := f.host(name)
		if h.machine.Manifest == d || h.grant != nil && h.grant.manifest == d || h.need != nil && h.need.Manifest == d {
			return true
		}
	}
	return false
}
