package engine

import "github.com/steadyfleet/steady/internal/core/clock"

// Input is what every step of a turn is computed from.
type Input struct {
	Snap   *Snapshot
	Policy *Policy // with defaults
	Causes *Causes
	Now    Instant
}

// Step says how a turn goes on after Before.
type Step uint8

// The steps.
const (
	Proceed Step = iota // observe and decide
	Again               // commit the record, load again, start over
	Stop                // commit the record if it has anything to write; the turn is over
)

// Before does what needs no observation: deadlines, revival, an act whose end
// was never recorded, and the order in which children retire.
func Before(in Input) (Record, Step) {
	row := &in.Snap.Row
	rec := newRecord(in)
	if row.Phase.Terminal() {
		return rec.done(in), Stop
	}
	switch {
	case row.Phase == Acting:
		rec.move(in, Retrying, Because(CodeInterrupted, "the end of the last act was not recorded"))
		return rec.done(in), Again
	case !row.Retire && row.NotAfter.Reached(in.Now):
		t := rec.Row.toRetire(row.NotAfter, in.Now, Because(CodeCleanupDeadline, ""))
		rec.note(in, t)
		return rec.done(in), Again
	case !row.Retire && in.Snap.Parent != nil && in.Snap.Parent.Phase.Terminal():
		t := rec.Row.toRetire(in.Now, in.Now, Because(CodeRetireRequested, "its parent is gone"))
		rec.note(in, t)
		return rec.done(in), Again
	case row.GivenUp && in.reviveAt().Reached(in.Now):
		rec.revive(in, "")
		return rec.done(in), Again
	}
	if row.Retire || row.Aborted {
		if row.Retire {
			rec.Row.RetireCap = in.retireBy() // what the children inherit
		}
		if live := rec.retireChildren(in); live {
			if row.Retire {
				rec.to(in, Waiting, Because(CodeRetireChildren, ""))
			}
			return rec.done(in), Stop
		}
		if row.Aborted && !row.Retire {
			return rec.done(in), Stop
		}
	}
	if row.Retire && in.retireBy().Reached(in.Now) && row.Phase != Verifying && (row.Attempts > 0 || row.GivenUp) {
		rec.orphan(in, row.Reason)
		return rec.done(in), Stop
	}
	rec.limitChildren(in)
	if rec.Write {
		return rec.done(in), Again
	}
	return rec, Proceed
}

// retireChildren asks the highest order class of live children to retire, the
// newest first. It reports whether any child is live.
func (rec *Record) retireChildren(in Input) bool {
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
			rec.intend(in, Retire(c.Ref))
		}
	}
	return live
}

// limitChildren lowers the children's NotAfter to the parent's.
func (rec *Record) limitChildren(in Input) {
	limit := in.Snap.Row.NotAfter
	if limit == 0 {
		return
	}
	for i := range in.Snap.Children {
		c := &in.Snap.Children[i]
		if !c.Phase.Terminal() && (c.NotAfter == 0 || c.NotAfter > limit) {
			rec.intend(in, Intent{Op: OpLimit, Ref: c.Ref})
		}
	}
}

// retireBy is when a retiring row becomes an orphan.
func (in *Input) retireBy() Instant {
	row := &in.Snap.Row
	return clock.Earliest(row.SetAt.Add(in.Policy.CleanupGrace), row.RetireCap)
}

// convergeBy is when the present try has failed; zero if nothing is due.
func (in *Input) convergeBy() Instant {
	row := &in.Snap.Row
	if in.Policy.ConvergeWithin == 0 || row.Retire || row.GivenUp {
		return 0
	}
	if row.ConvergedGen == row.Generation && row.Action == "" {
		return 0
	}
	return row.EpisodeAt.Add(in.Policy.ConvergeWithin)
}

func (in *Input) reviveAt() Instant {
	if in.Policy.Revive == 0 || !in.Snap.Row.GivenUp {
		return 0
	}
	wait := in.Policy.Revive
	for range min(in.Snap.Row.Lives, 32) {
		wait = min(2*wait, in.Policy.ReviveCap)
	}
	return in.Snap.Row.FailedAt.Add(wait)
}

// revive gives a row that was given up another life.
func (rec *Record) revive(in Input, words string) {
	lives := rec.Row.Lives + 1
	rec.Row.fresh(in.Now)
	rec.Row.Lives = lives
	rec.move(in, Pending, Because(CodeRevived, words))
}

// Deadlines lists the absolute deadlines of the row under its policy.
func (in *Input) Deadlines() Deadlines {
	d := Deadlines{NotAfter: in.Snap.Row.NotAfter, ConvergeBy: in.convergeBy()}
	if in.Snap.Row.Retire {
		d.RetireBy = in.retireBy()
	}
	return d
}
