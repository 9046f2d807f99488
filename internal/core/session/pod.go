package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// PodSpec is what is desired of a pod's row.
type PodSpec struct {
	Pod      Pod      `json:"pod"`
	Timeslot Timeslot `json:"timeslot"`
	ByStart  bool     `json:"byStart,omitempty"` // it has failed if it did not run once by the start
	// Moves and Duplicates are those of the part.
	Moves      bool `json:"moves,omitempty"`
	Duplicates bool `json:"duplicates,omitempty"`
}

// Request is what placement is asked for a pod. What it is given is reserved until the cleanup
// deadline, since so long something of it may run.
func (s *PodSpec) Request(ref engine.Ref) place.Request {
	p := &s.Pod
	r := place.Request{
		Selector: p.Selector, Arch: p.Arch, Resources: p.Resources, GPU: p.GPU, Spread: p.Spread,
		Slot: place.Slot{From: clock.FromTime(s.Timeslot.ProvisionAt), To: clock.FromTime(s.Timeslot.CleanupDeadline)},
	}
	r.Owner, r.Group, r.AntiAffinity = ref.ID, Of(ref), p.AntiAffinity
	if r.Selector.String() == "" {
		r.Selector.All = true
	}
	return r
}

// PodReport is what a pod tells its part, and the reservation of its host: as long as a row has it
// no other pod gets what it names.
type PodReport struct {
	place.Reservation
	State string `json:"state,omitempty"` // empty until it is set on its host
	Ran   bool   `json:"ran,omitempty"`   // all of it ran once
	// Lease is when the host ends what is set there by itself, cut off or not; 0 if nothing was set.
	Lease clock.Instant `json:"lease,omitempty"`
	Moves int           `json:"moves,omitempty"` // how often it went to another host
	// Room is when a pod that has no host is likely to get one; 0 if that is not known.
	Room clock.Instant `json:"room,omitempty"`
}

// SlotOf is the slot of a reservation when the pod's timeslot is moved: what began earlier has begun.
func (r *PodReport) SlotOf(s *PodSpec) place.Slot {
	return place.Slot{From: min(r.Slot.From, clock.FromTime(s.Timeslot.ProvisionAt)), To: clock.FromTime(s.Timeslot.CleanupDeadline)}
}

// Booking is the reservation that a pod's row has, nil if it has none.
func Booking(row *engine.Row) *PodReport {
	if row.Ref.Kind != KindPod || row.Phase == engine.Deleted {
		return nil
	}
	r := reportOf[PodReport](&engine.Child{Report: row.Report()})
	if r.Host == "" {
		return nil
	}
	return &r
}

// PodSeen is what is observed for a pod.
type PodSeen struct {
	Booking *PodReport `json:"booking,omitempty"`
	// Choice is the host that placement gives a pod that has none, or why it gives none. Next is
	// when there is room, and FreedBy what would make it sooner.
	Choice place.Decision `json:"choice,omitzero"`
	Next   time.Time      `json:"next,omitzero"`
	Freed  *place.Freed   `json:"freed,omitempty"`
	// Unsearched is set where neither was searched for, because many pods that differ wait: Waiting is how many wait.
	Unsearched bool `json:"unsearched,omitempty"`
	Waiting    int  `json:"waiting,omitempty"`
	// Unfit says why the booked host has no room for the slot as it is now.
	Unfit string `json:"unfit,omitempty"`
	// Lost says why the booked host cannot run it any longer; Offline that it is not connected.
	Lost    string    `json:"lost,omitempty"`
	Offline bool      `json:"offline,omitempty"`
	Since   time.Time `json:"since,omitzero"` // offline
	Frozen  bool      `json:"frozen,omitempty"`
	// Set are workloads that the host's layer has for the pod, Differ those that it does not have as
	// desired, with the lease, and Left those that are not set and that the host still reports.
	Set    []string `json:"set,omitempty"`
	Differ []string `json:"differ,omitempty"`
	Left   []string `json:"left,omitempty"`
	// Kept is why the host still has one of those that are left, as it reports it.
	Kept string `json:"kept,omitempty"`
	// Failed and Pending are workloads that the host reports so, each with why.
	Failed  []string `json:"failed,omitempty"`
	Pending []string `json:"pending,omitempty"`
}

// SetWorkloads sets the workloads of a pod on a host, which ends them by itself when the lease is over.
type SetWorkloads struct {
	Host  string        `json:"host"`
	Lease clock.Instant `json:"lease"`
}

// RemoveWorkloads removes the workloads of a pod from a host.
type RemoveWorkloads struct {
	Host   string   `json:"host"`
	Remove []string `json:"remove"`
}

// ActionName implements engine.Action.
func (SetWorkloads) ActionName() string { return "set-workloads" }

// ActionName implements engine.Action.
func (RemoveWorkloads) ActionName() string { return "remove-workloads" }

// lookForRoom is how often a pod that has no room looks for some: what others give back, and hosts that
// come, wake nobody else. Where many wait it is less often, so that all of them together look 20 times a second.
const (
	lookForRoom  = 30 * time.Second
	betweenLooks = time.Second / 20
)

func (o *PodSeen) lookAgain(now time.Time) time.Time {
	if at := now.Add(max(lookForRoom, time.Duration(o.Waiting)*betweenLooks)); o.Next.IsZero() || at.Before(o.Next) {
		return at
	}
	return o.Next
}

// DecidePod is the decision on a pod: a host, its workloads there, and that they run.
func DecidePod(v engine.View[PodSpec, PodSeen]) engine.Decision {
	o := &v.Observed
	if v.Resource.Delete {
		return removePod(o)
	}
	spec := &v.Resource.Desired
	request := spec.Request(v.Resource.Ref)
	var b PodReport
	switch {
	case o.Booking != nil && o.Booking.State == StateLeaving:
		return spec.leave(*o.Booking, request, o, v.Now)
	case o.Booking != nil:
		b = *o.Booking
		if b.State = ""; b.Lease != 0 && len(o.Differ) == 0 {
			b.State = StateSet
		}
		if o.Unfit != "" {
			return engine.WaitUntil(v.Now.Add(lookForRoom), engine.NewReason(codeNoRoom, o.Unfit)).WithReport(b)
		}
		b.Slot = b.SlotOf(spec)
	case !o.Choice.Placed():
		return engine.WaitUntil(o.lookAgain(v.Now), engine.NewReason(codeNoRoom, noRoom(o))).WithReport(PodReport{Room: clock.FromTime(o.Next)})
	default:
		b = PodReport{Reservation: request.Reserve(o.Choice)} // in the slot of the choice
	}
	switch scheduled := v.Now.Before(spec.Timeslot.ProvisionAt); {
	case o.Booking != nil && (o.Lost != "" || !scheduled) && spec.leaves(&b, o, v.Now):
		b.State = StateLeaving
		return engine.WaitUntil(v.Now, engine.NewReason(codeMoving, "it is to leave "+b.Host+": "+o.why())).WithReport(b)
	case o.Lost != "":
		return engine.Fail(engine.NewReason(codeHost, o.Lost)).WithReport(b)
	case o.Offline && b.Lease != 0 && !v.Now.Before(o.Since.Add(HostGrace)) && !spec.Moves:
		return engine.Fail(engine.NewReason(codeHost, "host "+b.Host+" is offline since "+o.Since.Format(time.RFC3339)+", and the part does not move")).WithReport(b)
	case scheduled:
		return engine.WaitUntil(spec.Timeslot.ProvisionAt, engine.NewReason(codeScheduled, "it is scheduled on "+b.Host)).WithReport(b)
	case spec.ByStart && !b.Ran && !v.Now.Before(spec.Timeslot.Start) && !o.runs():
		return engine.Fail(engine.NewReason(codeLate, "it does not run on "+b.Host+" by "+spec.Timeslot.Start.Format(time.RFC3339)+o.because())).WithReport(b)
	}
	return spec.keep(b, o, v.Now)
}

// keep keeps the workloads of a pod set on its host, with a lease, and waits until they run.
func (s *PodSpec) keep(b PodReport, o *PodSeen, now time.Time) engine.Decision {
	lease := s.lease(b.Lease, o.Offline, now)
	next := s.nextLook(lease, o, now)
	switch {
	case s.Moves && o.Offline && lease.Reached(clock.FromTime(now)): // what was there has ended
		return engine.WaitUntil(next, engine.NewReason(codeMoving, "host "+b.Host+" is offline since "+o.Since.Format(time.RFC3339))).WithReport(b)
	case o.Booking == nil || len(o.Differ) > 0 || lease != b.Lease:
		b.Lease = lease
		return engine.Do(SetWorkloads{b.Host, lease}, engine.NewReason(codeNotSet, "it is to run on "+b.Host)).WithReport(b)
	case len(o.Failed) > 0:
		return engine.Fail(engine.NewReason(codeFailed, "on "+b.Host+": "+strings.Join(o.Failed, "; "))).WithReport(b)
	case len(o.Pending) > 0:
		if start := s.start(now); next.IsZero() || !start.IsZero() && start.Before(next) {
			next = start
		}
		return engine.WaitUntil(next, engine.NewReason(codeStarting, startingOn(b.Host, o))).WithReport(b)
	}
	b.State, b.Ran = StateRunning, true
	return engine.IsConverged(engine.NewReason(codeReady, "it runs on "+b.Host)).RequeueAt(next).WithReport(b)
}

// runs reports whether all of the pod is set on its host and runs there.
func (o *PodSeen) runs() bool {
	return o.Booking != nil && o.Booking.Lease != 0 && len(o.Differ)+len(o.Failed)+len(o.Pending) == 0
}

// because says what is missing, if that is known.
func (o *PodSeen) because() string {
	if missing := slices.Concat(o.Failed, o.Pending); len(missing) > 0 {
		return ": " + missing[0]
	}
	return ""
}

// start is the start while it is to come, or no time.
func (s *PodSpec) start(now time.Time) (none time.Time) {
	if now.Before(s.Timeslot.Start) {
		return s.Timeslot.Start
	}
	return none
}

func startingOn(host string, o *PodSeen) string {
	if o.Offline {
		return "host " + host + " is offline"
	}
	return "on " + host + ": " + o.Pending[0]
}

func noRoom(o *PodSeen) string {
	why := o.Choice.Message
	if !o.Next.IsZero() {
		why += "; there is room from " + o.Next.Format(time.RFC3339)
	}
	if o.Unsearched {
		why += "; when there is room is not known yet: many pods that differ wait"
	}
	if f := o.Freed; f != nil {
		why += fmt.Sprintf("; sooner on %s without %s", f.Host, strings.Join(f.Owners, ", "))
	}
	return why
}

// removes is the reason of a pod that its host still has: what the host reports to keep it.
func (o *PodSeen) removes(host string) string {
	if o.Kept == "" {
		return "host " + host + " removes " + o.Left[0]
	}
	return "on host " + host + ": " + o.Kept
}

// removePod takes a pod off its host. What is left there keeps its reservation.
func removePod(o *PodSeen) engine.Decision {
	b := o.Booking
	switch {
	case b == nil:
		return engine.IsConverged(engine.NewReason(codeGone, ""))
	case len(o.Set) > 0:
		return engine.Do(RemoveWorkloads{b.Host, o.Set}, engine.NewReason(codeRemoving, "it is removed from "+b.Host)).WithReport(b)
	case len(o.Left) > 0 && o.Offline:
		return engine.Wait(engine.NewReason(codeRemoving, "host "+b.Host+" is offline; what runs there ends by itself at "+b.Lease.Time().Format(time.RFC3339))).WithReport(b)
	case len(o.Left) > 0:
		return engine.Wait(engine.NewReason(codeRemoving, o.removes(b.Host))).WithReport(b)
	}
	return engine.IsConverged(engine.NewReason(codeGone, ""))
}
