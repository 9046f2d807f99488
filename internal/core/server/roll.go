package server

import (
	"iter"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// rollCall is a roll call of the hosts at the start of a server. Its log may be one that
// was restored from a backup and lacks claims: until a host has said how far its own
// events go, and the log holds them, the host may be in flight without the server
// knowing. The zero value misses nobody.
type rollCall struct {
	until    clock.Instant // then hosts that are silent hold nothing up any more
	known    int           // how many hosts the state had when it was searched
	missing  map[string]bool
	reported map[string]bool // the others
}

// call begins with every host missing, until an instant at most.
func (r *rollCall) call(until clock.Instant) {
	*r = rollCall{until: until, missing: map[string]bool{}, reported: map[string]bool{}}
}

// missingHosts lists the hosts that are still missing, in any order; it is nil when the
// time is over. It visits no more hosts than its caller takes, besides those that it
// finds to have reported: a server that begins has claims of all its hosts to answer.
// Told returns the newest event of a host as the host said itself in a request to this
// process, if it made one.
func (r *rollCall) missingHosts(state map[string]*plan.Host, told func(name string) (last uint64, ok bool), now clock.Instant) iter.Seq[string] {
	if r.until == 0 {
		return nil
	}
	if r.until.Reached(now) {
		*r = rollCall{}
		return nil
	}
	return func(yield func(string) bool) {
		r.findNew(state)
		for name := range r.missing { // order-free: the caller counts them
			if heard(state[name], told) {
				delete(r.missing, name)
				r.reported[name] = true
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// heard reports whether a host has said how far its events go, and the log has them.
func heard(h *plan.Host, told func(name string) (last uint64, ok bool)) bool {
	last, ok := told(h.Name)
	return ok && h.Seq >= last
}

// findNew has hosts be missing that the state did not have before.
func (r *rollCall) findNew(state map[string]*plan.Host) {
	if len(state) == r.known {
		return
	}
	for name := range state { // order-free: it fills a set
		if !r.reported[name] {
			r.missing[name] = true
		}
	}
	r.known = len(state)
}
