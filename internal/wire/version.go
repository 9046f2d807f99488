package wire

import (
	"fmt"
	"strconv"
)

// Protocol is the header with the version of the agent API. An agent sends the newest one
// that it knows; a server speaks that or, to a newer agent, its own newest one, and says
// which in its answer. Servers of 0.1.0 send none, which is 1.
const (
	Protocol = "Steady-Protocol"
	Version  = "1"
)

// Served is the header of an answer to an agent with the seconds, rounded up, for which the
// server has served without a gap: hosts tell by it who was away.
const Served = "Steady-Served"

// Range is the versions that one end knows.
type Range struct{ Oldest, Newest int }

// Known is this one's: the current version and, once there is another one, the one before.
var Known = Range{Oldest: 1, Newest: 1}

// Speak is the version in which a server of this range answers an agent that sent said.
func (r Range) Speak(said string) (int, error) {
	n, err := strconv.Atoi(said)
	if err != nil {
		return 0, fmt.Errorf("header %s is %q: expected a number; this server serves %d to %d", Protocol, said, r.Oldest, r.Newest)
	}
	if n < r.Oldest {
		return 0, fmt.Errorf("the agent speaks version %d of the protocol, and this server serves %d to %d; upgrade the agent", n, r.Oldest, r.Newest)
	}
	return min(n, r.Newest), nil
}

// Understands refuses an answer of a server that chose a version which an agent of this range
// does not know. A server that sent none speaks version 1.
func (r Range) Understands(chosen string) error {
	if chosen == "" {
		chosen = "1"
	}
	n, err := strconv.Atoi(chosen)
	if err == nil && n >= r.Oldest && n <= r.Newest {
		return nil
	}
	return fmt.Errorf("the server speaks version %q of the protocol, and this agent knows %d to %d; upgrade the server first", chosen, r.Oldest, r.Newest)
}
