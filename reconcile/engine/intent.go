package engine

import (
	"bytes"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// OwnerError: an intent names a live resource that belongs to somebody else.
type OwnerError struct{ Ref, Owner, Claimant Ref }

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s cannot set %s, which belongs to %s; retire it there first", owner(e.Claimant), e.Ref, owner(e.Owner))
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
// Only an owner's Retry may reach a resource that belongs to a parent.
func ApplyIntent(cur, parent *Row, in Intent, now Instant, cause Cause) (Row, Change, error) {
	if in.err != nil {
		return Row{}, Change{}, in.err
	}
	var pref Ref
	notAfter := in.NotAfter
	if parent != nil {
		pref = parent.Ref
		notAfter = clock.Earliest(notAfter, parent.NotAfter)
	}
	if cur != nil && cur.Parent != pref && !cur.Phase.Terminal() && in.Op != OpRetry {
		return Row{}, Change{}, &OwnerError{Ref: in.Ref, Owner: cur.Parent, Claimant: pref}
	}
	switch in.Op {
	case OpUpsert:
		if notAfter.Reached(now) {
			if parent == nil {
				return Row{}, Change{}, fmt.Errorf("set %s: its notAfter %s has passed", in.Ref, notAfter)
			}
			return unchanged(cur)
		}
		in.NotAfter = notAfter
		return upsert(cur, pref, in, now, cause)
	case OpRetire:
		return retire(cur, parent, now, cause)
	case OpRetry:
		return retry(cur, in.Ref, now, cause)
	case OpLimit:
		if cur == nil || cur.Retire || cur.NotAfter == notAfter {
			return unchanged(cur)
		}
		r := *cur
		r.NotAfter = clock.Earliest(r.NotAfter, notAfter)
		return write(r, nil)
	}
	return Row{}, Change{}, fmt.Errorf("intent for %s has unknown operation %q", in.Ref, in.Op)
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

func upsert(cur *Row, parent Ref, in Intent, now Instant, cause Cause) (Row, Change, error) {
	r := Row{Ref: in.Ref}
	if cur != nil {
		r = *cur
		if !r.Retire && !r.Phase.Terminal() && bytes.Equal(r.Desired, in.Desired) {
			if r.Order == in.Order && r.NotAfter == in.NotAfter {
				return unchanged(cur)
			}
			r.Order, r.NotAfter = in.Order, in.NotAfter
			return write(r, nil)
		}
	}
	r.Parent, r.Desired, r.Order, r.NotAfter = parent, in.Desired, in.Order, in.NotAfter
	r.Retire, r.RetireCap = false, 0
	r.Generation++
	r.SetAt = now
	r.fresh(now)
	t := r.move(Pending, Because(CodeDesiredChanged, ""), now)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

func retire(cur, parent *Row, now Instant, cause Cause) (Row, Change, error) {
	var limit Instant
	if parent != nil && parent.Retire {
		limit = parent.RetireCap
	}
	if cur == nil || cur.Phase.Terminal() {
		return unchanged(cur)
	}
	r := *cur
	if r.Retire {
		if c := clock.Earliest(r.RetireCap, limit); c != r.RetireCap {
			r.RetireCap = c
			return write(r, nil)
		}
		return unchanged(cur)
	}
	t := r.toRetire(now, now, Because(CodeRetireRequested, ""))
	r.RetireCap = limit
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

// toRetire turns the row to absence; since is where the cleanup grace counts from.
func (r *Row) toRetire(since, now Instant, why Reason) Transition {
	r.Retire = true
	r.Generation++
	r.SetAt = since
	r.fresh(now)
	return r.move(Retiring, why, now)
}

func retry(cur *Row, ref Ref, now Instant, cause Cause) (Row, Change, error) {
	if cur == nil {
		return Row{}, Change{}, fmt.Errorf("retry %s: there is no such resource", ref)
	}
	if cur.Phase == Retired {
		return unchanged(cur)
	}
	r := *cur
	to := Pending
	if r.Retire {
		to, r.SetAt, r.RetireCap = Retiring, now, 0
	}
	r.fresh(now)
	r.EscalatedGen, r.AckedGen = 0, 0
	t := r.move(to, Because(CodeRetryRequested, ""), now)
	t.Causes, t.CauseCount = []Cause{cause}, 1
	return write(r, &t)
}

// fresh clears what is counted per generation.
func (r *Row) fresh(now Instant) {
	r.Attempts, r.Steps, r.RetryAt = 0, 0, 0
	r.Action, r.ActionOK, r.DueBy = "", false, 0
	r.EpisodeAt, r.FailedAt = now, 0
	r.GivenUp, r.Aborted, r.Lives = false, false, 0
}

// move sets phase and reason and returns the transition that says so.
func (r *Row) move(to Phase, why Reason, now Instant) Transition {
	r.Transitions++
	t := Transition{
		Ref: r.Ref, Parent: r.Parent, N: r.Transitions, Generation: r.Generation,
		From: r.Phase, To: to, Attempt: r.Attempts, Reason: why, At: now,
	}
	r.Phase, r.Reason = to, why
	return t
}

// ApplyVerdict marks a failed generation of a child as ruled on. A verdict on
// another generation changes nothing.
func ApplyVerdict(cur Row, v Verdict) (Row, bool) {
	if cur.Generation != v.Generation || cur.AckedGen == v.Generation {
		return cur, false
	}
	cur.AckedGen = v.Generation
	cur.Revision++
	return cur, true
}
