package model

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// stand is where a host is in a rollout.
type stand uint8

const (
	waits    stand = iota // for a grant
	has                   // runs the target already
	busy                  // with something else that has to end first
	offered               // a grant
	underWay              // since it claimed
	arrived               // through its soak
	broken                // and stays so, holding its slot
	breaking              // on its way back
	refuses
	back   // on its earlier bundle
	beyond // took a later rollout and stays there
	missing
)

// where says where a host stands in a rollout.
func (f *facts) where(h *hostFacts, r *rolloutFacts, leaf *fleet.Leaf) stand {
	m, g := &h.machine, h.grant
	if g != nil && (g.purpose == host.Repair || g.purpose == host.Reboot && !g.claimed) {
		g = nil // it has no part in this, or gives way
	}
	in, asked := m.Manifest == r.manifest.Digest, g != nil && g.manifest == r.manifest.Digest
	moving := m.Phase == host.Activating || m.Phase == host.Soaking || m.Phase == host.Deferred
	if h.freed && r.marks[h.name] != nil && r.marks[h.name].claimed {
		return broken // it took part, and nothing more comes of it
	}
	if h.failed && (in || asked && g.claimed) {
		return broken
	}
	if asked && g.purpose == host.Forward {
		if g.claimed {
			return underWay
		}
		return offered
	}
	if in {
		switch {
		case moving:
			return underWay
		case m.Phase == host.Converged:
			return arrived
		case m.Phase == host.Failed && m.Reverting:
			return breaking
		case m.Phase == host.Failed:
			return broken
		case m.Phase == host.Reverted:
			return back
		}
	}
	if m.Current != "" && m.Current == leaf.Target && !m.InFlight() && g == nil {
		return has
	}
	if f.isBeyond(h, r) {
		return beyond
	}
	if m.Staged() { // what is staged gives way to a later rollout: it never ran
		if was := f.find(m.Manifest); was == nil || f.opened(was) < f.opened(r) {
			moving = false
		}
	}
	repairing := h.grant != nil && h.grant.purpose == host.Repair && h.grant.claimed
	switch {
	case h.absent() && g == nil:
		return missing
	case h.failed && !h.there(): // what it was doing elsewhere is waited for no more
	case g != nil, repairing && h.online, moving, m.Phase == host.Failed && m.Reverting:
		return busy
	case r.marks[h.name] != nil && r.marks[h.name].refused:
		return refuses
	}
	return waits
}

// opened is a rollout's place in the order of opening.
func (f *facts) opened(r *rolloutFacts) int { return slices.Index(f.rollouts, r) }

// isBeyond reports whether a host is at home in a rollout that opened after r. One
// that was reverted is a home only until it is followed by another.
func (f *facts) isBeyond(h *hostFacts, r *rolloutFacts) bool {
	m := &h.machine
	if m.Phase != host.Converged && (m.Phase != host.Failed || m.Reverting) {
		return false
	}
	home := f.find(m.Manifest)
	return home != nil && f.opened(home) > f.opened(r) && (!home.reverting || f.channels[home.channel].latest == home)
}

// tally counts where the hosts of some waves stand.
type tally struct {
	hosts                                           int // that are enrolled
	arrived, has, ready, away, moving, back, absent int
}

// count looks at every member of the waves from first to last.
func (f *facts) count(r *rolloutFacts, first, last int) tally {
	var t tally
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Wave < first || leaf.Wave > last {
			continue
		}
		t.hosts++
		h := f.host(leaf.Host)
		switch f.where(h, r, leaf) {
		case arrived:
			if !h.unfit {
				t.arrived++
			}
		case has:
			t.has++
		case busy, offered, underWay, breaking:
			t.moving++
		case back:
			t.back++
		case missing:
			t.absent++
			t.hosts--
		case waits:
			if h.there() {
				t.ready++
			} else {
				t.away++
			}
		}
	}
	return t
}

// everyWave counts all members.
func (f *facts) everyWave(r *rolloutFacts) tally {
	return f.count(r, 0, len(r.manifest.Header.Waves)-1)
}

// unproven says what keeps the open wave from being promoted, or ended if it is
// the last: hosts on their way in it or an earlier one, hosts that wait and are
// there, or too few that arrived. The last may have none of its own if any host of
// the rollout arrived; all are counted together if none did.
func (f *facts) unproven(r *rolloutFacts, now clock.Instant) string {
	waves := r.manifest.Header.Waves
	last := r.cursor == len(waves)-1
	wave, open := f.count(r, r.cursor, r.cursor), f.count(r, 0, r.cursor)
	ready := wave.ready
	if last {
		ready = 0
		for w := range waves {
			if !r.forced[w] {
				ready += f.count(r, w, w).ready
			}
		}
	}
	hosts, at := wave.hosts, wave.has
	if last && open.arrived == 0 {
		hosts, at = open.hosts, open.has
	}
	need, pct := max(1, waves[r.cursor].MinSoaked), waves[r.cursor].MinSoakedPct
	for need*100 < pct*(hosts-at) {
		need++
	}
	enough := wave.arrived >= min(need, hosts-at) && (f.everyWave(r).hosts > 0 || len(r.manifest.Leaves) == 0)
	switch {
	case open.moving > 0:
		return "in-flight"
	case ready > 0:
		return "waiting"
	case !enough && (!last || open.arrived == 0 || pct > 0), f.failingEvidence(r, r.cursor+1):
		return "evidence"
	}
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if h := f.host(leaf.Host); leaf.Wave <= r.cursor && f.where(h, r, leaf) == arrived && f.soakEnds(h, r) > now {
			return "soak"
		}
	}
	return ""
}

// failingEvidence reports whether a host of a wave before one runs its target with
// required evidence that does not pass and that nobody accepted.
func (f *facts) failingEvidence(r *rolloutFacts, before int) bool {
	return len(f.outstanding(r, before)) > 0
}

// budget is one that counts now: of the newest or the last converged rollout of any
// channel. The same hosts with the same limit are one budget.
type budget struct {
	key     fleet.Budget
	members []string
}

func (f *facts) budgets() []budget {
	var out []budget
	for _, name := range f.channelNames() {
		c := f.channels[name]
		for _, r := range []*rolloutFacts{c.latest, c.converged} {
			if r == nil {
				continue
			}
			for i, b := range r.manifest.Header.Budgets {
				key := fleet.Budget{Max: b.Max, Members: b.Members}
				if !slices.ContainsFunc(out, func(x budget) bool { return x.key == key }) {
					out = append(out, budget{key, r.manifest.Members[i]})
				}
			}
		}
	}
	return out
}

// of lists the budgets that a host belongs to.
func of(all []budget, name string) []int {
	var out []int
	for i := range all {
		if slices.Contains(all[i].members, name) {
			out = append(out, i)
		}
	}
	return out
}

// room reports whether one more host may be disrupted in each of a host's budgets:
// one that already holds a slot counts as itself. Idle says that hosts which are
// staged and wait for their reboot are no disruption.
func (f *facts) room(h *hostFacts, idle bool) bool {
	for _, b := range f.budgets() {
		if !slices.Contains(b.members, h.name) {
			continue
		}
		others := 0
		for _, name := range b.members {
			o := f.host(name)
			if o != h && o.inFlight() && (!idle || !o.idle()) {
				others++
			}
		}
		if others >= b.key.Max {
			return false
		}
	}
	return true
}

// idle reports whether a host is staged and waits for the grant to reboot.
func (h *hostFacts) idle() bool { return h.machine.Staged() && h.grant == nil }
