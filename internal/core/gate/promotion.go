package gate

import "github.com/steadyfleet/steady/internal/core/clock"

// Evidence is what a wave has to show for its promotion.
type Evidence struct {
	Rollout   string
	Wave      string
	Hosts     int // members of the wave
	AtTarget  int // had nothing to change
	Converged int
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
	for _, b := range CheckPromotions(e) {
		return b
	}
	return nil
}

// CheckPromotions returns everything that keeps a wave, not only the first.
func CheckPromotions(e Evidence) []*Block {
	var bs []*Block
	if e.InFlight > 0 {
		bs = append(bs, hold(Promotion, InFlight).because("wave %s has %d hosts in flight", e.Wave, e.InFlight).
			until("them to converge, soak included", e.Settles).by("those hosts"))
	}
	if e.Ready > 0 {
		bs = append(bs, hold(Promotion, Waiting).because("wave %s has %d hosts waiting for a grant", e.Wave, e.Ready).
			until("their gates to open", e.Starts).
			by("see steady why for each of them, or an operator: steady rollout promote "+e.Rollout))
	}
	if e.Converged < e.Needed() {
		bs = append(bs, hold(Promotion, Unproven).
			because("wave %s has %d converged hosts of the %d it needs; %d are offline", e.Wave, e.Converged, e.Needed(), e.Offline).
			until("more hosts of the wave to come online and converge", e.Settles).
			by("whoever runs those hosts, or an operator: steady rollout promote or cancel "+e.Rollout))
	}
	return bs
}
