package session

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Reasons of sessions, for programs.
const (
	codeReady     engine.Code = "ready"
	codeGone      engine.Code = "gone"
	codeGate      engine.Code = "gate"
	codePods      engine.Code = "pods-pending"
	codePhases    engine.Code = "phases-pending"
	codeScheduled engine.Code = "scheduled"
	codeNoRoom    engine.Code = "no-room"
	codeNotSet    engine.Code = "not-set"
	codeLate      engine.Code = "not-ready-by-start"
	codeStarting  engine.Code = "starting"
	codeFailed    engine.Code = "workload-failed"
	codeHost      engine.Code = "host-lost"
	codeRemoving  engine.Code = "removing"
	codeCall      engine.Code = "call"
	codeAwaits    engine.Code = "awaits-event"
	codeTimeout   engine.Code = "event-timeout"
	codeOver      engine.Code = "over"
	// CodeAway is of a job whose host is offline: it waits, and has not failed.
	CodeAway   engine.Code = "host-away"
	codeMoving engine.Code = "moving"
	codeEnding engine.Code = "ending"
)

// PartSpec is what is desired of a part's row.
type PartSpec struct {
	Part     Part     `json:"part"`
	Timeslot Timeslot `json:"timeslot"`
	ByStart  bool     `json:"byStart,omitempty"` // its pods have to be ready by the start
}

// PartReport is what a part tells its session.
type PartReport struct {
	Ready  bool                 `json:"ready,omitempty"`  // its pods are
	Phases map[string]string    `json:"phases,omitempty"` // by name: where each stands
	Pods   map[string]PodReport `json:"pods,omitempty"`
}

// NeedsNothing is observed of what is only a parent.
type NeedsNothing struct{}

// Ref is the row of a session.
func Ref(name string) engine.Ref { return engine.Ref{Kind: KindSession, ID: name} }

func below(parent engine.Ref, kind, name string) engine.Ref {
	return engine.Ref{Kind: kind, ID: parent.ID + "/" + name}
}

// Of is the name of the session that a row belongs to; empty if it is of none.
func Of(ref engine.Ref) string {
	switch ref.Kind {
	case KindSession, KindPart, KindPod, KindPhase:
		name, _, _ := strings.Cut(ref.ID, "/")
		return name
	}
	return ""
}

// Intent is what its owner asks for with a session: nothing of it outlives the end of its
// timeslot but what the cleanup deadline leaves it.
func Intent(name string, s *Spec) engine.Intent {
	return s.Timeslot.bounds(engine.Upsert(Ref(name), s))
}

// bounds ends what is of a session with its timeslot. Each row has them, so that a parent, which deletes
// in order, has the first half of the time until the cleanup deadline for that.
func (t *Timeslot) bounds(in engine.Intent) engine.Intent {
	return in.WithNotAfter(t.End).WithDeleteBy(t.CleanupDeadline)
}

// Notice is how long before the end of a session people are told of it; half of a short one.
const Notice = 10 * time.Minute

// untilNotice is the decision on a session of which all is there.
func (s *Spec) untilNotice(name string, now time.Time) engine.Decision {
	t := &s.Timeslot
	at := t.End.Add(-min(Notice, t.End.Sub(t.Start)/2))
	if now.Before(at) {
		return engine.IsConverged(engine.NewReason(codeReady, "")).RequeueAt(at)
	}
	return engine.IsConverged(engine.NewReason(codeEnding, "it ends at "+t.End.Format(time.RFC3339)+"; steady session extend "+name+" --by 30m moves that"))
}

// Decide is the decision on a session: its parts in the declared order, each once its gates open.
func Decide(v engine.View[Spec, NeedsNothing]) engine.Decision {
	if v.Resource.Delete {
		return gone(v.Resource.Status, v.Events)
	}
	s := &v.Resource.Desired
	parts := childrenOf(v.Children)
	var closed *engine.Reason
	var intents []engine.Intent
	var next time.Time
	for i := range s.Parts {
		p := &s.Parts[i]
		ref := below(v.Resource.Ref, KindPart, p.Name)
		child := parts[ref]
		switch why, at := s.blocked(p, v); {
		case p.Stopped && child != nil && !child.Delete:
			intents = append(intents, engine.Delete(ref).Because("the part was stopped"))
		case p.Stopped || child != nil && child.Delete:
		case child == nil && why != "":
			if closed == nil {
				r := engine.NewReason(codeGate, "part "+p.Name+" waits for "+why)
				closed = &r
			}
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		default:
			intents = append(intents, s.Timeslot.bounds(engine.Upsert(ref, PartSpec{Part: *p, Timeslot: s.Timeslot, ByStart: len(p.After) == 0 && !p.Late && s.Timeslot.Start.After(s.Timeslot.ProvisionAt)})).WithOrder(i).Because("declared by session "+v.Resource.Ref.ID))
		}
	}
	for _, c := range v.Children {
		if !c.Delete && !s.has(c.Ref) {
			intents = append(intents, engine.Delete(c.Ref).Because(notDeclared))
		}
	}
	d := s.untilNotice(v.Resource.Ref.ID, v.Now)
	if closed != nil {
		d = engine.WaitUntil(next, *closed)
	}
	return d.With(intents...).WithVerdicts(verdicts(v.Children, orContinue(s.OnFailure))...)
}

// gone decides that nothing is left, and keeps why. Events of this life are none of the next one of its name.
func gone(s engine.Status, events []engine.Event) engine.Decision {
	d := engine.IsConverged(engine.NewReason(codeGone, s.Reason.WhyDeleted()))
	if n := len(events); n > 0 {
		d = d.WithHandled(events[n-1].N)
	}
	return d
}

func (s *Spec) has(ref engine.Ref) bool {
	_, name, _ := strings.Cut(ref.ID, "/")
	for i := range s.Parts {
		if s.Parts[i].Name == name {
			return true
		}
	}
	return false
}

// blocked says what a part still waits for, and when that opens by itself.
func (s *Spec) blocked(p *Part, v engine.View[Spec, NeedsNothing]) (why string, at time.Time) {
	for _, g := range p.After {
		switch {
		case !g.At.IsZero():
			if v.Now.Before(g.At) {
				return g.String(), g.At
			}
		case g.Event != "":
			if !received(v.Events, g.Event) {
				return g.String(), time.Time{}
			}
		default:
			r := reportOf[PartReport](childrenOf(v.Children)[below(v.Resource.Ref, KindPart, g.on())])
			_, phase, _ := strings.Cut(g.Phase, "/")
			if g.Phase == "" && !r.Ready {
				return g.String(), time.Time{}
			}
			if g.Phase != "" && r.Phases[phase] != PhaseOver {
				return g.String(), time.Time{}
			}
		}
	}
	return "", time.Time{}
}

// Waits reports whether a gate waits for an event of a type that was not received.
func (s *Spec) Waits(eventType string, events []engine.Event) bool {
	for i := range s.Parts {
		for _, g := range s.Parts[i].After {
			if g.Event != "" && g.Event == eventType {
				return !received(events, eventType)
			}
		}
	}
	return false
}

func received(events []engine.Event, eventType string) bool {
	for i := range events {
		if events[i].Type == eventType {
			return true
		}
	}
	return false
}

// DecidePart is the decision on a part: its pods at once, then its phases one after another.
func DecidePart(v engine.View[PartSpec, NeedsNothing]) engine.Decision {
	if v.Resource.Delete {
		return gone(v.Resource.Status, nil)
	}
	spec := &v.Resource.Desired
	children := childrenOf(v.Children)
	report := PartReport{Ready: true, Pods: map[string]PodReport{}, Phases: map[string]string{}}
	wanted := map[engine.Ref]bool{}
	onFailure, declared := orAbort(spec.Part.OnFailure), "declared by part "+spec.Part.Name
	var intents []engine.Intent
	for i := range spec.Part.Pods {
		ref := below(v.Resource.Ref, KindPod, spec.Part.Pods[i].Name)
		intents = append(intents, spec.Timeslot.bounds(engine.Upsert(ref, PodSpec{Pod: spec.Part.Pods[i], Timeslot: spec.Timeslot, ByStart: spec.ByStart, Moves: spec.Part.Moves, Duplicates: spec.Part.Duplicates != ""})).Because(declared))
		wanted[ref] = true
		c := children[ref]
		report.Ready = report.Ready && c != nil && (c.Phase == engine.Converged || c.Phase == engine.Failed && onFailure == engine.Continue)
		if r := reportOf[PodReport](c); r.Host != "" {
			report.Pods[spec.Part.Pods[i].Name] = r
		}
	}
	d := engine.IsConverged(engine.NewReason(codeReady, ""))
	begins := report.Ready
	for i := range spec.Part.Phases {
		ph := &spec.Part.Phases[i]
		ref := below(v.Resource.Ref, KindPhase, ph.Name)
		wanted[ref] = true
		c := children[ref]
		report.Phases[ph.Name] = phaseState(c)
		if c != nil || begins { // one that began goes on, whatever becomes of those before it
			intents = append(intents, spec.Timeslot.bounds(engine.Upsert(ref, *ph)).WithOrder(1+i).Because(declared))
		} else if d.Name() == "converged" {
			d = engine.Wait(engine.NewReason(codePhases, "phase "+ph.Name+" has not begun"))
		}
		begins = begins && report.Phases[ph.Name] == PhaseOver
	}
	if len(spec.Part.Pods) > 0 && !report.Ready && d.Name() != "converged" {
		d = engine.Wait(engine.NewReason(codePods, "its pods are not ready"))
	}
	for _, c := range v.Children {
		if !c.Delete && !wanted[c.Ref] {
			intents = append(intents, engine.Delete(c.Ref).Because(notDeclared))
		}
	}
	return d.With(intents...).WithReport(report).WithVerdicts(verdicts(v.Children, onFailure)...)
}

// notDeclared is why what was declared once is deleted.
const notDeclared = "it is not declared any more"

func orContinue(a engine.FailureAction) engine.FailureAction {
	if a == "" {
		return engine.Continue
	}
	return a
}

func orAbort(a engine.FailureAction) engine.FailureAction {
	if a == "" {
		return engine.Abort
	}
	return a
}

// verdicts rules on all children that failed.
func verdicts(children []engine.Child, a engine.FailureAction) (out []engine.Verdict) {
	for i := range children {
		if c := &children[i]; c.NeedsVerdict {
			out = append(out, engine.Verdict{Child: c.Ref, Generation: c.Generation, Action: a})
		}
	}
	return out
}

func childrenOf(all []engine.Child) map[engine.Ref]*engine.Child {
	m := make(map[engine.Ref]*engine.Child, len(all))
	for i := range all {
		m[all[i].Ref] = &all[i]
	}
	return m
}

// reportOf reads what a child reports; one that reports nothing, or is not there, is the zero R.
func reportOf[R any](c *engine.Child) (r R) {
	if c != nil && len(c.Report) > 0 {
		if err := json.Unmarshal(c.Report, &r); err != nil {
			var none R
			return none
		}
	}
	return r
}
