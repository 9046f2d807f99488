package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// decider takes decisions one by one: each is a fact for the next.
type decider struct {
	*Facts
	now  clock.Instant
	made []string
	err  error
}

func (d *decider) do(name string, ev event.Event) {
	d.made = append(d.made, Describe(name, ev))
	if err := d.Apply(event.Entry{At: d.now, Subject: event.HostSubject(name), Type: ev.EventType()}, ev); err != nil && d.err == nil {
		d.err = err
	}
}

func (f *Facts) channelNames() []string { return slices.Sorted(maps.Keys(f.channels)) }
func (f *Facts) hostNames() []string    { return slices.Sorted(maps.Keys(f.hosts)) }

// tick decides all that is due: what time ends, then every channel again and again
// until none has anything to decide, then repairs, and so on until nothing is left.
func (d *decider) tick() {
	for _, name := range d.hostNames() {
		d.timeEnds(d.Host(name))
	}
	for before := -1; before != len(d.made) && d.err == nil; {
		before = len(d.made)
		for calm := -1; calm != len(d.made) && d.err == nil; {
			calm = len(d.made)
			for _, name := range d.channelNames() {
				d.channel(d.channels[name])
			}
		}
		d.repairs()
	}
}

// timeEnds ends an offer that nobody claimed, a freeze, the patience with a host that
// acts and does not report, and the slot of a retired host once what it was granted is
// over: its time has come, and a host that acted was given up.
func (d *decider) timeEnds(h *Host) {
	if g := h.Grant; g != nil && !g.Claimed && g.Expires <= d.now {
		d.expired(h)
	}
	if h.Frozen != 0 && h.Frozen <= d.now {
		d.do(h.Name, event.HostUnfrozen{})
	}
	if at, there := d.SilenceEnds(h); at != 0 && at <= d.now {
		ev := event.HostFailedSilently{Manifest: h.ActsFor(), Deadline: at, Overdue: there}
		if h.Grant != nil && h.Grant.Claimed {
			ev.Grant = h.Grant.ID
		}
		d.do(h.Name, ev)
	}
	if d.FreesSlot(h, d.now) {
		d.do(h.Name, event.HostSlotFreed{})
	}
}

// FreesSlot reports whether a retired host gives its slot back.
func (f *Facts) FreesSlot(h *Host, now clock.Instant) bool {
	return h.Identity == Retired && !h.Freed && h.SlotUntil <= now && (h.SilentFailure || !h.acts())
}

func (d *decider) end(h *Host) { d.do(h.Name, event.GrantEnded{Grant: h.Grant.ID}) }

// expired ends an offer that nobody claimed. A host that is there has time off: five seconds,
// and twice as long each time up to ten minutes.
func (d *decider) expired(h *Host) {
	ev := event.GrantEnded{Grant: h.Grant.ID}
	switch {
	case !h.Reachable():
	case h.Grant.Purpose != host.Repair:
		ev.NotBefore = d.now.Add(timeOff(h.Untaken))
	case h.Need != nil:
		ev.NotBefore = d.now.Add(timeOff(h.UntakenRepairs))
	}
	d.do(h.Name, ev)
}

func timeOff(untaken int) clock.Duration {
	off := 5 * clock.Second
	for range min(untaken, 7) {
		off *= 2
	}
	return min(off, 10*clock.Minute)
}

// endOffers takes back what a rollout offers and nobody claimed.
func (d *decider) endOffers(r *Rollout) {
	for i := range r.Manifest.Leaves {
		if h := d.Host(r.Manifest.Leaves[i].Host); d.Position(h, r, &r.Manifest.Leaves[i]) == Offered {
			d.end(h)
		}
	}
}

func (d *decider) move(r *Rollout, to rollout.Phase) {
	d.do("", event.RolloutMoved{Manifest: r.Manifest.Digest, From: string(r.Phase), To: string(to)})
}

// channel decides what one channel has to.
func (d *decider) channel(c *Channel) {
	d.open(c)
	r := c.Latest
	if r != nil && c.Active == r && !r.Phase.Ended() {
		d.advance(r)
	}
	if r != nil && c.Active == r && r.Phase == rollout.Failed && !r.Reverting && r.Manifest.Header.Policy.OnHealthFailure == fleet.RollbackAndHalt {
		for w := range r.Excused { // it halted for want of proof, which has come since
			if r.Excused[w] == 0 && r.Proven(w) > r.Manifest.Header.Policy.MaxFailures {
				d.do("", event.RolloutReverting{Manifest: r.Manifest.Digest, Wave: w})
				break
			}
		}
	}
	if r != nil && r.Reverting {
		d.sendBack(r)
	}
	d.serve(c, r)
	if c.Converged != r {
		d.serve(c, c.Converged)
	}
	if r != nil && c.Active == r && !r.Phase.Ended() && !r.Reverting && !r.Paused {
		d.hold(r)
	}
	d.open(c)
}

// open opens the newest ref, or says what it waits for.
func (d *decider) open(c *Channel) {
	due, edge := d.Opening(c)
	ref, cur := c.next(), c.Active
	switch due {
	case OpensNothing:
		return
	case Queues:
		if c.Queued != ref.Digest {
			ev := event.RolloutQueued{Channel: c.Name, Manifest: ref.Digest}
			if c.Queued != "" {
				ev.Dropped = c.Queued.Short()
			}
			d.do("", ev)
		}
		return
	case Defers:
		ev := event.RolloutDeferred{Channel: c.Name, TargetRef: ref.Rollout, BlockedBy: edge.Gates,
			Reason: fmt.Sprintf("channel %s waits for channel %s (%s): rollout %s", c.Name, edge.Gates, edge.Reason, d.unfinished(d.Channel(edge.Gates)))}
		if !d.Deferred(ev) {
			d.do("", ev)
		}
		return
	}
	if cur != nil {
		d.move(cur, rollout.Superseded)
		d.endOffers(cur)
	}
	d.do("", event.RolloutOpened{Rollout: ref.Rollout, Channel: c.Name, Manifest: ref.Digest})
	switch {
	case d.err != nil:
		return
	case d.InForce(fleet.OverrideCancel, "", ref.Digest, "", ""):
		d.do("", event.RolloutMoved{Manifest: ref.Digest, From: string(rollout.Opening), To: string(rollout.Failed), Final: true})
	case d.Barred[ref.Digest]:
		d.move(c.Latest, rollout.Failed)
	default:
		d.move(c.Latest, rollout.Active)
	}
	if d.InForce(fleet.OverrideBreakGlass, "", ref.Digest, "", "") && !c.Latest.Phase.Ended() {
		d.do("", event.BreakGlassUsed{Manifest: ref.Digest, Wave: len(c.Latest.Manifest.Header.Waves) - 1})
	}
	if d.InForce(fleet.OverrideRollback, "", ref.Digest, "", "") {
		d.do("", event.RolloutReverting{Manifest: ref.Digest, Wave: c.Latest.Cursor, Override: "signed"})
	}
}

// advance fires the failure policy, or promotes as many waves as are proven and
// ends the rollout after its last.
func (d *decider) advance(r *Rollout) {
	p := &r.Manifest.Header.Policy
	if w := r.Excess(); w >= 0 && !r.Reverting {
		d.quarantine(r)
		d.endOffers(r)
		if p.OnHealthFailure == fleet.Halt || r.Proven(w) <= p.MaxFailures {
			d.move(r, rollout.Failed)
			return
		}
		d.do("", event.RolloutReverting{Manifest: r.Manifest.Digest, Wave: w})
		return
	}
	for !r.Reverting && !r.Paused {
		if d.Unproven(r, d.now) != "" {
			if !d.force(r) || r.Phase.Ended() {
				return
			}
			continue
		}
		if r.Cursor == len(r.Manifest.Header.Waves)-1 {
			d.move(r, rollout.Terminal)
			return
		}
		t := d.Tally(r, r.Cursor, r.Cursor)
		d.do("", event.WavePromoted{Manifest: r.Manifest.Digest, Wave: r.Cursor, Evidence: t.Converged, AtTarget: t.AtTarget,
			Failed: r.failures(r.Cursor), Skipped: t.Away, Absent: t.Absent})
	}
}

// force lets the open wave of a rollout pass on an override that was signed for it, if
// nothing but evidence is missing: a soak that has not passed on the server's clock is
// evidence that is missing, too. The last wave ends the rollout.
func (d *decider) force(r *Rollout) bool {
	waves := r.Manifest.Header.Waves
	signed := d.last(fleet.OverridePromote, "", r.Manifest.Digest, "", "", waves[r.Cursor].Name)
	if signed == nil || r.Forced[r.Cursor] || d.blocked(r) || d.Barred[r.Manifest.Digest] {
		return false
	}
	if why := d.Unproven(r, d.now); why != Evidence && why != Soak {
		return false
	}
	t := d.Tally(r, r.Cursor, r.Cursor)
	d.do("", event.WaveForced{Manifest: r.Manifest.Digest, Wave: r.Cursor, Evidence: t.Converged, AtTarget: t.AtTarget, Failed: r.failures(r.Cursor),
		Skipped: t.Away, Waiting: t.Ready, Failing: d.Outstanding(r, r.Cursor+1)})
	if r.Cursor == len(waves)-1 && r.Forced[r.Cursor] {
		d.move(r, rollout.Terminal)
	}
	return true
}

// quarantine refuses what members failed on, and reports whether that is news.
func (d *decider) quarantine(r *Rollout) (news bool) {
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		if m := r.Marks[leaf.Host]; (m.Failed && !m.Away || m.Refused) && !d.Channel(r.Channel).Quarantined[leaf.Target] {
			d.do("", event.QuarantineAdded{Channel: r.Channel, Digest: leaf.Target, Rollout: r.Name})
			news = true
		}
	}
	return news
}

// hold tells a rollout that only waits for hosts on their way from one that has
// more to grant, and says what holds its wave when that is new.
func (d *decider) hold(r *Rollout) {
	all := d.all(r)
	more := r.Cursor < len(r.Manifest.Header.Waves)-1 || all.Ready > 0
	switch {
	case !more && r.Phase == rollout.Active && all.Moving > 0:
		d.move(r, rollout.Converging)
	case more && r.Phase == rollout.Converging:
		d.move(r, rollout.Active)
	}
	if why := d.Unproven(r, d.now); why != "" && r.Blocked != strconv.Itoa(r.Cursor)+"/"+why {
		d.do("", event.WaveBlocked{Manifest: r.Manifest.Digest, Wave: r.Cursor, Code: strconv.Itoa(r.Cursor) + "/" + why})
	}
}

// Used returns a host that is on a manifest, or nil.
func (f *Facts) Used(d digest.Digest) *Host {
	for _, name := range f.hostNames() {
		h := f.Host(name)
		if h.Manifest == d || h.Grant != nil && h.Grant.Manifest == d || h.Need != nil && h.Need.Manifest == d {
			return h
		}
	}
	return nil
}

// grant gives a host a grant if no rule keeps it from that; a grant that yields ends.
func (d *decider) grant(h *Host, r *Rollout, p host.Purpose, target digest.Digest) {
	q := Request{Host: h, Rollout: r, Purpose: p, Target: target, At: d.now, Replaces: p == host.Update || p == host.Rollback}
	if !d.may(q) {
		return
	}
	if h.Grant != nil {
		d.end(h)
	}
	ev := event.Granted{Grant: "due", Manifest: r.Manifest.Digest, Purpose: p, Target: target, Expires: d.now.Add(r.Manifest.Header.Policy.GrantExpiry)}
	if leaf := leafOf(r.Manifest, h.Name); leaf != nil {
		ev.Wave = leaf.Wave
		if p != host.Rollback {
			for _, w := range r.Manifest.Header.WindowsOf(leaf) {
				ev.Expires = min(ev.Expires, w.Closes(d.now, ev.Expires))
			}
		}
	}
	d.do(h.Name, ev)
}

// sendBack sends back every host that acted on a reverting rollout and is still on
// it, and ends the revert when none that can be heard is left.
func (d *decider) sendBack(r *Rollout) {
	for i := range r.Manifest.Leaves {
		h := d.Host(r.Manifest.Leaves[i].Host)
		d.grant(h, r, host.Rollback, h.From)
	}
	if d.Awaited(r) == nil && (!r.Phase.Ended() || r.Phase == rollout.Failed && !(r.Final && !r.Ordered)) {
		d.move(r, rollout.Reverted)
	}
}

// serve grants what a rollout has to give.
func (d *decider) serve(c *Channel, r *Rollout) {
	if r == nil {
		return
	}
	if r.Phase == rollout.Terminal && r.Excess() >= 0 && d.quarantine(r) {
		d.endOffers(r)
	}
	if d.outdated(r) {
		d.endOffers(r)
		return
	}
	if !r.gives() || d.stale(c, d.now, d.latest) {
		return
	}
	for _, first := range []bool{true, false} {
		for _, i := range d.order(r, first) {
			leaf := &r.Manifest.Leaves[i]
			d.grant(d.Host(leaf.Host), r, host.Update, leaf.Target)
		}
	}
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		d.grant(d.Host(leaf.Host), r, host.Reboot, leaf.Target)
	}
}

// order lists the members that have a slot already, or those that have none: by
// name, but those of one wave with the same budgets and windows together.
func (d *decider) order(r *Rollout, holders bool) []int {
	all := d.budgets()
	var out []int
	seen := make([]bool, len(r.Manifest.Leaves))
	for i := range r.Manifest.Leaves {
		if seen[i] {
			continue
		}
		for j := i; j < len(r.Manifest.Leaves); j++ {
			a, b := &r.Manifest.Leaves[i], &r.Manifest.Leaves[j]
			alike := holders && i == j || !holders && a.Wave == b.Wave && slices.Equal(a.Windows, b.Windows) && slices.Equal(of(all, a.Host), of(all, b.Host))
			if !seen[j] && alike {
				seen[j] = true
				if d.Host(b.Host).inFlight() == holders {
					out = append(out, j)
				}
			}
		}
	}
	return out
}

// budgets lists the members of each budget that counts now. The same hosts with the
// same limit are one budget.
func (f *Facts) budgets() [][]string {
	var out [][]string
	var known []fleet.Budget
	for _, name := range f.channelNames() {
		c := f.channels[name]
		for _, r := range []*Rollout{c.Latest, c.Converged} {
			if r == nil {
				continue
			}
			for i, b := range r.Manifest.Header.Budgets {
				if key := (fleet.Budget{Max: b.Max, Members: b.Members}); !slices.Contains(known, key) {
					known, out = append(known, key), append(out, r.Manifest.Members[i])
				}
			}
		}
	}
	return out
}

// of lists the budgets that a host belongs to.
func of(all [][]string, name string) []int {
	var out []int
	for i := range all {
		if slices.Contains(all[i], name) {
			out = append(out, i)
		}
	}
	return out
}

// repairs grants to the hosts whose drift waits, in the order in which they asked.
func (d *decider) repairs() {
	var line []*Host
	for _, name := range d.hostNames() {
		if h := d.Host(name); h.Need != nil {
			line = append(line, h)
		}
	}
	slices.SortFunc(line, func(a, b *Host) int { return a.Place - b.Place })
	for _, h := range line {
		if r := d.Find(h.Need.Manifest); r != nil {
			d.grant(h, r, host.Repair, h.Need.Bundle)
		}
	}
}
