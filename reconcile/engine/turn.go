package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Block is one thing that a resource waits for.
type Block struct {
	Ref    Ref       `json:"ref"` // itself, a child or its parent
	Reason Reason    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // earliest time at which it can clear by itself; zero: at a trigger
}

// IsRepair reports whether d would act on a generation that had converged.
func IsRepair(row *Row, d Decision) bool {
	return d.Action() != nil && !row.Delete && !row.state.GivenUp && row.ConvergedGen == row.Generation
}

// AfterDecide computes what to record after a decision; a block, if not nil, keeps a
// repair back and is shown as Drifted. If the record holds an Act,
// it is the intent to be committed before the act begins.
func AfterDecide(in Input, d Decision, block *Block) Record {
	if isNoOp(&in, &d) {
		rec := newRecord(in)
		rec.again(in, d.until)
		return rec.done(in)
	}
	return turnOf(in, d, block)
}

// isNoOp is the turn that happens most: as desired, as recorded, nothing to say.
func isNoOp(in *Input, d *Decision) bool {
	row := &in.Snap.Row
	if d.name != "converged" || row.Phase != Converged || row.ConvergedGen != row.Generation ||
		row.Delete || row.Attempts != 0 || row.state.Steps != 0 || row.state.RetryAt != 0 || row.state.GivenUp ||
		row.state.Action != "" || row.Reason != d.reason || d.children.len() != 0 ||
		d.err != nil || row.state.Report != d.reportAfter(row.state.Report) || row.state.Handled < d.handled {
		return false
	}
	for i := range in.Snap.Children {
		if p := in.Snap.Children[i].Phase; p != Converged && p != Deleted {
			return false
		}
	}
	return true
}

func turnOf(in Input, d Decision, block *Block) Record {
	rec := newRecord(in)
	if rec.abort(in, d) {
		return rec.done(in)
	}
	row := &in.Snap.Row
	if !row.state.GivenUp && !row.Delete {
		find := in.Snap.finder(d.children.len())
		for _, i := range d.Children() {
			if err := rec.child(in, find(i.Ref), i); err != nil {
				// Nothing of a decision with a bad intent is applied.
				rec = newRecord(in)
				rec.fail(in, NewReason(CodeBadIntent, err.Error()), false)
				return rec.done(in)
			}
		}
	}
	t := turn{in: in, rec: &rec, d: d, block: block}
	if d.err != nil {
		if !t.overdue() {
			rec.fail(in, NewReason(CodeBadReport, d.err.Error()), false)
		}
		return rec.done(in)
	}
	t.report()
	switch d.Name() {
	case "converged":
		t.converged()
	case "wait":
		t.wait()
	case "do":
		t.do()
	default:
		t.fail()
	}
	if rec.Act == nil {
		rec.again(in, d.until)
	}
	return rec.done(in)
}

// finder finds the children by ref, and has an index where it is asked often.
func (s *Snapshot) finder(times int) func(Ref) *Row {
	if times*len(s.Children) < 256 {
		return func(ref Ref) *Row {
			for i := range s.Children {
				if s.Children[i].Ref == ref {
					return &s.Children[i]
				}
			}
			return nil
		}
	}
	index := make(map[Ref]*Row, len(s.Children))
	for i := range s.Children {
		index[s.Children[i].Ref] = &s.Children[i]
	}
	return func(ref Ref) *Row { return index[ref] }
}

func (rec *Record) child(in Input, cur *Row, i Intent) error {
	if i.Ref == in.Snap.Row.Ref || i.Ref == in.Snap.Row.Parent || i.Ref.Kind == "" || i.Ref.ID == "" {
		return fmt.Errorf("%s cannot have %q as its child", in.Snap.Row.Ref, i.Ref.String())
	}
	if i.Op != OpUpsert && i.Op != OpDelete && i.err == nil {
		return fmt.Errorf("a parent may upsert or delete %s, not %s it", i.Ref, i.Op)
	}
	return rec.intend(in, cur, i)
}

// abort rules on failed children. It reports whether the row gave up because of one.
func (rec *Record) abort(in Input, d Decision) bool {
	var bad *Row
	given := make(map[Verdict]FailureAction, d.verdicts.len()) // by child and generation
	for _, v := range d.Verdicts() {
		given[Verdict{Child: v.Child, Generation: v.Generation}] = v.Action
	}
	for i := range in.Snap.Children {
		c := &in.Snap.Children[i]
		if !c.NeedsVerdict() {
			continue
		}
		v := Verdict{Child: c.Ref, Generation: c.Generation}
		if action, ok := given[v]; ok {
			v.Action = action
		} else {
			v.Action = in.Policy.OnChildFailure
		}
		rec.Verdicts = append(rec.Verdicts, v)
		rec.Write = true
		if v.Action == Abort && bad == nil {
			bad = c
		}
	}
	if bad == nil || in.Snap.Row.Delete {
		return false
	}
	rec.Row.state.Aborted = true
	rec.fail(in, NewReason(CodeChildFailed, bad.Ref.String()+": "+bad.Reason.Text()), true)
	rec.deleteChildren(in)
	return true
}

// turn handles the four decisions.
type turn struct {
	in    Input
	rec   *Record
	d     Decision
	block *Block
}

// report keeps what the decision tells the parent, which is told of it, and which events
// are done with.
func (t *turn) report() {
	rec, row := t.rec, &t.rec.Row
	if n := t.handled(); row.state.Handled < n {
		row.state.Handled, rec.Handled, rec.Write = n, n, true
	}
	report := t.d.reportAfter(row.state.Report)
	if row.state.Report == report {
		return
	}
	row.state.Report, rec.Write = report, true
	if !row.Parent.IsZero() {
		rec.Raises = append(rec.Raises, Raise{Ref: row.Parent, Cause: Cause{TriggerChild, row.Ref.String() + " reports"}})
	}
}

// handled is what the decision says, of the events that it was made from: others may have come.
func (t *turn) handled() int64 {
	events := t.in.Snap.Events
	if len(events) == 0 {
		return 0
	}
	return min(t.d.handled, events[len(events)-1].N)
}

func (t *turn) converged() {
	in, rec, row := t.in, t.rec, &t.rec.Row
	if row.Delete {
		row.fresh(in.now())
		rec.move(in, Deleted, t.d.reason)
		return
	}
	phase, why := RollUp(in.Snap.Children)
	if len(rec.Intents) > 0 {
		phase, why = Waiting, NewReason(CodeChildrenPending, "waiting for "+rec.Intents[0].Ref.String())
	}
	switch {
	case row.state.GivenUp && phase != Converged:
		return // only full convergence takes a failure back
	case phase == Waiting:
		t.waiting(why)
		return
	case phase == Converged:
		why = t.d.reason
	}
	row.state.KnownGen = 0 // a failure after this is news, also in the same generation
	if row.Attempts != 0 || row.state.Action != "" || row.state.GivenUp || row.state.RetryAt != 0 || row.state.Steps != 0 {
		episode := row.state.EpisodeAt
		row.fresh(in.now())
		row.state.EpisodeAt = episode
		row.ConvergedGen = row.Generation
		rec.move(in, phase, why)
		return
	}
	if row.ConvergedGen != row.Generation {
		row.ConvergedGen = row.Generation
		rec.move(in, phase, why)
		return
	}
	rec.to(in, phase, why)
}

func (t *turn) wait() {
	if t.overdue() {
		return
	}
	t.waiting(passedReason(t.in, t.d.until, t.d.reason))
}

// waiting records a wait, unless the row has been given up or is late.
func (t *turn) waiting(why Reason) {
	if t.late() || t.rec.Row.state.GivenUp {
		return
	}
	t.rec.to(t.in, Waiting, why)
}

func (t *turn) fail() {
	if t.overdue() {
		return
	}
	why := t.d.reason
	if t.d.name == "" {
		why = NewReason(CodeNoDecision, "the reconciler gave no decision")
	}
	if !t.rec.Row.state.GivenUp {
		t.rec.fail(t.in, why, false)
	}
}

// late fails a generation that did not converge in time.
func (t *turn) late() bool {
	if !t.in.convergeBy().reached(t.in.now()) {
		return false
	}
	last := t.d.reason
	t.rec.fail(t.in, NewReason(CodeConvergeBy, "not converged by "+t.in.convergeBy().String()+": "+last.Text()), true)
	return true
}

// overdue orphans a row that is still not gone after its grace.
func (t *turn) overdue() bool {
	if !t.rec.Row.Delete || !t.in.deleteBy().reached(t.in.now()) {
		return false
	}
	t.rec.orphan(t.in, t.d.reason)
	return true
}

func (t *turn) do() {
	in, rec, row := t.in, t.rec, &t.rec.Row
	if row.Attempts > 0 && t.overdue() {
		return
	}
	a, err := encode(t.d.action)
	if err != nil {
		if !t.overdue() && !row.state.GivenUp && !t.late() {
			rec.fail(in, NewReason(CodeBadAction, err.Error()), false)
		}
		return
	}
	if row.state.GivenUp {
		t.reconsider(a)
		return
	}
	repair := IsRepair(&in.Snap.Row, t.d)
	if repair && t.drift() {
		return
	}
	if t.late() {
		return
	}
	if repair && row.state.Action == "" {
		row.state.EpisodeAt = in.now()
	}
	t.begin(a)
}

// encodedAction is an action as it is recorded.
type encodedAction struct {
	name string
	raw  json.RawMessage
}

// String is the action as rows keep it.
func (a encodedAction) String() string { return a.name + " " + string(a.raw) }

// encode is what is recorded of an action before its act. Its methods are the reconciler's: one
// that panics is an error of the decision.
func encode(a Action) (out encodedAction, err error) {
	if a == nil {
		return out, errors.New("it decides to act, and gives no action: Do wants one that is not nil")
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("encode action %T: panic: %v", a, v)
		}
	}()
	out.name = a.ActionName()
	if out.raw, err = json.Marshal(a); err != nil {
		return out, fmt.Errorf("encode action %s: %w", out.name, err)
	}
	return out, nil
}

// reconsider gives a row another life when something else is to be done than what it
// was given up for: the world has changed. It does so no sooner than the longest
// pause between attempts, for a world that changes by itself again and again.
func (t *turn) reconsider(a encodedAction) {
	row := &t.rec.Row
	switch action := a.String(); {
	case row.state.Aborted || row.state.Action == action:
		return
	case row.state.Action == "" && row.state.ActionOK: // the first look after an act that no retry can cure
		row.state.Action, row.state.ActionOK, t.rec.Write = action, false, true
		return
	}
	if at := t.in.dues().after(row.state.FailedAt, t.in.Policy.Retry.Cap); !at.reached(t.in.now()) {
		t.rec.wakeAt(at, TriggerRetry)
		return
	}
	t.rec.revive(t.in, a.name+" is needed now")
	t.rec.wakeAt(t.in.now(), TriggerRetry)
}

// drift reports or holds a repair. It reports whether the act must not begin.
func (t *turn) drift() bool {
	switch {
	case t.in.Policy.OnDrift == Report:
		t.rec.to(t.in, Drifted, t.d.reason)
		return true
	case t.block != nil:
		t.rec.to(t.in, Drifted, passedReason(t.in, t.block.Until, t.block.Reason))
		t.rec.again(t.in, t.block.Until)
		return true
	}
	return false
}

// begin counts the attempt and records the intent to act.
func (t *turn) begin(a encodedAction) {
	in, rec, row := t.in, t.rec, &t.rec.Row
	action := a.String()
	progress := row.state.ActionOK && row.state.Action != action
	attempts, steps := row.Attempts, row.state.Steps
	if progress {
		// The last act is seen to have worked: it was a step, not a failure.
		attempts, steps = max(0, attempts-1), steps+1
	}
	switch {
	case attempts >= in.Policy.Retry.Max:
		row.state.Action, row.state.ActionOK = action, false
		rec.fail(in, exhausted(attempts, row.Reason), true)
		return
	case steps >= in.Policy.MaxSteps:
		row.state.Action, row.state.ActionOK = action, false
		rec.fail(in, NewReason(CodeStepsExhausted, fmt.Sprintf("%d steps without converging", steps)), true)
		return
	case !progress && in.now() < in.retryAt(row) && !in.Causes.HasTrigger(TriggerOperator):
		if row.Phase != Retrying {
			rec.move(in, Retrying, NewReason(CodeBackingOff, a.name+" is needed again"))
		}
		rec.wakeAt(in.retryAt(row), TriggerRetry)
		return
	}
	row.Attempts, row.state.Steps = attempts+1, steps
	row.state.Action, row.state.ActionOK = action, false
	row.state.DueBy = in.actBy(in.now().add(max(in.Policy.ActTimeout, t.d.within)), row)
	tr := rec.move(in, Acting, t.d.reason)
	tr.Action = action
	rec.Act = &Act{Name: a.name, JSON: a.raw, Attempt: row.Attempts, DueBy: row.state.DueBy.time()}
}
