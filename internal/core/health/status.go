package health

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Status is how well a resource, a host or a group of hosts is.
type Status string

// The statuses, from best to worst.
const (
	Unknown     Status = "unknown" // nothing is known of it, or nothing new
	Healthy     Status = "healthy"
	Progressing Status = "progressing"
	Degraded    Status = "degraded"
)

// Statuses lists them in that order.
var Statuses = []Status{Unknown, Healthy, Progressing, Degraded}

// Meanings say what they mean.
var Meanings = []prose.Meaning{
	{Word: string(Unknown), Means: "nothing is known of it, or nothing new: it is not in contact", Next: "start its agent, and check its log and its network"},
	{Word: string(Healthy), Means: "it runs what it should, and its resources are as declared", Next: "nothing"},
	{Word: string(Progressing), Means: "it changes, or a resource of it is on its way to what is declared", Next: "healthy or degraded"},
	{Word: string(Degraded), Means: "it is in contact and does not run what it should, for longer than that may take", Next: "`steady host resources HOST` shows what; once its cause is gone: `steady host retry HOST`"},
}

// Worst is the status of a group: the worst of its members, Unknown of none.
func Worst(members ...Status) Status {
	worst := Unknown
	for _, s := range members {
		if slices.Index(Statuses, s) > slices.Index(Statuses, worst) {
			worst = s
		}
	}
	return worst
}

// within is how long what no set declares may be on its way before it is degraded.
// Its host goes on trying; a person should look.
var within = map[string]clock.Duration{
	"file": 2 * clock.Minute, "system": 30 * clock.Minute,
}

const withinOther = 5 * clock.Minute

// Within is how long a resource may be on its way before it is degraded.
func Within(resource string) clock.Duration {
	kind := KindOf(resource)
	if k := spec.Known.Kind(kind); k != nil {
		return k.Progress
	}
	if d, ok := within[kind]; ok {
		return d
	}
	return withinOther
}

// Unready is a resource that is not as it should be, from when it ceased to be
// until it is again: a new try in between is no recovery.
type Unready struct {
	// Since is on the server's clock; 0 until the batch of reports has ended.
	Since clock.Instant `json:"since"`
	// Failed says that it failed meanwhile.
	Failed bool `json:"failed,omitempty"`
}

// Status is the status at an instant, and when time alone makes it worse; 0: never.
func (u Unready) Status(resource string, now clock.Instant) (Status, clock.Instant) {
	switch by := u.Since.Add(Within(resource)); {
	case u.Failed || u.Since != 0 && by.Reached(now):
		return Degraded, 0
	case u.Since != 0:
		return Progressing, by
	}
	return Progressing, 0
}

// Facts is what is known of a host besides its resources.
type Facts struct {
	// Enrolled says that the host has an identity that counts.
	Enrolled bool
	// Runs says that it was given something to run.
	Runs bool
	// Online says that the host is heard from.
	Online bool
	// Moving says that the host is on its way in a rollout, whose own deadlines
	// end that: nothing of it is degraded yet.
	Moving bool
	// Failed reports that its activation failed, or that it was given up: what it is degraded for is
	// told by its rollout.
	Failed bool
	// Failing are the enforce probes that have failed for too long since the host
	// settled. NextFailing is when time alone adds one; 0: it does not.
	Failing     []Probe
	NextFailing clock.Instant
}

// Probe is a probe that fails, and why.
type Probe struct {
	Name, Message string
}

// Assessment is the status of a host and what it is for.
type Assessment struct {
	Status Status
	// Resources are those that are Degraded, by name; Probes those of Facts.
	Resources []string
	Probes    []Probe
	// Next is when time alone may change the status; 0: it does not.
	Next clock.Instant
}

// Assess says how a host is. A nil host has reported nothing.
func (h *Host) Assess(f Facts, now clock.Instant) Assessment {
	a := Assessment{Status: Healthy}
	if h != nil {
		for _, name := range slices.Sorted(maps.Keys(h.Unready)) {
			status, next := h.Unready[name].Status(name, now)
			if a.Status = Worst(a.Status, status); status == Degraded {
				a.Resources = append(a.Resources, name)
			}
			a.Next = clock.Earliest(a.Next, next)
		}
	}
	if a.Probes = f.Failing; len(a.Probes) > 0 {
		a.Status = Degraded
	}
	if f.NextFailing != 0 {
		a.Status = Worst(a.Status, Progressing)
	}
	a.Next = clock.Earliest(a.Next, f.NextFailing)
	switch {
	case !f.Enrolled, !f.Runs && len(a.Resources) == 0:
		return Assessment{Status: Unknown}
	case f.Moving:
		return Assessment{Status: Progressing}
	case f.Failed:
		return Assessment{Status: Degraded}
	case !f.Online && a.Status != Degraded:
		a.Status = Unknown
	}
	return a
}

// Unfinished are the resources that are not as they should be, yet or any more, by
// name, as they were last reported, at most event.MaxDegraded, and how many more.
func (h *Host) Unfinished() (list []event.DegradedResource, more int) {
	if h == nil {
		return nil, 0
	}
	ev := h.Degradation(Assessment{Resources: slices.Sorted(maps.Keys(h.Unready))})
	return ev.Resources, ev.More
}

// Degradation is the event that says of a host what it is degraded for.
func (h *Host) Degradation(a Assessment) event.HostDegraded {
	var ev event.HostDegraded
	for i, name := range a.Resources {
		if r := h.Resources[name]; i < event.MaxDegraded {
			ev.Resources = append(ev.Resources, event.DegradedResource{Resource: name, State: r.State, Reason: r.Reason, Message: cut(r.Message, maxValue)})
		}
		r := h.Resources[name]
		ev.Bundle = ev.Bundle || r.Layer != event.LayerManaged && !r.Before
	}
	ev.More = max(0, len(a.Resources)-event.MaxDegraded)
	for _, p := range a.Probes {
		ev.Probes = append(ev.Probes, event.DegradedProbe{Probe: p.Name, Message: cut(p.Message, maxValue)})
		ev.Bundle = true
	}
	return ev
}
