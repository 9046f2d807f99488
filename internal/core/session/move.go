package session

import (
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Where a pod stands on its host; before, nothing of it is set there.
const (
	StateSet     = "set"
	StateRunning = "running"
	StateLeaving = "leaving" // it goes to another host
)

// A pod that moves has its workloads for Lease at a time, renewed while its host is connected. Once a lease is
// over for LeaseMargin, which is more than clocks differ, nothing of it runs there.
const (
	Lease       = 10 * time.Minute
	LeaseMargin = 2 * time.Minute
	// HostGrace is how long a host may be offline before a pod on it that does not move has failed.
	HostGrace = 10 * time.Minute
)

// lease is until when the host is to have the workloads, of which it has them until had.
func (s *PodSpec) lease(had clock.Instant, offline bool, now time.Time) clock.Instant {
	end := clock.FromTime(s.Timeslot.CleanupDeadline)
	if !s.Moves {
		return end
	}
	at := clock.FromTime(now)
	if had != 0 && had <= end && (offline || had == end || had.Sub(at) > clock.FromStd(Lease/2)) {
		return had
	}
	return min(end, at.Add(clock.FromStd(Lease)))
}

// StopFrom is from when the host may stop by itself what is to be gone by the end of a lease: not before the end of
// the session, where that is known to be later.
func (s *PodSpec) StopFrom(lease clock.Instant) clock.Instant {
	from, deadline := lease.Add(-managed.StopLead), clock.FromTime(s.Timeslot.CleanupDeadline)
	if end := clock.FromTime(s.Timeslot.End); lease == deadline && from < end {
		return end
	}
	return from
}

// nextLook is when a pod is looked at again though nothing was reported: its lease is to be renewed, or its
// host is offline for too long. No time is never.
func (s *PodSpec) nextLook(lease clock.Instant, o *PodSeen, now time.Time) (none time.Time) {
	switch {
	case s.Moves && o.Offline:
		return s.goesAt(lease, o)
	case s.Moves && lease != clock.FromTime(s.Timeslot.CleanupDeadline):
		return lease.Time().Add(-Lease / 2)
	case o.Offline && now.Before(o.Since.Add(HostGrace)):
		return o.Since.Add(HostGrace)
	}
	return none
}

// goesAt is when a pod that moves may go from a host that is offline.
func (s *PodSpec) goesAt(lease clock.Instant, o *PodSeen) time.Time {
	if s.Duplicates {
		return o.Since.Add(LeaseMargin)
	}
	return lease.Time().Add(LeaseMargin)
}

// leaves reports whether a pod has to go from its host, and may do so now.
func (s *PodSpec) leaves(b *PodReport, o *PodSeen, now time.Time) bool {
	switch {
	case b.Lease == 0: // nothing of it was ever there
		return o.Lost != "" || o.Offline || o.Frozen
	case !s.Moves:
		return false
	case o.Offline:
		return !now.Before(s.goesAt(b.Lease, o))
	}
	return o.Lost != "" || o.Frozen
}

// leave takes a pod off its host and gives it another one. A host that is connected says first that nothing of
// it is left; one that is not ended it by itself, or the part allows duplicates.
func (s *PodSpec) leave(b PodReport, request place.Request, o *PodSeen, now time.Time) engine.Decision {
	switch {
	case len(o.Set) > 0:
		return engine.Do(RemoveWorkloads{b.Host, o.Set}, engine.NewReason(codeMoving, "it leaves "+b.Host)).WithReport(b)
	case len(o.Left) > 0 && !o.Offline:
		return engine.Wait(engine.NewReason(codeMoving, o.removes(b.Host))).WithReport(b)
	case !o.Choice.Placed():
		return engine.WaitUntil(o.lookAgain(now), engine.NewReason(codeNoRoom, "it leaves "+b.Host+"; "+noRoom(o))).WithReport(b)
	}
	next := PodReport{Reservation: request.Reserve(o.Choice), Ran: b.Ran, Moves: b.Moves + 1}
	return engine.WaitUntil(now, engine.NewReason(codeMoving, "it goes from "+b.Host+" to "+next.Host)).WithReport(next)
}

func (o *PodSeen) why() string {
	switch {
	case o.Lost != "":
		return o.Lost
	case o.Offline:
		return "the host is offline since " + o.Since.Format(time.RFC3339)
	}
	return "the host is frozen"
}
