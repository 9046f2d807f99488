package gate

import "github.com/steadyfleet/steady/internal/core/clock"

// HostPresence says whether a host is there, in one word.
type HostPresence string

// The presences. Silent is offline with work of a rollout in flight; overdue is there,
// and its work was given up. The others, and Parked, Forked, Leaving, Revoked and Decommissioned, say why
// nobody waits for the host, or why it is not listened to.
const (
	Online        HostPresence = "online"
	Offline       HostPresence = "offline"
	Silent        HostPresence = "silent"
	Overdue       HostPresence = "overdue"
	NeverEnrolled HostPresence = "never-enrolled"
	Removed       HostPresence = "removed"
)

// Absence is what the gate of presence reads of a host.
type Absence struct {
	Presence HostPresence
	LastSeen clock.Instant // zero when that is not known
	GivenUp  clock.Instant // when time ends the patience with what it does; zero when it does nothing
}

// CheckPresence blocks a host that the server cannot reach. What blocks its identity is
// the gate of that name.
func CheckPresence(host string, a Absence, now clock.Instant) *Block {
	heard := ""
	if a.LastSeen != 0 {
		heard = ", last seen at " + a.LastSeen.String()
	}
	agent := "whoever runs the host: start its agent, and check its log and its network"
	switch a.Presence {
	case NeverEnrolled:
		return block(Presence, string(a.Presence)).says("host "+host+" never enrolled").
			until("the host to enrol", never).by("whoever sets the host up: steady token create "+host, enrol(host))
	case Overdue:
		return block(Presence, string(a.Presence)).says("host "+host+" is there, and did not report in time what came of its claim; it was given up").
			until("the host to report", never).by("whoever runs the host: restart its agent, and check its log")
	case Silent:
		words := "host " + host + " is silent"
		if a.LastSeen != 0 {
			words += " for " + now.Sub(a.LastSeen).String()
		}
		if a.GivenUp != 0 {
			words += "; it is given up at " + a.GivenUp.String() + " unless it makes contact"
		}
		return block(Presence, string(a.Presence)).says(words).until("the host to make contact, or to be given up", a.GivenUp).by(agent)
	case Offline:
		return block(Presence, string(a.Presence)).says("host "+host+" is offline"+heard).until("the host to connect", never).by(agent)
	}
	return nil
}
