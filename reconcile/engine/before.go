package engine

import "time"

// Input is what every step of a turn is computed from.
type Input struct {
	Snap   *Snapshot
	Policy *Policy // with defaults
	Causes *Causes
	Now    time.Time
	Passed int  // turns in a row until now that asked for a time that had passed
	Hung   bool // a call of the row's reconciler runs past its end: see Unattended
}

func (in *Input) now() instant { return toInstant(in.Now) }

// Step says how a turn goes on after BeforeObserve.
type Step uint8

// The steps.
const (
	Proceed Step = iota // observe and decide
	Again               // commit the record, load again, start over
	Stop                // commit the record if it has anything to write; the turn is over
)

// BeforeObserve does what needs no observation: deadlines, revival, an act whose end
// was never recorded, and the order in which children are deleted.
func BeforeObserve(in Input) (Record, Step) {
	row := &in.Snap.Row
	rec := newRecord(in)
	if row.Phase.Terminal() {
		return rec.done(in), Stop
	}
	switch {
	case row.Phase == Acting && !in.Hung:
		rec.move(in, Retrying, NewReason(CodeInterrupted, "the end of the last act was not recorded"))
		return rec.done(in), Again
	case !row.Delete && in.expiresAt().reached(in.now()):
		t := rec.Row.toDelete(row.state.NotAfter, in.now(), NewReason(CodeTimeEnded, "its time ended at "+row.state.NotAfter.String()))
		rec.note(in, t)
		return rec.done(in), Again
	case !row.Delete && in.Snap.Parent != nil && in.Snap.Parent.Phase.Terminal():
		t := rec.Row.toDelete(in.now(), in.now(), NewReason(CodeDeleteRequested, "its parent is gone"))
		rec.note(in, t)
		return rec.done(in), Again
	case row.state.GivenUp && in.reviveAt().reached(in.now()):
		rec.revive(in, "")
		return rec.done(in), Again
	}
	if row.Delete || row.state.Aborted {
		if row.Delete {
			rec.Row.state.DeleteBy = in.deleteBy() // what the children inherit
		}
		if live := rec.deleteChildren(in); live {
			if row.Delete {
				rec.to(in, Waiting, NewReason(CodeDeletingChildren, "what is below it goes first"))
			}
			return rec.done(in), Stop
		}
		if row.state.Aborted && !row.Delete {
			return rec.done(in), Stop
		}
	}
	if row.Delete && in.deleteBy().reached(in.now()) {
		if below := orphanBelow(in.Snap.Children); below != nil {
			rec.orphan(in, NewReason(CodeCleanupDeadline, below.Ref.String()+" is orphaned"))
			return rec.done(in), Stop
		}
		if row.Phase != Verifying && (row.Attempts > 0 || row.state.GivenUp) {
			rec.orphan(in, row.Reason)
			return rec.done(in), Stop
		}
	}
	rec.limitChildren(in)
	if rec.Write {
		return rec.done(in), Again
	}
	return rec, Proceed
}

// orphanBelow is a child that was not removed in time; nil if there is none. A parent whose own
// time is over is not gone then either.
func orphanBelow(children []Row) *Row {
	for i := range children {
		if children[i].Phase == Orphaned {
			return &children[i]
		}
	}
	return nil
}

// deleteChildren asks the highest order class of live children to be deleted, the
// newest first. It reports whether any child is live.
func (rec *Record) deleteChildren(in Input) bool {
	live, top := false, 0
	for i := range in.Snap.Children {
		c := &in.Snap.Children[i]
		if c.Phase.Terminal() {
			continue
		}
		if !live || c.Order > top {
			top = c.Order
		}
		live = true
	}
	for i := len(in.Snap.Children) - 1; i >= 0; i-- {
		c := &in.Snap.Children[i]
		if !c.Phase.Terminal() && c.Order == top {
			rec.intend(in, c, Delete(c.Ref))
		}
	}
	return live
}

// limitChildren lowers the children's NotAfter to the parent's.
func (rec *Record) limitChildren(in Input) {
	limit := in.Snap.Row.state.NotAfter
	if limit == 0 {
		return
	}
	for i := range in.Snap.Children {
		c := &in.Snap.Children[i]
		if !c.Phase.Terminal() && (c.state.NotAfter == 0 || c.state.NotAfter > limit) {
			rec.intend(in, c, Intent{Op: opLimit, Ref: c.Ref})
		}
	}
}

// dues has a row, what its deadlines depend on, and the time.
type dues struct {
	row    *Row
	parent *Row // nil if there is none
	policy *Policy
	now    instant
}

func (in *Input) dues() dues { return dues{&in.Snap.Row, in.Snap.Parent, in.Policy, in.now()} }

func (in *Input) expiresAt() instant  { return in.dues().expiresAt() }
func (in *Input) deleteBy() instant   { return in.dues().deleteBy() }
func (in *Input) convergeBy() instant { return in.dues().convergeBy() }
func (in *Input) reviveAt() instant   { return in.dues().reviveAt() }

// expiresAt is when a row is deleted by itself: at its NotAfter. One with a DeleteBy that ends together with
// its parent leaves the first half of that time to the parent, which deletes in order.
func (d dues) expiresAt() instant {
	at := d.row.state.NotAfter
	if p := d.parent; at != 0 && p != nil && p.state.NotAfter == at && d.row.state.DeleteBy > at {
		at += (d.row.state.DeleteBy - at) / 2
	}
	return at
}

// deleteBy is when a deleting row becomes an orphan.
func (d dues) deleteBy() instant {
	return earliest(d.row.state.SetAt.add(d.policy.CleanupGrace), d.row.state.DeleteBy)
}

// convergeBy is when the generation has failed unless it converged before; 0 if
// nothing is due. A life after the first that the policy asks for has no such end, nor is a
// retry bound by what had passed when it began: a parent says it again with each decision.
func (d dues) convergeBy() instant {
	row := d.row
	if row.Delete || row.state.GivenUp || row.state.Lives > 0 && d.policy.Revive != 0 || row.ConvergedGen == row.Generation {
		return 0
	}
	if by := row.state.ConvergeBy; by > row.state.EpisodeAt || row.state.EpisodeAt <= row.state.SetAt {
		return by
	}
	return 0
}

// reviveAt is when what was given up gets another life; 0 if never.
func (d dues) reviveAt() instant {
	row, wait := d.row, d.policy.Revive
	if wait == 0 && row.Reason.Code == CodeExhausted {
		wait = reviveExhausted
	}
	if wait <= 0 || !row.state.GivenUp {
		return 0
	}
	for range min(row.state.Lives, 32) {
		wait = min(2*wait, d.policy.ReviveCap)
	}
	at := d.after(row.state.FailedAt, wait)
	if d.policy.Revive == 0 && row.ConvergedGen != row.Generation && row.state.ConvergeBy.reached(at) {
		return 0 // it had until then
	}
	return at
}

// after is wait after an instant of the past. One that lies ahead is of a clock that went back
// since: the wait is over.
func (d dues) after(past instant, wait time.Duration) instant {
	if past > d.now+jump {
		return max(d.now, 1)
	}
	return past.add(wait)
}

// retryAt is when the next attempt may begin. No pause is longer than those of the policy: one
// that is was begun by a clock that went back since.
func (in *Input) retryAt(row *Row) instant {
	if at := row.state.RetryAt; row.state.GivenUp || at <= in.now().add(max(in.Policy.Retry.Cap, in.Policy.Retry.Base))+jump {
		return at
	}
	return in.now()
}

// actBy is when an act has to end: at by, or at the earliest deadline of its row.
func (in *Input) actBy(by instant, row *Row) instant {
	of := dues{row: row, policy: in.Policy, now: in.now()}
	by = earliest(by, of.convergeBy())
	if !row.Delete {
		return earliest(by, row.state.NotAfter)
	}
	if end := of.deleteBy(); !end.reached(in.now()) {
		return earliest(by, end)
	}
	return by
}

// ActBy is when the act that runs has to end, now that its row may have other deadlines.
func (in *Input) ActBy() time.Time { return in.actBy(in.Snap.Row.state.DueBy, &in.Snap.Row).time() }

// revive gives a row that was given up another life.
func (rec *Record) revive(in Input, words string) {
	lives := rec.Row.state.Lives + 1
	rec.Row.fresh(in.now())
	rec.Row.state.Lives = lives
	rec.move(in, Pending, NewReason(CodeRevived, words))
}
