package engine

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// OwnerError: an intent names a live resource that belongs to somebody else.
type OwnerError struct{ Ref, Owner, Claimant Ref }

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s cannot set %s, which belongs to %s; delete it there first", owner(e.Claimant), e.Ref, owner(e.Owner))
}

func owner(r Ref) string {
	if r.IsZero() {
		return "the owner of the roots"
	}
	return r.String()
}

// ApplyIntent computes what an intent does to the row cur (nil if there is
// none). parent is nil when the owner of a root sets it. The result has Changed
// unset when there is nothing to write; a new row's Created is left to the store.
//
// Only an owner's Retry and Acknowledge may reach a resource that belongs to a parent.
func ApplyIntent(cur, parent *Row, in Intent, at time.Time, cause Cause) (Row, Change, error) {
	if in.err != nil {
		return Row{}, Change{}, in.err
	}
	var pref Ref
	now, notAfter := toInstant(at), toInstant(in.NotAfter)
	if parent != nil {
		pref = parent.Ref
		notAfter = earliest(notAfter, parent.state.NotAfter)
	}
	if cur != nil && cur.Parent != pref && !cur.Phase.Terminal() && in.Op != OpRetry && in.Op != OpAck {
		return Row{}, Change{}, &OwnerError{Ref: in.Ref, Owner: cur.Parent, Claimant: pref}
	}
	switch in.Op {
	case OpUpsert:
		switch {
		case in.expect != nil && *in.expect != liveGeneration(cur):
			return Row{}, Change{}, ErrConflict
		case !in.DeleteBy.IsZero() && (in.NotAfter.IsZero() || in.DeleteBy.Before(in.NotAfter)):
			return Row{}, Change{}, fmt.Errorf("set %s: deleteBy %s needs a notAfter that is not later", in.Ref, in.DeleteBy)
		case notAfter.reached(now) && parent == nil:
			return Row{}, Change{}, fmt.Errorf("set %s: its notAfter %s has passed", in.Ref, notAfter)
		case notAfter.reached(now):
			return unchanged(cur)
		}
		in.NotAfter = notAfter.time()
		return applyUpsert(cur, pref, in, now, cause)
	case OpDelete:
		return applyDelete(cur, parent, in, now, cause)
	case OpRetry:
		return applyRetry(cur, in, now, cause)
	case OpAck:
		return applyAck(cur, in, now, cause)
	case opLimit:
		if cur == nil || cur.Delete || cur.state.NotAfter == notAfter {
			return unchanged(cur)
		}
		r := *cur
		r.state.NotAfter = earliest(r.state.NotAfter, notAfter)
		return write(r, nil)
	}
	return Row{}, Change{}, fmt.Errorf("intent for %s has unknown operation %q", in.Ref, in.Op)
}

func liveGeneration(cur *Row) int64 {
	if cur == nil || cur.Phase.Terminal() {
		return 0
	}
	return cur.Generation
}

func unchanged(cur *Row) (Row, Change, error) {
	if cur == nil {
		return Row{}, Change{}, nil
	}
	return *cur, Change{Ref: cur.Ref, Generation: cur.Generation}, nil
}

func write(r Row, t *Transition) (Row, Change, error) {
	r.Revision++
	c := Change{Ref: r.Ref, Generation: r.Generation, Changed: true}
	if t != nil {
		c.Transition = []Transition{*t}
	}
	return r, c, nil
}

func applyUpsert(cur *Row, parent Ref, in Intent, now instant, cause Cause) (Row, Change, error) {
	r := Row{Ref: in.Ref}
	if cur != nil {
		r = *cur
		if !r.Delete && !r.Phase.Terminal() && bytes.Equal(r.Desired, in.Desired) {
			if !r.limit(in) {
				return unchanged(cur)
			}
			return write(r, nil)
		}
	}
	if r.Phase.Terminal() {
		r.state.Report = "" // of the life before
	}
	r.limit(in)
	r.Parent, r.Desired, r.Delete = parent, in.Desired, false
	r.Generation++
	r.state.SetAt = now
	r.fresh(now)
	t := r.move(Pending, NewReason(CodeDesiredChanged, in.Why), now)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

// limit sets order, deadlines and version of an intent, and reports whether one changed.
func (r *Row) limit(in Intent) bool {
	before := *r
	r.Order = in.Order
	switch {
	case in.Version > 1:
		r.state.Version = in.Version
	case in.Version == 1 || !bytes.Equal(r.Desired, in.Desired):
		r.state.Version = 0
	}
	r.state.ConvergeBy, r.state.NotAfter, r.state.DeleteBy = toInstant(in.ConvergeBy), toInstant(in.NotAfter), toInstant(in.DeleteBy)
	return r.Order != before.Order || r.state != before.state
}

func applyDelete(cur, parent *Row, in Intent, now instant, cause Cause) (Row, Change, error) {
	limit := toInstant(in.DeleteBy)
	if parent != nil && parent.Delete {
		limit = earliest(limit, parent.state.DeleteBy)
	}
	if cur == nil || cur.Phase.Terminal() {
		return unchanged(cur)
	}
	r := *cur
	if r.Delete {
		if c := earliest(r.state.DeleteBy, limit); c != r.state.DeleteBy {
			r.state.DeleteBy = c
			return write(r, nil)
		}
		return unchanged(cur)
	}
	t := r.toDelete(now, now, NewReason(CodeDeleteRequested, in.Why))
	r.state.DeleteBy = earliest(r.state.DeleteBy, limit)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

// toDelete turns the row to absence; since is where the cleanup grace counts from.
func (r *Row) toDelete(since, now instant, why Reason) Transition {
	r.Delete = true
	r.Generation++
	r.state.SetAt = since
	r.fresh(now)
	return r.move(Deleting, why, now)
}

func applyRetry(cur *Row, in Intent, now instant, cause Cause) (Row, Change, error) {
	if cur == nil {
		return Row{}, Change{}, fmt.Errorf("retry %s: there is no such resource", in.Ref)
	}
	if cur.Phase == Deleted {
		return unchanged(cur)
	}
	r := *cur
	to := Pending
	if r.Delete {
		to, r.state.SetAt, r.state.DeleteBy = Deleting, now, 0
	}
	r.fresh(now)
	r.state.EscalatedGen, r.state.AckedGen, r.state.KnownGen = 0, 0, 0
	t := r.move(to, NewReason(CodeRetryRequested, in.Why), now)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

func applyAck(cur *Row, in Intent, now instant, cause Cause) (Row, Change, error) {
	if cur == nil || !cur.Alerts() {
		return Row{}, Change{}, fmt.Errorf("acknowledge %s: it has no alert", in.Ref)
	}
	r := *cur
	r.state.KnownGen = r.Generation
	t := r.move(r.Phase, r.Reason, now)
	t.Action = "acknowledge " + strconv.Quote(in.note)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

// fresh clears what is counted per generation.
func (r *Row) fresh(now instant) {
	r.Attempts, r.state.Steps, r.state.RetryAt = 0, 0, 0
	r.state.Action, r.state.ActionOK, r.state.DueBy = "", false, 0
	r.state.EpisodeAt, r.state.FailedAt = now, 0
	r.state.GivenUp, r.state.Aborted, r.state.Lives = false, false, 0
}

// move sets phase and reason and returns the transition that says so.
func (r *Row) move(to Phase, why Reason, now instant) Transition {
	r.Transitions++
	t := Transition{
		Ref: r.Ref, Parent: r.Parent, N: r.Transitions, Generation: r.Generation,
		From: r.Phase, To: to, Attempt: r.Attempts, Reason: why, At: now.time(),
	}
	r.Phase, r.Reason = to, why
	return t
}

// ApplyVerdict marks a failed generation of a child as ruled on. A verdict on
// another generation changes nothing.
func ApplyVerdict(cur Row, v Verdict) (Row, bool) {
	if cur.Generation != v.Generation || cur.state.AckedGen == v.Generation {
		return cur, false
	}
	cur.state.AckedGen = v.Generation
	cur.Revision++
	return cur, true
}
