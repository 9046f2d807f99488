package gate

import "github.com/steadyfleet/steady/internal/core/clock"

// Restore blocks what a server may not do because its log lacks, or may lack, what
// hosts know: it was restored from a backup.
const Restore Code = "restore"

// CheckBehind blocks everything but ways back while a host owes the server a part of the log, until
// an instant at most; host is empty when none does.
func CheckBehind(host string, until clock.Instant) *Block {
	if host == "" {
		return nil
	}
	return block(Restore, "behind").
		because("host %s knows a longer log than the server, which was restored from a backup; nothing but ways back is granted until it has sent its events again", host).
		until("the events that host "+host+" was acknowledged", until).
		by("host " + host + " as it sends them again; time; or, if it is gone for good, an operator: steady host revoke " + host)
}

// CheckRollCall blocks a claim for which there would be no room if hosts were in
// flight that the server has not heard since it began, until an instant at most. Full
// is the block of the budget that they would fill, or nil.
func CheckRollCall(full *Block, until clock.Instant) *Block {
	if full == nil {
		return nil
	}
	return block(Restore, "roll-call").
		because("the server began a short time ago and is not connected to all hosts yet; if the others were in flight, there would be no room: %s", full.Message).
		until("the first heartbeat of the other hosts of that budget", until).
		by("those hosts when they connect, or time")
}
