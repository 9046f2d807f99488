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
	// Unfit says why the booked host has no room for the slot as it is now.
	Unfit string `json:"unfit,omitempty"`
	// Lost says why the booked host cannot run it any longer; Offline that it is not connected.
	Lost    string `json:"lost,omitempty"`
	Offline bool   `json:"offline,omitempty"`
	// Differ are workloads that the host's layer does not have as desired, Extra those that it
	// has of this pod beside them, and Left those that the host still reports.
	Differ []string `json:"differ,omitempty"`
	Extra  []string `json:"extra,omitempty"`
	Left   []string `json:"left,omitempty"`
	// Failed and Pending are workloads that the host reports so, each with why.
	Failed  []string `json:"failed,omitempty"`
	Pending []string `json:"pending,omitempty"`
}

// SetWorkloads sets the workloads of a pod on a host, and removes what is not of it any more.
type SetWorkloads struct {
	Host   string   `json:"host"`
	Remove []string `json:"remove,omitempty"`
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
	case o.Booking != nil:
		b = *o.Booking
		if b.State = ""; len(o.Differ) == 0 {
			b.State = "set"
		}
		if o.Unfit != "" {
			return engine.Wait(engine.NewReason(codeNoRoom, o.Unfit)).WithReport(b)
		}
		b.Slot.To = request.Slot.To // as extended
	case !o.Choice.Placed():
		return engine.WaitUntil(o.Next, engine.NewReason(codeNoRoom, noRoom(o)))
	default:
		b = PodReport{Reservation: request.Reserve(o.Choice)} // in the slot of the choice
	}
	switch {
	case o.Lost != "":
		return engine.Fail(engine.NewReason(codeHost, o.Lost)).WithReport(b)
	case v.Now.Before(spec.Timeslot.ProvisionAt):
		return engine.WaitUntil(spec.Timeslot.ProvisionAt, engine.NewReason(codeScheduled, "it is scheduled on "+b.Host)).WithReport(b)
	case spec.ByStart && !b.Ran && !v.Now.Before(spec.Timeslot.Start) && !o.runs():
		return engine.Fail(engine.NewReason(codeLate, "it does not run on "+b.Host+" by "+spec.Timeslot.Start.Format(time.RFC3339)+o.because())).WithReport(b)
	case o.Booking == nil || len(o.Differ) > 0 || len(o.Extra) > 0:
		return engine.Do(SetWorkloads{Host: b.Host, Remove: o.Extra}, engine.NewReason(codeNotSet, "it is to run on "+b.Host)).WithReport(b)
	case len(o.Failed) > 0:
		return engine.Fail(engine.NewReason(codeFailed, "on "+b.Host+": "+strings.Join(o.Failed, "; "))).WithReport(b)
	case len(o.Pending) > 0:
		return engine.WaitUntil(spec.start(v.Now), engine.NewReason(codeStarting, startingOn(b.Host, o))).WithReport(b)
	}
	b.State, b.Ran = "running", true
	return engine.IsConverged(engine.NewReason(codeReady, "it runs on "+b.Host)).WithReport(b)
}

// runs reports whether all of the pod is set on its host and runs there.
func (o *PodSeen) runs() bool {
	return o.Booking != nil && len(o.Differ)+len(o.Extra)+len(o.Failed)+len(o.Pending) == 0
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
	if f := o.Freed; f != nil {
		why += fmt.Sprintf("; sooner on %s without %s", f.Host, strings.Join(f.Owners, ", "))
	}
	return why
}

// removePod takes a pod off its host. What is left there keeps its reservation.
func removePod(o *PodSeen) engine.Decision {
	b := o.Booking
	switch {
	case b == nil:
		return engine.IsConverged(engine.NewReason(codeGone, ""))
	case len(o.Extra) > 0:
		return engine.Do(RemoveWorkloads{b.Host, o.Extra}, engine.NewReason(codeRemoving, "it runs on "+b.Host)).WithReport(b)
	case len(o.Left) > 0 && o.Offline:
		return engine.Wait(engine.NewReason(codeRemoving, "host "+b.Host+" is offline; what runs there ends by itself at "+b.Slot.To.Time().Format(time.RFC3339))).WithReport(b)
	case len(o.Left) > 0:
		return engine.Wait(engine.NewReason(codeRemoving, "host "+b.Host+" removes "+o.Left[0])).WithReport(b)
	}
	return engine.IsConverged(engine.NewReason(codeGone, ""))
}
