package agent

import (
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Between rollouts a host repairs drift of what it runs. What does not stop
// anything it repairs by itself; the rest it reports, and waits for a grant of
// purpose Repair, so that a common cause does not stop a whole tier at once. A
// claimed one opens a window in which such repairs may begin.

// RepairEvery is the least time between two reports of what is needed.
const RepairEvery = 30 * clock.Second

// Repairs are the repairs that need a grant.
type Repairs struct {
	// Need is as last reported; nil when nothing waits.
	Need *host.RepairNeed `json:"need,omitempty"`
	// ReportedAt is when a need was last reported, NextReport when a change that came
	// too soon after it is reported.
	ReportedAt clock.Instant `json:"reportedAt,omitempty"`
	NextReport clock.Instant `json:"nextReport,omitempty"`
	// Names are all resources that wait, or waited when the window opened.
	Names []string `json:"names,omitempty"`
	// Grant is claimed while a window is open. Nothing begins in it after Until;
	// it is Closing then, until what began has ended.
	Grant   string        `json:"grant,omitempty"`
	Until   clock.Instant `json:"until,omitempty"`
	Closing bool          `json:"closing,omitempty"`
	// Last is the grant of the window before, Earlier those of the ones before it: a log
	// that was set back may name any of them once more.
	Last    string   `json:"last,omitempty"`
	Earlier []string `json:"earlier,omitempty"`
	// Reboot is the boot in which the open window began to reboot the machine. Futile is one
	// in which that did not help: no reboot is asked for in it again.
	Reboot string `json:"reboot,omitempty"`
	Futile string `json:"futile,omitempty"`
}

// maxEarlier is how many grants of windows stay known.
const maxEarlier = 8

// over is what stays when a window is over, or what waited is forgotten.
func (r *Repairs) over() Repairs {
	out := Repairs{ReportedAt: r.ReportedAt, Last: r.Last, Earlier: r.Earlier}
	if r.Grant != "" {
		if out.Last = r.Grant; r.Last != "" {
			out.Earlier = append(slices.Clone(r.Earlier[max(0, len(r.Earlier)+1-maxEarlier):]), r.Last)
		}
	}
	return out
}

// did reports whether a grant is that of a window that was opened.
func (r *Repairs) did(grant string) bool {
	return r.Grant == grant || r.Last == grant || slices.Contains(r.Earlier, grant)
}

// Open reports whether a repair may begin now.
func (r *Repairs) Open(now clock.Instant) bool {
	return r.Grant != "" && !r.Closing && !r.Until.Reached(now)
}

// due is when RepairsObserved must come although nothing happened, or zero.
func (r *Repairs) due() clock.Instant {
	switch {
	case r.Grant == "":
		return r.NextReport
	case r.Closing:
		return 0
	}
	return r.Until
}

func (r *Repairs) equal(o *Repairs) bool {
	return r.Reboot == o.Reboot && r.Futile == o.Futile && r.Need == o.Need && r.ReportedAt == o.ReportedAt && r.NextReport == o.NextReport && slices.Equal(r.Names, o.Names) &&
		r.Grant == o.Grant && r.Until == o.Until && r.Closing == o.Closing && r.Last == o.Last && slices.Equal(r.Earlier, o.Earlier)
}

// RepairsObserved is what is seen of repairs that need a grant. It comes when that
// may have changed and when an Observe asks, in any order with everything else.
type RepairsObserved struct {
	// Blocked are the resources whose repair waits, kind/id in order, and Reason is
	// that of the first.
	Blocked []string
	Reason  string
	// Pending says that a repair of the window is on its way, Running that an act
	// of one has begun and not ended. Failed are those of the window given up.
	Pending, Running bool
	Failed           []string
	// Staged are the resources whose repair waits for a reboot of this boot of the machine, kind/id
	// in order, and Component is what cannot be changed while it runs.
	Staged    []string
	Component string
}

func (in RepairsObserved) apply(t *turn) error {
	s, r := t.s, &t.s.Repairs
	before := *r
	s.observing = false
	switch {
	case !s.Machine.AtRest() || s.Removal.empties():
		t.dropRepairs()
	case r.Grant != "":
		t.continueRepairs(&in)
	case len(in.Blocked) > 0, t.asksReboot(&in):
		t.needRepairs(&in)
	default:
		r.NextReport, r.Names = 0, nil
		if r.Need != nil {
			r.Need = nil
			t.report(event.RepairOver{OK: true, Detail: "nothing waits any more"})
		}
	}
	t.Save = t.Save || !before.equal(r)
	return nil
}

// needRepairs reports what waits, when that is news and not too soon.
func (t *turn) needRepairs(in *RepairsObserved) {
	m, r := &t.s.Machine, &t.s.Repairs
	n := host.RepairNeed{Manifest: m.Manifest, Bundle: m.Current, Reason: in.Reason}
	names := in.Blocked
	if len(names) == 0 { // what can be repaired without a reboot goes first
		names, n.Reboot, n.Reason = in.Staged, in.Component, in.Component+" takes effect with a reboot"
	}
	n.Resources = slices.Clone(names[:min(len(names), host.MaxRepairNames)])
	n.More = len(names) - len(n.Resources)
	r.Names = slices.Clone(names)
	switch next := r.ReportedAt.Add(RepairEvery); {
	case r.Need != nil && r.Need.Same(&n):
		r.NextReport = 0
		return
	case r.ReportedAt != 0 && !next.Reached(t.now):
		r.NextReport = next
		return
	}
	r.Need, r.ReportedAt, r.NextReport = &n, t.now, 0
	t.report(event.RepairNeeded{RepairNeed: n})
}

// continueRepairs goes on with an open window, or closes it once its repairs are
// over or its time is, and no act of it runs any more.
func (t *turn) continueRepairs(in *RepairsObserved) {
	r := &t.s.Repairs
	r.Closing = r.Closing || r.Until.Reached(t.now)
	if in.Running || !r.Closing && (in.Pending || len(in.Blocked) > 0) {
		if r.Open(t.now) && len(in.Blocked) > 0 {
			t.emit(BeginRepairs{Grant: r.Grant, Until: r.Until, Names: in.Blocked})
		}
		return
	}
	if len(in.Staged) > 0 && len(in.Failed) == 0 && !(r.Closing && r.Reboot != "") {
		t.rebootRepairs(in)
		return
	}
	end := event.RepairOver{Grant: r.Grant, OK: true, Detail: "repaired"}
	switch {
	case len(in.Failed) > 0:
		end.OK, end.Detail = false, count(in.Failed)+" could not be repaired"
	case len(in.Blocked) > 0:
		end.OK, end.Detail = false, "the time was over before "+count(in.Blocked)+" were repaired"
	case in.Pending:
		end.OK, end.Detail = false, "the time was over before the repair was seen to work"
	case len(in.Staged) > 0 && r.Reboot != "":
		end.OK, end.Detail = false, "the machine was not rebooted in time"
	}
	t.closeRepairs(in, end)
}

// closeRepairs ends the window, and asks for the next where something waits.
func (t *turn) closeRepairs(in *RepairsObserved, end event.RepairOver) {
	r := &t.s.Repairs
	futile := r.Futile
	if r.Reboot != "" && !end.OK {
		futile = t.s.Machine.BootID
	}
	*r = r.over()
	r.Futile = futile
	t.endRepairs(end)
	if len(in.Blocked) > 0 || t.asksReboot(in) {
		t.needRepairs(in)
	}
}

func count(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strconv.Itoa(len(names)) + " resources (" + names[0] + " first)"
}

// endRepairs reports the end of a window, or that nothing waits for one.
func (t *turn) endRepairs(e event.RepairOver) {
	t.report(e)
	if e.Grant != "" {
		t.emit(CloseRepairs{Grant: e.Grant})
	}
}

// dropRepairs forgets what waited: the host goes to another generation, which
// repairs everything on its way.
func (t *turn) dropRepairs() {
	m, r := &t.s.Machine, &t.s.Repairs
	grant, reported := r.Grant, r.Need != nil
	*r = r.over()
	if grant != "" || reported {
		t.endRepairs(event.RepairOver{Grant: grant, Detail: "the host went on in " + m.Rollout + ": " + string(m.Phase)})
	}
}

// refusesRepair is of a repair of what the host runs now. With nothing to repair any
// more it is claimed all the same and its window closed at once, since the server may
// have committed the claim already.
func (s *State) refusesRepair(o *Offer) (code, detail string) {
	m := &s.Machine
	quarantined := s.Overrides.Quarantined(s.Plan.Channel, m.Current, s.Plan.Host)
	switch {
	case m.Manifest != o.Plan.Manifest:
		return host.DeclineOtherRollout, "the host is not in that rollout"
	case !m.AtRest():
		return host.DeclineBusy, "the host is " + string(m.Phase) + " in " + m.Rollout
	case s.Repairs.Grant != "":
		return host.DeclineBusy, "the host is being repaired under " + s.Repairs.Grant
	case quarantined != nil:
		return host.DeclineOverride, quarantined.Message()
	}
	return "", ""
}

// openRepairs opens the window of a claimed grant, which lasts as long as an
// activation may.
func (t *turn) openRepairs(grant string) {
	r := &t.s.Repairs
	r.Grant, r.Until, r.Closing = grant, t.now.Add(t.s.Plan.Policy.ActivationDeadline), false
	if !t.s.Machine.AtRest() {
		t.dropRepairs()
		return
	}
	t.beginRepairs(r.Names)
	t.s.observing = false // what was seen so far was seen before the window opened
	t.observe()
}

func (t *turn) beginRepairs(names []string) {
	r := &t.s.Repairs
	t.emit(BeginRepairs{Grant: r.Grant, Until: r.Until, Names: names})
}
