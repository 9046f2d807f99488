package gate

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Restore blocks what a server may not do because its log lacks, or may lack, what
// hosts know: it was restored from a backup.
const Restore Code = "restore"

// CheckBehind blocks everything but ways back while a host, and so many more, owe the server a part
// of the log, until an instant at most; host is empty when none does.
func CheckBehind(host string, more int, until clock.Instant) *Block {
	if host == "" {
		return nil
	}
	who := "host " + host
	if more > 0 {
		who += " and " + prose.Count(more, "other")
	}
	return block(Restore, "behind").
		because("%s %s a longer log than the server, which was restored from a backup; nothing but ways back is granted until the server has those events again, or it is %s",
			who, prose.Verb(more+1, "knows", "know"), prose.Date(until)).
		until("the events that "+who+" "+prose.Verb(more+1, "was", "were")+" acknowledged; steady safe-mode lists them", until).
		by("those hosts as they send them again; time; an operator: steady safe-mode end, or, if a host is gone for good, steady host revoke "+host,
			Remedy{Operation: "end-safe-mode", Command: "steady safe-mode end"}, onHost("revoke", host))
}

// CheckUnheard blocks the claim of an offer that an earlier process of the server made, until
// an instant at most; host is empty when nothing is to be waited for. In a restored log the
// host may have claimed it already, and have gone on.
func CheckUnheard(host string, until clock.Instant) *Block {
	if host == "" {
		return nil
	}
	return block(Restore, "unheard").
		because("the server began after it made this offer, and host %s has not said yet how far its own events go", host).
		until("the next heartbeat of host "+host+", and the events that it is behind with", until).
		by("host " + host + " when it reports, or time")
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
