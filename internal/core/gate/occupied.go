package gate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Occupant is a session that has something on a host, until an instant at the latest; zero
// is until it removes that.
type Occupant struct {
	Session string
	Until   clock.Instant
}

// maxOccupants bounds how many sessions of a host a block names.
const maxOccupants = 3

// CheckOccupied blocks a host that a session has something on. The way back is never asked
// about, and what the host was at goes on.
func CheckOccupied(f Facts, explain bool) *Block {
	host, has, now := f.Sessions()
	live := slices.DeleteFunc(has, func(o Occupant) bool { return o.Until.Reached(now) })
	if closed := len(live) > 0; !closed || !explain {
		return unexplained(closed)
	}
	until, who := never, "whoever runs the session: "
	if !slices.ContainsFunc(live, func(o Occupant) bool { return o.Until == never }) {
		who = "time, or " + who
		for i := range live {
			until = max(until, live[i].Until)
		}
	}
	var says, stop []string
	var remedies []Remedy
	for i := range live[:min(len(live), maxOccupants)] {
		r := command("session stop " + live[i].Session)
		says, stop, remedies = append(says, live[i].words()), append(stop, r.Command), append(remedies, r)
	}
	if more := len(live) - len(says); more > 0 {
		says = append(says, strconv.Itoa(more)+" more")
	}
	return block(Occupied, "").says("host "+host+" is in use by "+strings.Join(says, ", ")).
		until("the session to end", until).by(who+strings.Join(stop, "; "), remedies...)
}

func (o *Occupant) words() string {
	if o.Until == never {
		return "session " + o.Session + ", which has no end set"
	}
	return "session " + o.Session + " until " + prose.Date(o.Until) + " unless it is extended"
}
