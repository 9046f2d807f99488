package gate

import (
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Evidence is what a wave has to show for its promotion.
type Evidence struct {
	Rollout   string
	Wave      string
	Hosts     int // members of the wave that are enrolled
	AtTarget  int // had nothing to change
	Converged int // and run what they should
	Degraded  int // converged, and do not run it any more
	InFlight  int // offered, claimed, or failed and still on the way back
	Ready     int // waiting and online
	Offline   int // waiting and never claimed: skipped
	MinSoaked int
	// MinPercent asks for a part of those that have something to change.
	MinPercent int
	// Absent counts members that never enrolled or are decommissioned; Nobody says
	// that no member of the whole rollout is enrolled.
	Absent int
	Nobody bool
	// Finishes is when time can bring the last of those in flight there, and
	// Starts when it can let one of those that wait start; zero when it cannot.
	Finishes, Starts clock.Instant
}

// Needed is how many converged hosts the wave needs: one, MinSoaked, or MinPercent of
// those that have something to change, but no more than those. A wave in which
// nothing changes needs none, and hosts that never enrolled count for nothing.
func (e Evidence) Needed() int {
	changing := e.Hosts - e.AtTarget
	return min(max(1, e.MinSoaked, (changing*e.MinPercent+99)/100), changing)
}

// Details of the Promotion gate. An operator may promote over any of them but
// InFlight.
const (
	InFlight = "in-flight"
	Waiting  = "waiting"
	Unproven = "evidence"
	Soak     = "soak"
)

// CheckSoak blocks a wave whose hosts converged, by their word, before their soak has
// passed since their claims on the server's clock.
func CheckSoak(rollout, wave string, until, now clock.Instant) *Block {
	if until == 0 || until.Reached(now) {
		return nil
	}
	return block(Promotion, Soak).says("hosts of wave "+wave+" report that they have soaked, and by the server's clock that takes until "+until.String()).
		until("their soak to pass on the server's clock", until).
		by("time, or an operator: steady rollout promote "+rollout, promote(rollout, wave))
}

// CheckInFlight blocks the next wave while somebody of this one is on the way.
func CheckInFlight(e Evidence) *Block {
	if e.InFlight > 0 {
		return block(Promotion, InFlight).says("wave "+e.Wave+" has "+prose.Count(e.InFlight, "host")+" in flight").
			until("them to converge, soak included", e.Finishes).by("those hosts")
	}
	return nil
}

// CheckReady blocks the next wave while somebody of this one is left to start.
func CheckReady(e Evidence) *Block {
	if e.Ready > 0 {
		return block(Promotion, Waiting).says("wave "+e.Wave+" has "+prose.Count(e.Ready, "host")+" waiting for a grant").
			until("their gates to open", e.Starts).
			by("their gates as they open (steady why HOST names them), or an operator: steady rollout promote "+e.Rollout, promote(e.Rollout, e.Wave))
	}
	return nil
}

// CheckProof blocks the next wave until enough hosts of this one really converged.
// Silence is no evidence.
func CheckProof(e Evidence) *Block {
	if e.Nobody {
		words := "none of the " + strconv.Itoa(e.Absent) + " hosts of rollout " + e.Rollout + " is enrolled"
		if e.Absent == 1 {
			words = "the only host of rollout " + e.Rollout + " is not enrolled"
		}
		return block(Promotion, Unproven).says(words).
			until("the first of them to enrol", never).
			by("whoever sets them up: steady token create HOST; a newer release replaces it at once, and no other channel waits for it", enrol("HOST"), release())
	}
	if e.Converged < e.Needed() {
		offline, degraded := "", ""
		if e.Offline > 0 {
			offline = "; " + strconv.Itoa(e.Offline) + prose.Verb(e.Offline, " is", " are") + " offline"
		}
		if e.Degraded > 0 {
			degraded = "; " + strconv.Itoa(e.Degraded) + " converged and are degraded since: steady host list --degraded"
		}
		return block(Promotion, Unproven).
			says("wave "+e.Wave+" needs "+strconv.Itoa(e.Needed())+" of "+prose.Count(e.Hosts-e.AtTarget, "host")+" to converge (minSoaked), "+
				strconv.Itoa(e.Converged)+prose.Verb(e.Converged, " has", " have")+offline+degraded).
			until("more hosts of the wave to come online and converge", e.Finishes).
			by("whoever runs those hosts, or an operator: steady rollout promote or cancel "+e.Rollout, promote(e.Rollout, e.Wave), steer("cancel", e.Rollout))
	}
	return nil
}
