package engine

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Hold keeps a repair back; see Turn.
type Hold struct {
	Held   bool
	Until  Instant
	Reason Reason
}

// IsRepair reports whether d would act on a generation that had converged.
func IsRepair(row *Row, d Decision) bool {
	return d.Action() != nil && !row.Retire && !row.GivenUp && row.ConvergedGen == row.Generation
}

// Turn computes what to record after a decision. If the record holds an Act,
// it is the intent to be committed before the act begins.
func Turn(in Input, d Decision, hold Hold) Record {
	if steady(&in, &d) {
		rec := newRecord(in)
		return rec.done(in)
	}
	return turnOf(in, d, hold)
}

// steady is the turn that happens most: as desired, as recorded, nothing to say.
func steady(in *Input, d *Decision) bool {
	row := &in.Snap.Row
	if _, ok := d.out.(outConverged); !ok || row.Phase != Converged || row.ConvergedGen != row.Generation ||
		row.Retire || row.Attempts != 0 || row.Steps != 0 || row.RetryAt != 0 || row.GivenUp ||
		row.Action != "" || row.Reason != d.reason || len(d.children) != 0 {
		return false
	}
	for i := range in.Snap.Children {
		if p := in.Snap.Children[i].Phase; p != Converged && p != Retired {
			return false
		}
	}
	return true
}

func turnOf(in Input, d Decision, hold Hold) Record {
	rec := newRecord(in)
	if rec.abort(in, d) {
		return rec.done(in)
	}
	row := &in.Snap.Row
	if !row.GivenUp && !row.Retire {
		for _, i := range d.children {
			if err := rec.child(in, i); err != nil {
				// Nothing of a decision with a bad intent is applied.
				rec = newRecord(in)
				rec.fail(in, Because(CodeBadIntent, err.Error()), false)
				return rec.done(in)
			}
		}
	}
	t := turn{in: in, rec: &rec, d: d, hold: hold}
	Match[struct{}](d, &t)
	return rec.done(in)
}

func (rec *Record) child(in Input, i Intent) error {
	if i.Ref == in.Snap.Row.Ref || i.Ref == in.Snap.Row.Parent || i.Ref.Kind == "" || i.Ref.ID == "" {
		return fmt.Errorf("%s cannot have %q as its child", in.Snap.Row.Ref, i.Ref.String())
	}
	if i.Op != OpUpsert && i.Op != OpRetire && i.err == nil {
		return fmt.Errorf("a parent may upsert or retire %s, not %s it", i.Ref, i.Op)
	}
	return rec.intend(in, i)
}

// abort rules on failed children. It reports whether the row gave up because of one.
func (rec *Record) abort(in Input, d Decision) bool {
	var bad *Row
	for i := range in.Snap.Children {
		c := &in.Snap.Children[i]
		if !c.NeedsVerdict() {
			continue
		}
		v := Verdict{Child: c.Ref, Generation: c.Generation, Ruling: in.Policy.OnChildFailure}
		for _, given := range d.verdicts {
			if given.Child == c.Ref && given.Generation == c.Generation {
				v.Ruling = given.Ruling
			}
		}
		rec.Verdicts = append(rec.Verdicts, v)
		rec.Write = true
		if v.Ruling == Abort && bad == nil {
			bad = c
		}
	}
	if bad == nil || in.Snap.Row.Retire {
		return false
	}
	rec.Row.Aborted = true
	rec.fail(in, Because(CodeChildFailed, bad.Ref.String()+": "+bad.Reason.Message()), true)
	rec.retireChildren(in)
	return true
}

// turn handles the four decisions.
type turn struct {
	in   Input
	rec  *Record
	d    Decision
	hold Hold
}

func (t *turn) Converged() struct{} {
	in, rec, row := t.in, t.rec, &t.rec.Row
	if row.Retire {
		row.fresh(in.Now)
		rec.move(in, Retired, t.d.reason)
		return struct{}{}
	}
	phase, why := Rollup(in.Snap.Children)
	if len(rec.Intents) > 0 {
		phase, why = Waiting, Because(CodeChildrenPending, "waiting for "+rec.Intents[0].Ref.String())
	}
	switch {
	case row.GivenUp && phase != Converged:
		return struct{}{} // only full convergence takes a failure back
	case phase == Waiting:
		t.waiting(why, 0)
		return struct{}{}
	case phase == Converged:
		why = t.d.reason
	}
	if row.Attempts != 0 || row.Action != "" || row.GivenUp || row.RetryAt != 0 || row.Steps != 0 {
		episode := row.EpisodeAt
		row.fresh(in.Now)
		row.EpisodeAt = episode
		row.ConvergedGen = row.Generation
		rec.move(in, phase, why)
		return struct{}{}
	}
	if row.ConvergedGen != row.Generation {
		row.ConvergedGen = row.Generation
		rec.move(in, phase, why)
		return struct{}{}
	}
	rec.to(in, phase, why)
	return struct{}{}
}

func (t *turn) Wait(until Instant) struct{} {
	if t.overdue() {
		return struct{}{}
	}
	t.waiting(t.d.reason, until)
	return struct{}{}
}

// waiting records a wait, unless the row has been given up or is late.
func (t *turn) waiting(why Reason, until Instant) {
	if t.late() || t.rec.Row.GivenUp {
		return
	}
	t.rec.to(t.in, Waiting, why)
	if until != 0 {
		t.rec.wakeAt(max(until, t.in.Now+1), TriggerSchedule)
	}
}

func (t *turn) Fail() struct{} {
	if t.overdue() {
		return struct{}{}
	}
	why := t.d.reason
	if t.d.out == nil {
		why = Because(CodeNoDecision, "the manager gave no decision")
	}
	if !t.rec.Row.GivenUp {
		t.rec.fail(t.in, why, false)
	}
	return struct{}{}
}

// late fails a generation that did not converge in time.
func (t *turn) late() bool {
	if !t.in.convergeBy().Reached(t.in.Now) {
		return false
	}
	last := t.d.reason
	t.rec.fail(t.in, Because(CodeConvergeBy, "not converged by "+t.in.convergeBy().String()+": "+last.Message()), true)
	return true
}

// overdue orphans a row that is still not gone after its grace.
func (t *turn) overdue() bool {
	if !t.rec.Row.Retire || !t.in.retireBy().Reached(t.in.Now) {
		return false
	}
	t.rec.orphan(t.in, t.d.reason)
	return true
}

func (t *turn) Do(a Action) struct{} {
	in, rec, row := t.in, t.rec, &t.rec.Row
	if row.Attempts > 0 && t.overdue() {
		return struct{}{}
	}
	if row.GivenUp {
		t.reconsider(a)
		return struct{}{}
	}
	repair := IsRepair(&in.Snap.Row, t.d)
	if repair && t.drift() {
		return struct{}{}
	}
	if t.late() {
		return struct{}{}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		rec.fail(in, Because(CodeBadIntent, fmt.Sprintf("encode action %s: %v", a.ActionName(), err)), false)
		return struct{}{}
	}
	if repair && row.Action == "" {
		row.EpisodeAt = in.Now
	}
	t.begin(a, raw)
	return struct{}{}
}

// reconsider gives a row another life when something else is to be done than what it
// was given up for: the world has changed. It does so no sooner than the longest
// pause between attempts, for a world that changes by itself again and again.
func (t *turn) reconsider(a Action) {
	row := &t.rec.Row
	raw, err := json.Marshal(a)
	switch action := encoded(a, raw); {
	case err != nil || row.Aborted || row.Action == action:
		return
	case row.Action == "" && row.ActionOK: // the first look after an act that no retry can cure
		row.Action, row.ActionOK, t.rec.Write = action, false, true
		return
	}
	if at := row.FailedAt.Add(t.in.Policy.Retry.Cap); !at.Reached(t.in.Now) {
		t.rec.wakeAt(at, TriggerRetry)
		return
	}
	t.rec.revive(t.in, a.ActionName()+" is needed now")
	t.rec.wakeAt(t.in.Now, TriggerRetry)
}

// encoded is an action as rows keep it.
func encoded(a Action, raw json.RawMessage) string { return a.ActionName() + " " + string(raw) }

// drift reports or holds a repair. It reports whether the act must not begin.
func (t *turn) drift() bool {
	switch {
	case t.in.Policy.OnDrift == Report:
		t.rec.to(t.in, Drifted, t.d.reason)
		return true
	case t.hold.Held:
		t.rec.to(t.in, Drifted, t.hold.Reason)
		if t.hold.Until != 0 {
			t.rec.wakeAt(max(t.hold.Until, t.in.Now+1), TriggerSchedule)
		}
		return true
	}
	return false
}

// begin counts the attempt and records the intent to act.
func (t *turn) begin(a Action, raw json.RawMessage) {
	name := a.ActionName()
	in, rec, row := t.in, t.rec, &t.rec.Row
	action := encoded(a, raw)
	progress := row.ActionOK && row.Action != action
	attempts, steps := row.Attempts, row.Steps
	if progress {
		// The last act is seen to have worked: it was a step, not a failure.
		attempts, steps = max(0, attempts-1), steps+1
	}
	switch {
	case attempts >= in.Policy.Retry.Max:
		row.Action, row.ActionOK = action, false
		rec.fail(in, exhausted(attempts, row.Reason), true)
		return
	case steps >= in.Policy.MaxSteps:
		row.Action, row.ActionOK = action, false
		rec.fail(in, Because(CodeStepsExhausted, fmt.Sprintf("%d steps without converging", steps)), true)
		return
	case !progress && in.Now < row.RetryAt && !in.Causes.HasTrigger(TriggerOperator):
		if row.Phase != Retrying {
			rec.move(in, Retrying, Because(CodeBackingOff, name+" is needed again"))
		}
		rec.wakeAt(row.RetryAt, TriggerRetry)
		return
	}
	row.Attempts, row.Steps = attempts+1, steps
	row.Action, row.ActionOK = action, false
	row.DueBy = in.Now.Add(in.Policy.ActTimeout)
	row.DueBy = clock.Earliest(row.DueBy, in.convergeBy())
	if !row.Retire {
		row.DueBy = clock.Earliest(row.DueBy, row.NotAfter)
	} else if by := in.retireBy(); !by.Reached(in.Now) {
		row.DueBy = clock.Earliest(row.DueBy, by)
	}
	tr := rec.move(in, Acting, t.d.reason)
	tr.Action = action
	rec.Act = &Act{Name: name, JSON: raw, Attempt: row.Attempts, DueBy: row.DueBy}
}
