package hosts

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Ahead lists the hosts that know a longer history than the log, which was
// restored from a backup. Until they have sent it again nothing is granted. It
// is one goroutine's; the zero value is empty.
type Ahead struct {
	m map[string]*lag
}

// lag is how much longer a history a host knows than the log holds.
type lag struct {
	need        uint64
	incarnation uint64
	until       clock.Instant // then the host's word alone holds nothing up any more
	told        bool
}

// sent reports whether the host has sent what it owed, or never will: its identity
// ended, or it enrolled again.
func (l *lag) sent(h *plan.Host) bool {
	return h == nil || h.Seq >= l.need || h.Incarnation != l.incarnation || h.Standing() != ""
}

// Note takes down that an incarnation of a host was acknowledged events up to need,
// and reports whether that is news of the host. It is waited for until then at most.
func (a *Ahead) Note(name string, incarnation, need uint64, until clock.Instant) bool {
	if l := a.m[name]; l != nil && l.incarnation == incarnation {
		l.need = max(l.need, need)
		return false
	}
	if a.m == nil {
		a.m = map[string]*lag{}
	}
	a.m[name] = &lag{need: need, incarnation: incarnation, until: until}
	return true
}

// Behind blocks everything for the first host by name that still owes a part of the log
// and may still hold everything up for it, or is nil.
func (a *Ahead) Behind(state map[string]*plan.Host, now clock.Instant) *gate.Block {
	first, until := "", clock.Instant(0)
	for name, l := range a.m {
		if (first == "" || name < first) && !l.sent(state[name]) && !l.until.Reached(now) {
			first, until = name, l.until
		}
	}
	return gate.CheckBehind(first, until)
}

// Empty reports whether no host is listed.
func (a *Ahead) Empty() bool { return len(a.m) == 0 }

// Settle forgets the hosts that have sent what they owed. It reports whether
// others are waited for, and names each whose time has run out once.
func (a *Ahead) Settle(state map[string]*plan.Host, now clock.Instant) (waiting bool, late []string) {
	for name, l := range a.m {
		switch {
		case l.sent(state[name]):
			delete(a.m, name)
		case !l.until.Reached(now):
			waiting = true
		case !l.told:
			l.told = true
			late = append(late, name)
		}
	}
	slices.Sort(late)
	return waiting, late
}
