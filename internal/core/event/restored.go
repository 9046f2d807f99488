package event

// Events of a log that is behind what was acknowledged: it was restored from a backup,
// or its database lost its end, or nobody served it for a while.

// SafeModeEnded says that an operator ended the server's safe mode: grants are given
// again although something acknowledged is missing. Hosts are those that still had
// events to send again. Of a log that lacks its own end, Logged is its newest sequence
// and Acknowledged the newest that was acknowledged.
type SafeModeEnded struct {
	Actor        string   `json:"actor"`
	Reason       string   `json:"reason,omitempty"`
	Hosts        []string `json:"hosts,omitempty"`
	Logged       uint64   `json:"logged,omitempty"`
	Acknowledged uint64   `json:"acknowledged,omitempty"`
}

// LogRestored says that the log lacks a part of what a host was acknowledged, as a log
// that was restored from a backup does: it had the host's events up to From, and was
// acknowledged those up to To, or acts on a claim that the log lacks. What follows of the
// host up to To is told by its own signed chain alone: its grants and claims, and the
// rollouts that they are of, are in no record of the server.
type LogRestored struct {
	Incarnation uint64 `json:"incarnation"`
	From        uint64 `json:"from"`
	To          uint64 `json:"to"`
	// Process names the server's process that learned of it, by the nonce of its grants.
	Process string `json:"process,omitempty"`
}

// ServerResumed says that a server serves again that did not for a while, in which hosts
// that act could not report: it began to lead, its process stood still, or its log took nothing.
type ServerResumed struct {
	Reason string `json:"reason"`
}

// EventType names of what follows a restore or an outage.
func (SafeModeEnded) EventType() string { return "safe_mode.ended" }
func (LogRestored) EventType() string   { return "log.restored" }
func (ServerResumed) EventType() string { return "server.resumed" }

func init() {
	add(LogRestored{}, ofHost, notice(warn, "the log lacks events that this host was acknowledged; the host sends them again", "from to"), mark(2))
	add(ServerResumed{}, notice(info, "hosts that act have the time to report again that this server's absence took from them", "reason"), mark(1))
	add(SafeModeEnded{}, notice(warn, "safe mode ended by an operator", "actor reason hosts logged acknowledged"), mark(3))
}
