package session

import (
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/reconcile/engine"
)

var stateLevels = map[State]status.Level{
	Pending: status.Waiting, Scheduled: status.Waiting, Provisioning: status.Busy, Ready: status.OK, Running: status.OK,
	Degraded: status.Critical, Stopping: status.Busy, Retired: status.Waiting, Failed: status.Critical, Orphaned: status.Critical,
}

var phaseLevels = map[string]status.Level{
	string(engine.Pending): status.Waiting, string(engine.Acting): status.Busy, string(engine.Verifying): status.Busy,
	string(engine.Retrying): status.Busy, string(engine.Waiting): status.Waiting, string(engine.Converged): status.OK,
	string(engine.Degraded): status.Critical, string(engine.Drifted): status.Busy, string(engine.Deleting): status.Busy,
	string(engine.Failed): status.Critical, string(engine.Deleted): status.Waiting, string(engine.Orphaned): status.Critical,
	PhaseRunning: status.Busy, PhaseOver: status.OK,
}

// rowSummary is how a part, pod or phase is that has a word of phaseLevels.
func rowSummary(word, reason string) status.Summary {
	return status.Summary{Word: word, Level: phaseLevels[word], Reason: reason}
}

// summary is the state of a session, and no better than its parts while they are its own: what a
// session that is over left behind is in its state already.
func (st *Status) summary(since time.Time) status.Summary {
	out := status.Summary{Word: string(st.State), Level: stateLevels[st.State], Reason: st.Reason, Since: clock.FromTime(since)}
	if st.State == Retired || st.State == Stopping {
		return out
	}
	if worst := st.worstPart(); worst.Level.NeedsPerson() {
		if worst.Level.Worse(out.Level) {
			out.Level = worst.Level
		}
		if worst.Reason != "" {
			out.Reason = worst.Reason
		}
	}
	if waits := st.Waits(); st.State == Pending && len(waits) > 0 {
		out.Reason = "pod " + waits[0].Pod + ": " + waits[0].Reason
	}
	if out.Level.NeedsPerson() {
		out.Who, out.Next = status.Operator, []status.Remedy{status.Do(status.SessionShow, st.Name)}
		if st.State == Orphaned {
			out.Next = append(out.Next, status.Do(status.SessionReconcile, st.Name))
		}
	}
	return out
}

// worstPart is the worst of the rows below a session, its reason beginning with their names. A pod or
// phase is told of before its part, whose failure follows from it.
func (st *Status) worstPart() status.Summary {
	var rows []status.Summary
	add := func(s status.Summary, names ...string) {
		if s.Reason != "" {
			s.Reason = strings.Join(names, " ") + ": " + s.Reason
		}
		rows = append(rows, s)
	}
	for i := range st.Parts {
		p := &st.Parts[i]
		for k := range p.Pods {
			add(p.Pods[k].Summary, "pod", p.Name+"/"+p.Pods[k].Name)
		}
		for k := range p.Phases {
			add(p.Phases[k].Summary, "phase", p.Name+"/"+p.Phases[k].Name)
		}
		if below := st.below(p.Summary); below != nil {
			rows = append(rows, *below)
		} else {
			add(p.Summary, "part", p.Name)
		}
	}
	return status.Worst(rows...)
}

// below is the summary of a part whose reason is that of a pod or phase of it, which begins with its
// reference: it is worded as that one's own. It is nil where the reason is the part's.
func (st *Status) below(s status.Summary) *status.Summary {
	for _, kind := range []string{KindPod, KindPhase} {
		if rest, of := strings.CutPrefix(s.Reason, kind+"/"+st.Name+"/"); of {
			s.Reason = kind + " " + rest
			return &s
		}
	}
	return nil
}

// Item is what a session needs a person for; nil where it needs none, or is not known.
func Item(rows Rows, name string, now time.Time) *status.Item {
	st, err := Describe(rows, name, now)
	if err != nil || !st.Summary.Level.NeedsPerson() {
		return nil
	}
	return &status.Item{Kind: KindSession, Name: name, Cause: strings.Join(st.failing(), " "), Summary: st.Summary}
}

// failing names the rows of a session that failed or were orphaned.
func (st *Status) failing() (names []string) {
	add := func(s status.Summary, name string) {
		if s.Level.NeedsPerson() {
			names = append(names, name)
		}
	}
	for i := range st.Parts {
		p := &st.Parts[i]
		for k := range p.Pods {
			add(p.Pods[k].Summary, p.Name+"/"+p.Pods[k].Name)
		}
		for k := range p.Phases {
			add(p.Phases[k].Summary, p.Name+"/"+p.Phases[k].Name)
		}
	}
	return names
}
