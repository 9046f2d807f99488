package gate

import (
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Evidence is what a wave has to show for its promotion.
type Evidence struct {
	Rollout   string
	Wave      string
	Hosts     int // members of the wave
	AtTarget  int // had nothing to change
	Converged int // and run what they should
	Degraded  int // converged, and do not run it any more
	InFlight  int // offered, claimed, or failed and still on the way back
	Ready     int // waiting and online
	Offline   int // waiting and never claimed: skipped
	MinSoaked int
	// Settles is when time can bring the last of those in flight there, and
	// Starts when it can let one of those that wait start; zero when it cannot.
	Settles, Starts clock.Instant
}

// Needed is how many converged hosts the wave needs: max(1, MinSoaked), but no
// more than had anything to change. A wave in which nothing changes needs none.
func (e Evidence) Needed() int { return min(max(1, e.MinSoaked), e.Hosts-e.AtTarget) }

// Details of the Promotion gate. An operator may promote over any of them but
// InFlight.
const (
	InFlight = "in-flight"
	Waiting  = "waiting"
	Unproven = "evidence"
)

// CheckPromotion blocks the next wave until this one is proven: nobody on the
// way, nobody left to start, and enough hosts that really converged. Silence is
// no evidence.
func CheckPromotion(e Evidence) *Block {
	if b := inFlight(e); b != nil {
		return b
	}
	if b := ready(e); b != nil {
		return b
	}
	return unproven(e)
}

// CheckPromotions returns everything that keeps a wave, not only the first.
func CheckPromotions(e Evidence) []*Block {
	var bs []*Block
	for _, check := range [...]func(Evidence) *Block{inFlight, ready, unproven} {
		if b := check(e); b != nil {
			bs = append(bs, b)
		}
	}
	return bs
}

func inFlight(e Evidence) *Block {
	if e.InFlight > 0 {
		return hold(Promotion, InFlight).says("wave "+e.Wave+" has "+strconv.Itoa(e.InFlight)+" hosts in flight").
			until("them to converge, soak included", e.Settles).by("those hosts")
	}
	return nil
}

func ready(e Evidence) *Block {
	if e.Ready > 0 {
		return hold(Promotion, Waiting).says("wave "+e.Wave+" has "+strconv.Itoa(e.Ready)+" hosts waiting for a grant").
			until("their gates to open", e.Starts).
			by("see steady why for each of them, or an operator: steady rollout promote " + e.Rollout)
	}
	return nil
}

func unproven(e Evidence) *Block {
	if e.Converged < e.Needed() {
		degraded := ""
		if e.Degraded > 0 {
			degraded = "; " + strconv.Itoa(e.Degraded) + " converged and are degraded since: steady host list --degraded"
		}
		return hold(Promotion, Unproven).
			says("wave "+e.Wave+" has "+strconv.Itoa(e.Converged)+" converged hosts of the "+strconv.Itoa(e.Needed())+" it needs; "+
				strconv.Itoa(e.Offline)+" are offline"+degraded).
			until("more hosts of the wave to come online and converge", e.Settles).
			by("whoever runs those hosts, or an operator: steady rollout promote or cancel " + e.Rollout)
	}
	return nil
}
