package engine

// RollUp is the phase of a resource that is itself as desired, given its
// children: Waiting while any is on its way, Degraded if one is not as it
// should be and that was accepted, else Converged. Deleted children do not count.
func RollUp(children []Row) (Phase, Reason) {
	var pending, bad *Row
	for i := range children {
		c := &children[i]
		switch c.Phase {
		case Converged, Deleted:
		case Failed, Degraded, Drifted, Orphaned:
			if bad == nil {
				bad = c
			}
		default:
			if pending == nil {
				pending = c
			}
		}
	}
	switch {
	case pending != nil:
		return Waiting, NewReason(CodeChildrenPending, "waiting for "+pending.Ref.String())
	case bad != nil:
		return Degraded, NewReason(CodeChildrenBad, bad.Ref.String()+" is "+string(bad.Phase))
	}
	return Converged, Reason{}
}

// NeedsVerdict reports whether the row's parent has to rule on its failure.
func (r *Row) NeedsVerdict() bool {
	return r.Phase == Failed && !r.Delete && r.state.EscalatedGen == r.Generation && r.state.AckedGen != r.Generation
}

// ChildView is the row as its parent sees it.
func (r *Row) ChildView() Child {
	return Child{
		Ref: r.Ref, Generation: r.Generation, Desired: r.Desired, Delete: r.Delete, Order: r.Order,
		Phase: r.Phase, Reason: r.Reason, Attempts: r.Attempts, NotAfter: r.state.NotAfter.time(), Report: r.Report(),
		NeedsVerdict: r.NeedsVerdict(),
	}
}

// Status is the recorded status of the row.
func (r *Row) Status() Status {
	return Status{Phase: r.Phase, Reason: r.Reason, Attempts: r.Attempts, ConvergedGeneration: r.ConvergedGen}
}

// class groups phases by what a parent cares about; a change of class tells it.
func class(p Phase) Phase {
	switch p {
	case Acting, Verifying, Retrying, Deleting, "":
		return Pending
	}
	return p
}
