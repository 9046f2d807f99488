package oracle

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Position is where a host is in a rollout.
type Position uint8

// The positions.
const (
	Waiting   Position = iota // for a grant
	AtTarget                  // runs the target already
	Busy                      // with something else that has to end first
	Offered                   // a grant
	UnderWay                  // since it claimed
	Converged                 // through its soak
	Broken                    // and stays so, in its slot
	Returning                 // on its way back
	Refusing                  // the target
	Back                      // on its earlier bundle
	Ahead                     // took a later rollout and stays there
	Absent                    // never enrolled, or retired
)

// Position says where a host is in a rollout that names it by leaf.
func (f *Facts) Position(h *Host, r *Rollout, leaf *fleet.Leaf) Position {
	g := h.Grant
	if g != nil && (g.Purpose == host.Repair || g.Purpose == host.Reboot && !g.Claimed) {
		g = nil // it has no part in this, or gives way
	}
	in, asked := h.Manifest == r.Manifest.Digest, g != nil && g.Manifest == r.Manifest.Digest
	switch {
	case h.Freed && r.Marks[h.Name].Claimed: // it took part, and nothing more comes of it
		return Broken
	case h.SilentFailure && (in || asked && g.Claimed):
		return Broken
	case asked && g.Purpose == host.Update && g.Claimed:
		return UnderWay
	case asked && g.Purpose == host.Update:
		return Offered
	}
	if in && !f.anew(h, r) {
		switch {
		case h.Phase == host.Activating || h.Phase == host.Soaking || h.Phase == host.Deferred:
			return UnderWay
		case h.Phase == host.Converged:
			return Converged
		case h.Phase == host.Failed && h.Reverting:
			return Returning
		case h.Phase == host.Failed:
			return Broken
		case h.Phase == host.Reverted:
			return Back
		}
	}
	switch {
	case h.Current != "" && h.Current == leaf.Target && !h.unfinished() && g == nil:
		return AtTarget
	case f.isAhead(h, r):
		return Ahead
	case h.absent() && g == nil:
		return Absent
	case h.SilentFailure && !h.Reachable(): // what it was doing elsewhere is waited for no more
	case g != nil, f.busy(h, r):
		return Busy
	case r.Marks[h.Name].Refused, in && f.anew(h, r) && !r.SignedRetry && h.quarantinesTarget():
		return Refusing
	}
	return Waiting
}

// unfinished reports whether what the machine claimed has not ended well.
func (m *Machine) unfinished() bool { return m.moving() || m.Phase == host.Failed }

// busy reports whether a host is in the middle of something that is no part of a
// rollout. What is staged gives way to a later rollout: it never ran.
func (f *Facts) busy(h *Host, r *Rollout) bool {
	if h.repairs() && h.Reachable() {
		return true
	}
	if h.Staged() {
		was := f.Find(h.Manifest)
		return was != nil && was.Order >= r.Order
	}
	return h.moving()
}

// isAhead reports whether a host is at home in a rollout that opened after r. One
// that was reverted is a home only until it is followed by another.
func (f *Facts) isAhead(h *Host, r *Rollout) bool {
	if h.Phase != host.Converged && (h.Phase != host.Failed || h.Reverting) {
		return false
	}
	home := f.Find(h.Manifest)
	if home == nil { // the log has no more of it than that
		was := r.Manifest.Header.Document
		return h.Channel == r.Channel && was.Version > 0 && (was.Epoch < h.Release.Epoch || was.Epoch == h.Release.Epoch && was.Version < h.Release.Version)
	}
	return home.Order > r.Order && (!home.Reverting || f.Channel(home.Channel).Latest == home)
}

// overtaken reports whether a host of an open wave is at home in a later rollout of which
// the log lacks all, and too few are left to prove this one.
func (f *Facts) overtaken(r *Rollout) bool {
	if moving, ready, short := f.proof(r); moving > 0 || ready > 0 || !short {
		return false
	}
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		h := f.Host(leaf.Host)
		if leaf.Wave <= r.Cursor && f.Find(h.Manifest) == nil && f.Position(h, r, leaf) == Ahead {
			return true
		}
	}
	return false
}

// stays reports whether a host that acted on a rollout still runs it, or tries to,
// and has not tried to leave it in vain.
func (f *Facts) stays(h *Host, r *Rollout) bool {
	if h.Manifest != r.Manifest.Digest || !r.Ordered && !r.Marks[h.Name].Claimed {
		return false
	}
	if leaf := leafOf(r.Manifest, h.Name); leaf != nil && leaf.Removed == fleet.Wipe {
		return false // nothing is left to go back to
	}
	switch h.Phase {
	case host.Activating, host.Soaking, host.Deferred, host.Converged:
		return true
	}
	return h.Phase == host.Failed && !h.Reverting && h.Reverts == 0
}

// Awaited returns a host that a reverting rollout waits for, or nil.
func (f *Facts) Awaited(r *Rollout) *Host {
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		h := f.Host(leaf.Host)
		heard := !h.SilentFailure && !h.Unwilling() && (h.Reachable() || h.acts())
		acts := false
		if r.Ordered || r.Marks[h.Name].Claimed {
			at := f.Position(h, r, leaf)
			acts = at == UnderWay || at == Returning
		}
		if heard && (acts || f.stays(h, r)) {
			return h
		}
	}
	return nil
}

// Tally counts where the hosts of some waves are.
type Tally struct {
	Hosts                                                  int // but for absent ones
	Converged, AtTarget, Ready, Away, Moving, Back, Absent int
}

// Tally looks at every member of the waves from first to last.
func (f *Facts) Tally(r *Rollout, first, last int) Tally {
	var t Tally
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		if leaf.Wave < first || leaf.Wave > last {
			continue
		}
		t.Hosts++
		h := f.Host(leaf.Host)
		switch f.Position(h, r, leaf) {
		case Converged:
			if !h.Unfit {
				t.Converged++
			}
		case AtTarget:
			t.AtTarget++
		case Offered, UnderWay, Busy:
			if h.Unwilling() {
				t.Away++
			} else {
				t.Moving++
			}
		case Returning:
			t.Moving++
		case Back:
			t.Back++
		case Absent:
			t.Absent++
			t.Hosts--
		case Waiting:
			if h.Reachable() && !h.Unwilling() {
				t.Ready++
			} else {
				t.Away++
			}
		}
	}
	return t
}

// all counts every member.
func (f *Facts) all(r *Rollout) Tally { return f.Tally(r, 0, len(r.Manifest.Header.Waves)-1) }

// What keeps an open wave from being promoted.
const (
	InFlight = "in-flight"
	NotYet   = "waiting"
	Evidence = "evidence"
	Soak     = "soak"
)

// proof counts what the open waves lack: hosts on their way, hosts that wait and are there, and
// whether too few converged.
func (f *Facts) proof(r *Rollout) (moving, ready int, short bool) {
	waves := r.Manifest.Header.Waves
	last := r.Cursor == len(waves)-1
	wave, open := f.Tally(r, r.Cursor, r.Cursor), f.Tally(r, 0, r.Cursor)
	ready = wave.Ready
	if last {
		ready = 0
		for w := range waves {
			if !r.Forced[w] {
				ready += f.Tally(r, w, w).Ready
			}
		}
	}
	hosts, at := wave.Hosts, wave.AtTarget
	if last && open.Converged == 0 {
		hosts, at = open.Hosts, open.AtTarget
	}
	need, pct := max(1, waves[r.Cursor].MinSoaked), waves[r.Cursor].MinSoakedPct
	for need*100 < pct*(hosts-at) {
		need++
	}
	enough := wave.Converged >= min(need, hosts-at) && (f.all(r).Hosts > 0 || len(r.Manifest.Leaves) == 0)
	return open.Moving, ready, !enough && (!last || open.Converged == 0 || pct > 0)
}

// Unproven says what keeps the open wave from being promoted, or ended if it is the
// last: hosts on their way in it or an earlier one, hosts that wait and are there, or
// too few that converged. The last may have none of its own if any host of the rollout
// converged; all are counted together if none did.
func (f *Facts) Unproven(r *Rollout, now clock.Instant) string {
	waves := r.Manifest.Header.Waves
	if len(waves) == 0 {
		return ""
	}
	switch moving, ready, short := f.proof(r); {
	case moving > 0:
		return InFlight
	case ready > 0:
		return NotYet
	case short, f.FailingEvidence(r, r.Cursor+1):
		return Evidence
	}
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		if h := f.Host(leaf.Host); leaf.Wave <= r.Cursor && h.soakEnds(r) > now && f.Position(h, r, leaf) == Converged {
			return Soak
		}
	}
	return ""
}

// FailingEvidence reports whether a host of a wave before one runs its target with
// required evidence that does not pass and that nobody accepted.
func (f *Facts) FailingEvidence(r *Rollout, before int) bool {
	return len(f.Outstanding(r, before)) > 0
}

// Outstanding lists that evidence by host.
func (f *Facts) Outstanding(r *Rollout, before int) []event.FailingEvidence {
	var out []event.FailingEvidence
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		if leaf.Wave >= before {
			continue
		}
		if controls := f.Failing(f.Host(leaf.Host), r); len(controls) > 0 {
			out = append(out, event.FailingEvidence{Host: leaf.Host, Controls: controls})
		}
	}
	return out
}
