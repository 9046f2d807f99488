package server

import "time"

// factsPatience is how long a server goes on with the log of another one before that has
// facts of hosts, which older servers do not read: who upgraded may go back until then.
const factsPatience = 10 * time.Minute

// FactsAfter is how long after its start a server asks hosts for their facts: at once where
// the log has some, or no host enrolled before.
func (s *State) FactsAfter() time.Duration {
	enrolled := false
	for _, h := range s.Plan.Hosts { // order-free: any of them will do
		if h.Facts != nil {
			return 0
		}
		enrolled = enrolled || h.Incarnation > 0
	}
	if enrolled {
		return factsPatience
	}
	return 0
}
