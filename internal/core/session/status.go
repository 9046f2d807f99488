package session

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// State is where a session stands, for people.
type State string

// The states of a session.
const (
	Pending      State = "Pending"      // it waits for a host
	Scheduled    State = "Scheduled"    // its hosts are booked, and its time has not come
	Provisioning State = "Provisioning" // it comes up
	Ready        State = "Ready"        // all of it runs, before its start
	Running      State = "Running"      // since its start
	Degraded     State = "Degraded"     // it runs, with a part that failed and was accepted
	Stopping     State = "Stopping"     // it is taken down
	Retired      State = "Retired"      // nothing of it is left
	Failed       State = "Failed"
	Orphaned     State = "Orphaned" // something of it could not be cleaned up in time
)

// States lists them.
var States = []State{Pending, Scheduled, Provisioning, Ready, Running, Degraded, Stopping, Retired, Failed, Orphaned}

// Status is a session as people see it.
type Status struct {
	Name    string    `json:"name"`
	Owner   string    `json:"owner"`
	Created time.Time `json:"created,omitzero"`
	State   State     `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	// Summary is the state, and no better than the parts.
	Summary    status.Summary `json:"summary"`
	Alert      bool           `json:"alert,omitempty"` // it needs a person, and nobody acknowledged that
	Generation int64          `json:"generation"`
	Timeslot   Timeslot       `json:"timeslot"`
	Parts      []PartStatus   `json:"parts"`
	decided    bool           // each pod that waits for no gate has a host, or was found to have none
}

// Decided reports whether it is known of each pod that waits for no gate where it is to run, or why it waits.
func (st *Status) Decided() bool { return st.decided }

// Wait is a pod that waits for a host.
type Wait struct {
	Pod    string    `json:"pod"` // PART/POD
	Reason string    `json:"reason"`
	Room   time.Time `json:"room,omitzero" doc:"When it is likely to get one; left out if that is not known"`
}

// Waits are the pods that wait for a host.
func (st *Status) Waits() (out []Wait) {
	for i := range st.Parts {
		p := &st.Parts[i]
		for k := range p.Pods {
			if pod := &p.Pods[k]; pod.Host == "" && pod.Phase == string(engine.Waiting) {
				out = append(out, Wait{p.Name + "/" + pod.Name, pod.Reason, pod.Room})
			}
		}
	}
	return out
}

// PartStatus is a part as people see it.
type PartStatus struct {
	Name    string         `json:"name"`
	Phase   string         `json:"phase"` // of its row; pending before it has one
	Reason  string         `json:"reason,omitempty"`
	Summary status.Summary `json:"summary"`
	Stopped bool           `json:"stopped,omitempty"`
	Pods    []PodStatus    `json:"pods,omitempty"`
	Phases  []JobStatus    `json:"phases,omitempty"`
}

// PodStatus is a pod as people see it.
type PodStatus struct {
	Name      string         `json:"name"`
	Phase     string         `json:"phase"`
	Reason    string         `json:"reason,omitempty"`
	Summary   status.Summary `json:"summary"`
	Attempts  int            `json:"attempts,omitempty"` // that failed, while there will be more
	Host      string         `json:"host,omitempty"`
	Room      time.Time      `json:"room,omitzero" doc:"When a pod without a host is likely to get one; left out if that is not known"`
	GPUs      []int          `json:"gpus,omitempty"`
	Workloads []string       `json:"workloads"`
	URLs      []string       `json:"urls,omitempty"` // of its routes
}

// JobStatus is a phase of a part as people see it.
type JobStatus struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`
	Reason   string          `json:"reason,omitempty"`
	Summary  status.Summary  `json:"summary"`
	Attempts int             `json:"attempts,omitempty"` // that failed, while there will be more
	Most     int             `json:"mostAttempts" doc:"how often it is attempted at most"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// Rows reads rows of sessions.
type Rows interface {
	Get(ref engine.Ref) (engine.Row, error)
}

// Describe is a session as it stands now, of its rows. It fails with engine.ErrNotFound.
func Describe(rows Rows, name string, now time.Time) (Status, error) {
	row, err := rows.Get(Ref(name))
	if err != nil {
		return Status{}, err
	}
	var spec Spec
	if err := json.Unmarshal(row.Desired, &spec); err != nil {
		return Status{}, err
	}
	st := Status{Name: name, Owner: spec.Owner, Created: spec.Created, Reason: row.Reason.Text(), Alert: row.Alerts(), Generation: row.Generation, Timeslot: spec.Timeslot, Parts: []PartStatus{}}
	all := progress{booked: true, up: true, decided: true}
	for i := range spec.Parts {
		p := describePart(rows, &row, &spec.Parts[i], &all)
		st.Parts = append(st.Parts, p)
	}
	st.decided = all.decided
	st.State = stateOf(&row, &spec.Timeslot, all, now)
	if st.State == Retired {
		st.State = stateOfRest(st.Parts)
	}
	st.Summary = st.summary(row.Since())
	return st, nil
}

// Below lists the rows that a session's description is made of, beside its own.
func Below(row *engine.Row) (refs []engine.Ref, err error) {
	var s Spec
	if err := json.Unmarshal(row.Desired, &s); err != nil {
		return nil, err
	}
	for i := range s.Parts {
		p := &s.Parts[i]
		part := below(row.Ref, KindPart, p.Name)
		refs = append(refs, part)
		for k := range p.Pods {
			refs = append(refs, below(part, KindPod, p.Pods[k].Name))
		}
		for k := range p.Phases {
			refs = append(refs, below(part, KindPhase, p.Phases[k].Name))
		}
	}
	return refs, nil
}

// Table lists rows of sessions.
type Table interface {
	Rows
	List(f engine.Filter) []engine.Row
}

// List describes all sessions of a table, in the order of their names.
func List(rows Table, now time.Time) (out []Status, err error) {
	for _, name := range Names(rows.List(engine.Filter{Kind: KindSession})) {
		st, err := Describe(rows, name, now)
		if err != nil {
			return out, err
		}
		out = append(out, st)
	}
	return out, nil
}

// stateOfRest is the state of a session whose row is gone, by its pods: one that was given up is cleaned up later.
func stateOfRest(parts []PartStatus) State {
	rest := Retired
	for i := range parts {
		for _, p := range parts[i].Pods {
			switch {
			case p.Phase == string(engine.Orphaned):
				return Orphaned
			case p.Phase != string(engine.Deleted):
				rest = Stopping
			}
		}
	}
	return rest
}

// progress is how far all pods are that wait for no gate.
type progress struct {
	booked  bool // they have hosts
	up      bool // they ran once, or will not
	decided bool // they have hosts, or were found to have none
}

// describePart describes a part of the session of the row parent. What has no row is still to come, or gone.
func describePart(rows Rows, parent *engine.Row, p *Part, all *progress) PartStatus {
	ref := below(parent.Ref, KindPart, p.Name)
	row, there := find(rows, ref)
	out := PartStatus{Name: p.Name, Phase: string(engine.Pending), Stopped: p.Stopped}
	over := parent.Delete || parent.Phase.Terminal() || p.Stopped
	switch {
	case there:
		out.Phase, out.Reason = string(row.Phase), row.Reason.Text()
		over = over || row.Phase == engine.Failed
	case over:
		out.Phase = string(engine.Deleted)
	case len(p.After) > 0:
		out.Reason = "it comes up after " + afterAll(p.After)
	}
	for i := range p.Pods {
		pod := PodStatus{Name: p.Pods[i].Name, Phase: string(engine.Pending), Workloads: []string{}}
		if over {
			pod.Phase = string(engine.Deleted)
		}
		ran := false
		for k := range p.Pods[i].Workloads {
			pod.Workloads = append(pod.Workloads, p.Pods[i].Workloads[k].ID())
		}
		if row, there := find(rows, below(ref, KindPod, pod.Name)); there {
			pod.Phase, pod.Reason, pod.Attempts = string(row.Phase), row.Reason.Text(), failed(&row)
			c := row.ChildView()
			pod.Room = reportOf[PodReport](&c).Room.Time()
			if b := Booking(&row); b != nil {
				pod.Host, pod.GPUs, pod.URLs, ran = b.Host, b.GPUs, p.Pods[i].urls(b.Host), b.Ran
			}
			ran = ran || row.Phase == engine.Failed
		}
		if len(p.After) == 0 && !over {
			all.booked, all.up = all.booked && pod.Host != "", all.up && ran
			all.decided = all.decided && (pod.Host != "" || pod.Phase != string(engine.Pending))
		}
		pod.Summary = rowSummary(pod.Phase, pod.Reason)
		out.Pods = append(out.Pods, pod)
	}
	for i := range p.Phases {
		job := JobStatus{Name: p.Phases[i].Name, State: PhasePending}
		job.Most, _ = p.Phases[i].attempts()
		if row, err := rows.Get(below(ref, KindPhase, job.Name)); err == nil && (over || row.Phase != engine.Deleted) {
			c := row.ChildView()
			r := reportOf[PhaseReport](&c)
			job.State, job.Reason, job.Result, job.Most = phaseState(&c), row.Reason.Text(), r.Result, cmp.Or(r.Most, job.Most)
			if job.State == PhaseRunning {
				job.Attempts = r.Missed + failedJobs(row.Status())
			}
			if row.Phase == engine.Deleted && r.Event != "" {
				job.State, job.Reason = PhaseOver, endedBy(r.Event) // what ended it outlives its part
			}
		} else if over {
			job.State = PhaseGone
		}
		job.Summary = rowSummary(job.State, job.Reason)
		out.Phases = append(out.Phases, job)
	}
	out.Summary = rowSummary(out.Phase, out.Reason)
	if p.Stopped && out.Phase == string(engine.Deleted) && !parent.Delete && !parent.Phase.Terminal() {
		out.Summary.Word = "stopped" // and down: until then the word is that of its row
	}
	return out
}

// failed counts the attempts that failed of a row that is tried again. The reason of one that was given up says it.
func failed(row *engine.Row) int {
	switch row.Phase {
	case engine.Retrying:
		return row.Attempts
	case engine.Acting:
		return row.Attempts - 1 // what is under way did not fail
	}
	return 0
}

func find(rows Rows, ref engine.Ref) (engine.Row, bool) {
	row, err := rows.Get(ref)
	return row, err == nil && row.Phase != engine.Deleted
}

func stateOf(row *engine.Row, slot *Timeslot, all progress, now time.Time) State {
	switch {
	case row.Phase == engine.Deleted:
		return Retired
	case row.Phase == engine.Orphaned:
		return Orphaned
	case row.Delete:
		return Stopping
	case row.Phase == engine.Failed:
		return Failed
	case !all.booked:
		return Pending
	case now.Before(slot.ProvisionAt):
		return Scheduled
	case row.Phase == engine.Degraded:
		return Degraded
	case !all.up || row.Phase != engine.Converged && now.Before(slot.Start):
		return Provisioning
	case now.Before(slot.Start):
		return Ready
	}
	return Running
}

// Turns is when time alone next makes the state of a session another one, or zero.
func (t Timeslot) Turns(now time.Time) time.Time {
	for _, at := range []time.Time{t.ProvisionAt, t.Start} {
		if now.Before(at) {
			return at
		}
	}
	return time.Time{}
}

// Names lists the sessions among rows, in order.
func Names(rows []engine.Row) []string {
	var out []string
	for i := range rows {
		if rows[i].Ref.Kind == KindSession && !strings.Contains(rows[i].Ref.ID, "/") {
			out = append(out, rows[i].Ref.ID)
		}
	}
	return out
}
