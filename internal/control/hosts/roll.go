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
}

// Call begins with every host missing, until an instant at most.
func (r *Roll) Call(until clock.Instant) { *r = Roll{until: until, missing: map[string]bool{}} }

// Until is when the roll call ends at the latest.
func (r *Roll) Until() clock.Instant { return r.until }

// Missing lists the hosts that are still missing; it is nil when nobody is, or when
// the time is over. Told returns the newest event of a host as the host said itself
// in a request to this server, if it made one.
func (r *Roll) Missing(state map[string]*plan.Host, told func(name string) (last uint64, ok bool), now clock.Instant) iter.Seq[string] {
	if r.until == 0 {
		return nil
	}
	if r.until.Reached(now) {
		*r = Roll{}
		return nil
	}
	if len(state) != r.known {
		for name := range state { // order-free: it fills a set
			if _, seen := r.missing[name]; !seen {
				r.missing[name] = true
			}
		}
		r.known = len(state)
	}
	left := 0
	for name, missing := range r.missing { // order-free: each is looked at by itself
		if !missing {
			continue
		}
		if last, ok := told(name); ok && state[name].Seq >= last {
			r.missing[name] = false
		} else {
			left++
		}
	}
	if left == 0 {
		return nil
	}
	return func(yield func(string) bool) {
		for name, missing := range r.missing { // order-free: who takes it counts them
			if missing && !yield(name) {
				return
			}
		}
	}
}
