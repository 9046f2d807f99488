package engine

// Unattended computes what to record of a row whose reconciler cannot be called: nobody registered
// its kind, or a call of it has not returned (Input.Hung). Nothing is observed or decided then, but
// every deadline is kept: what is past its NotAfter is to be deleted, what is not gone in time is
// orphaned, and what did not converge in time has failed. why is the reason that is shown of a row
// that is on its way; without a code none is. Step is Again or Stop.
func Unattended(in Input, why Reason) (Record, Step) {
	rec, step := BeforeObserve(in)
	if step != Proceed {
		return rec, step
	}
	row := &rec.Row
	t := turn{in: in, rec: &rec, d: Wait(why)}
	switch {
	case t.overdue(), t.late():
	case why.Code == "" || row.Phase == Acting && in.Hung, row.Phase.atRest(), row.Reason == why:
	default:
		rec.to(in, Waiting, why)
	}
	return rec.done(in), Stop
}

// Hung computes what to record of a row when a call of its reconciler has not returned in time; why
// names the call. An act stays begun, for it may still end; an observation, and what is
// decided of it, has failed.
func Hung(in Input, why Reason) Record {
	if in.Snap.Row.Phase != Acting {
		return ObserveFailed(in, Outcome{Class: Transient, Reason: why, Error: why.Text()})
	}
	rec := newRecord(in)
	rec.to(in, Acting, why)
	return rec.done(in)
}

// atRest reports whether a row of the phase stays as it is until something triggers a turn, a time
// that its reconciler named comes, or a deadline. Of every other one a turn is queued.
func (p Phase) atRest() bool {
	switch p {
	case Waiting, Converged, Degraded, Drifted, Failed, Deleted, Orphaned:
		return true
	}
	return false
}
