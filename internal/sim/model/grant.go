package model

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/window"
)

// grant gives a host a grant; an idle one that it has gives way.
func (d *decider) grant(h *hostFacts, r *rolloutFacts, p host.Purpose, target digest.Digest) {
	if h.grant != nil {
		d.end(h)
	}
	ev := event.Granted{Grant: "the model's", Manifest: r.manifest.Digest, Purpose: p, Target: target, Expires: d.now.Add(r.manifest.Header.Policy.GrantExpiry)}
	if i, member := r.manifest.Leaf(h.name); member {
		ev.Wave = r.manifest.Leaves[i].Wave
		if p != host.Back {
			for _, w := range d.windows(r, i) {
				ev.Expires = min(ev.Expires, w.Closes(d.now, ev.Expires))
			}
		}
	}
	d.do(h.name, ev)
}

func (d *decider) windows(r *rolloutFacts, leaf int) []window.Window {
	return r.manifest.Header.WindowsOf(&r.manifest.Leaves[leaf])
}

// sendBack sends back every host that acted on a reverting rollout and is still on
// it, and ends the revert when none that can be heard is left.
func (d *decider) sendBack(r *rolloutFacts) {
	for i := range r.manifest.Leaves {
		h := d.host(r.manifest.Leaves[i].Host)
		free := h.grant == nil || d.gives(h)
		if d.stays(h, r) && h.there() && free && h.notBefore <= d.now && d.mayTake(h) {
			d.grant(h, r, host.Back, h.machine.From)
		}
	}
	if r.phase.Ended() && (r.phase != rollout.Failed || r.final && !r.ordered) {
		return
	}
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := d.host(leaf.Host)
		took := r.ordered || r.marks[h.name] != nil && r.marks[h.name].claimed
		st := d.where(h, r, leaf)
		heard := !h.failed && (h.there() || h.acts())
		if heard && (d.stays(h, r) || took && (st == underWay || st == breaking)) {
			return
		}
	}
	d.move(r, rollout.Reverted)
}

// stays reports whether a host that acted on a rollout still runs it, or tries to,
// and has not tried to leave it in vain.
func (d *decider) stays(h *hostFacts, r *rolloutFacts) bool {
	m := &h.machine
	if m.Manifest != r.manifest.Digest || !r.ordered && (r.marks[h.name] == nil || !r.marks[h.name].claimed) {
		return false
	}
	switch m.Phase {
	case host.Activating, host.Soaking, host.Deferred, host.Converged:
		return true
	}
	return m.Phase == host.Failed && !m.Reverting && m.RevertFailures == 0
}

// gives reports whether the host's grant gives way to a rollout: nobody claimed it
// and it is for a repair or a reboot.
func (d *decider) gives(h *hostFacts) bool {
	g := h.grant
	return g != nil && !g.claimed && (g.purpose == host.Repair || g.purpose == host.Reboot)
}

// mayTake reports whether the budgets of a host let it take a grant of a rollout.
// One that is in flight uses the slot that it has, but must find room again if it
// only waits there.
func (d *decider) mayTake(h *hostFacts) bool {
	switch {
	case h.idle():
		return d.room(h, true)
	case h.machine.InFlight() || h.failed || h.grant != nil && !d.gives(h):
		return true
	}
	return d.room(h, false)
}

// serve grants what a rollout has to give.
func (d *decider) serve(c *channelFacts, r *rolloutFacts) {
	if r == nil {
		return
	}
	if r.phase == rollout.Terminal && r.excess() >= 0 && d.quarantine(r) {
		d.endOffers(r)
	}
	gives := !r.reverting && !r.paused && (!r.phase.Ended() || r.phase == rollout.Terminal)
	old := max(d.now.Sub(d.fresh), d.seen.Sub(d.taken)) // of the statement
	if d.outdated(r) {
		d.endOffers(r)
		return
	}
	if !gives || d.held(r) || d.barred[r.manifest.Digest] || d.fresh == 0 || old > c.window {
		return
	}
	for _, i := range d.order(r, true) {
		d.forward(c, r, i)
	}
	for _, i := range d.order(r, false) {
		d.forward(c, r, i)
	}
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := d.host(leaf.Host)
		if !h.idle() || h.machine.Manifest != r.manifest.Digest || !h.there() || !d.ready(c, r, i) || !d.room(h, true) {
			continue
		}
		d.grant(h, r, host.Reboot, leaf.Target)
	}
}

// order lists the members that have a slot already, or those that have none: by
// name, but those of one wave with the same budgets and windows together.
func (d *decider) order(r *rolloutFacts, holders bool) []int {
	all := d.budgets()
	var out []int
	seen := make([]bool, len(r.manifest.Leaves))
	for i := range r.manifest.Leaves {
		if seen[i] {
			continue
		}
		for j := i; j < len(r.manifest.Leaves); j++ {
			a, b := &r.manifest.Leaves[i], &r.manifest.Leaves[j]
			alike := holders && i == j || !holders && a.Wave == b.Wave && slices.Equal(a.Windows, b.Windows) && slices.Equal(of(all, a.Host), of(all, b.Host))
			if !seen[j] && alike {
				seen[j] = true
				if d.host(b.Host).inFlight() == holders {
					out = append(out, j)
				}
			}
		}
	}
	return out
}

// forward grants a member the target if nothing holds it.
func (d *decider) forward(c *channelFacts, r *rolloutFacts, i int) {
	leaf := &r.manifest.Leaves[i]
	h := d.host(leaf.Host)
	if d.where(h, r, leaf) != waits || !h.there() || leaf.Wave > r.cursor || !d.ready(c, r, i) || d.failingEvidence(r, leaf.Wave) || !d.mayTake(h) {
		return
	}
	if newer := c.latest; newer != nil && newer != r && !newer.phase.Ended() && !newer.reverting {
		if j, member := newer.manifest.Leaf(h.name); member {
			there := &newer.manifest.Leaves[j]
			if d.where(h, newer, there) != back && there.Wave <= newer.cursor {
				return // it belongs to the newer one
			}
		}
	}
	if most := r.manifest.Header.CanaryMax; most > 0 && (r.soaked == 0 || r.soaked > d.now) && d.tried(r, h.name) >= most {
		return
	}
	d.grant(h, r, host.Forward, leaf.Target)
}

// tried counts the members of a rollout that were given its target, one aside.
func (d *decider) tried(r *rolloutFacts, but string) (n int) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Host == but {
			continue
		}
		switch d.where(d.host(leaf.Host), r, leaf) {
		case offered, underWay, broken, breaking, back:
			n++
		default:
			if k := r.marks[leaf.Host]; k != nil && k.claimed {
				n++
			}
		}
	}
	return n
}

// ready asks what a host itself has to say to a grant of the target: no word of
// an operator, no patience, no closed window, and everybody it goes after is there.
func (d *decider) ready(c *channelFacts, r *rolloutFacts, i int) bool {
	leaf := &r.manifest.Leaves[i]
	h := d.host(leaf.Host)
	if h.frozen > d.now || h.notBefore > d.now || d.quarantined(c.name, leaf.Target, h.name) || !window.AllOpen(d.windows(r, i), d.now) {
		return false
	}
	for _, name := range leaf.After {
		j, member := r.manifest.Leaf(name)
		if !member {
			continue
		}
		if st := d.where(d.host(name), r, &r.manifest.Leaves[j]); st != arrived && st != has {
			return false
		}
	}
	return true
}

// repairs grants to the hosts whose drift waits, in the order in which they asked.
func (d *decider) repairs() {
	var line []*hostFacts
	for _, name := range d.hostNames() {
		if h := d.host(name); h.need != nil {
			line = append(line, h)
		}
	}
	slices.SortFunc(line, func(a, b *hostFacts) int { return a.place - b.place })
	for _, h := range line {
		m, n := &h.machine, h.need
		if h.grant != nil || !m.Settled() || n.Manifest != m.Manifest || n.Bundle != m.Current || !h.there() {
			continue
		}
		r, p := d.find(n.Manifest), d.planOf(h.name, n.Manifest)
		if r == nil || p == nil || h.frozen > d.now || h.needBefore > d.now || d.quarantined(p.Channel, n.Bundle, h.name) ||
			!window.AllOpen(p.Windows, d.now) || !d.room(h, false) {
			continue
		}
		if d.channels[p.Channel].latest == r && r.reverting && d.stays(h, r) {
			continue // it is to go back from what it would repair
		}
		ev := event.Granted{Grant: "the model's", Manifest: n.Manifest, Purpose: host.Repair, Target: n.Bundle, Wave: p.Wave}
		ev.Expires = d.now.Add(p.Policy.GrantExpiry)
		for _, w := range p.Windows {
			ev.Expires = min(ev.Expires, w.Closes(d.now, ev.Expires))
		}
		d.do(h.name, ev)
	}
}
