package hosts

import (
	"iter"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Roll is a roll call of the hosts at the start of a server. Its log may be one that
// was restored from a backup and lacks claims: until a host has said how far its own
// events go, and the log holds them, the host may be in flight without the server
// knowing. It is one goroutine's; the zero value misses nobody.
type Roll struct {
	until   clock.Instant // then hosts that are silent hold nothing up any more
	known   int           // how many hosts the state had when it was looked through
	missing map[string]bool
	heard   map[string]bool // the others
}

// Call begins with every host missing, until an instant at most.
func (r *Roll) Call(until clock.Instant) {
	*r = Roll{until: until, missing: map[string]bool{}, heard: map[string]bool{}}
}

// Until is when the roll call ends at the latest.
func (r *Roll) Until() clock.Instant { return r.until }

// Missing lists the hosts that are still missing, in any order; it is nil when the time
// is over. It looks at no more hosts than are taken of it, those aside that it finds to
// be heard: a server that begins has claims of all its hosts to answer. Told returns
// the newest event of a host as the host said itself in a request to this server, if it
// made one.
func (r *Roll) Missing(state map[string]*plan.Host, told func(name string) (last uint64, ok bool), now clock.Instant) iter.Seq[string] {
	if r.until == 0 {
		return nil
	}
	if r.until.Reached(now) {
		*r = Roll{}
		return nil
	}
	return func(yield func(string) bool) {
		r.lookThrough(state)
		for name := range r.missing { // order-free: who takes it counts them
			if last, ok := told(name); ok && state[name].Seq >= last {
				delete(r.missing, name)
				r.heard[name] = true
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// lookThrough has hosts be missing that the state did not have before.
func (r *Roll) lookThrough(state map[string]*plan.Host) {
	if len(state) == r.known {
		return
	}
	for name := range state { // order-free: it fills a set
		if !r.heard[name] {
			r.missing[name] = true
		}
	}
	r.known = len(state)
}
