package host

// Codes for why a host's stored state is taken for older than what the host did. Such a
// host is parked: what runs goes on, and nothing else is done until it enrols again.
const (
	ParkedBehind     = "behind-anchor"     // the database has fewer events than the anchor beside it, or others
	ParkedUnreadable = "anchor-unreadable" // the anchor is damaged or gone
	ParkedByServer   = "server-has-newer"  // the server showed a head that this host signed, and that its database does not have
)

// ParkedMessage says in words what a code means; an unknown one comes of a newer agent.
func ParkedMessage(code string) string {
	switch code {
	case ParkedBehind:
		return "its database is older than the anchor beside it"
	case ParkedUnreadable:
		return "the anchor of its state folder is damaged or gone, so that nobody knows whether its database is the newest"
	case ParkedByServer:
		return "the server has events that this host signed and that its database does not have"
	}
	return "its stored state may be older than what it did"
}
