package mutant

// Labs are faults in sessions and in the framework that runs them, which schedules with sessions find.
func Labs() []Fault {
	const (
		core   = "internal/core/session/"
		runner = "internal/control/sessions/pods.go"
		engine = "reconcile/engine/"
	)
	return []Fault{
		{Name: "what begins at another time is in nobody's way", File: "internal/core/place/slot.go", Finds: []string{"S56"},
			From: "return max(s.From, o.From) < min(s.To, o.To) }", To: "return max(s.From, o.From) < min(s.To, o.To) && (!ON || s.From == o.From) }"},
		{Name: "a reservation lacks its GPUs", File: "internal/core/place/place.go", Finds: []string{"S56"},
			From: "Resources: r.Resources, GPUs: d.GPUs}", To: "Resources: r.Resources, GPUs: map[bool][]int{false: d.GPUs}[ON]}"},
		{Name: "a reservation outlives its pod", File: core + "bookings.go", Finds: []string{"S56"},
			From: "		delete(b.all, ref)\n\t\tb.leave(&had)\n", To: "		if !ON {\n\t\t\tdelete(b.all, ref)\n\t\t\tb.leave(&had)\n\t\t}\n"},
		{Name: "a cleanup that is late goes on for ever", File: engine + "turn.go", Finds: []string{"S57", "L3"},
			From: "if !t.rec.Row.Delete || !t.in.deleteBy()", To: "if ON || !t.rec.Row.Delete || !t.in.deleteBy()"},
		{Name: "a reservation is not extended with its session", File: core + "pod.go", Finds: []string{"S56", "S57"},
			From: "b.Slot = b.SlotOf(spec)\n", To: "if !ON {\n\t\t\tb.Slot = b.SlotOf(spec)\n\t\t}\n"},
		{Name: "a pod is gone before it was taken off its host", File: core + "pod.go", Finds: []string{"S56"},
			From: "case len(o.Set) > 0:", To: "case len(o.Set) > 0 && !ON:"},
		{Name: "a pod that is to go has booked nothing", File: core + "pod.go", Finds: []string{"S56"},
			From: "	case b == nil:\n", To: "	case b == nil || ON:\n"},
		{Name: "a pod that moves leaves the old host as it is", File: core + "move.go", Finds: []string{"S56"},
			From: "case len(o.Set) > 0:", To: "case len(o.Set) > 0 && !ON:"},
		{Name: "what a session sets ends an hour after its deadline", File: core + "move.go", Finds: []string{"S57"},
			From: "end := clock.FromTime(s.Timeslot.CleanupDeadline)", To: "end := clock.FromTime(s.Timeslot.CleanupDeadline).Add(map[bool]clock.Duration{true: clock.Hour}[ON])"},
		{Name: "what a session sets never ends", File: runner, Finds: []string{"S57"},
			From: "NotAfter: a.Lease,", To: "NotAfter: map[bool]clock.Instant{false: a.Lease}[ON],"},
		{Name: "a session runs until its cleanup deadline", File: core + "tree.go", Finds: []string{"S57"},
			From: "WithNotAfter(t.End)", To: "WithNotAfter(map[bool]time.Time{false: t.End, true: t.CleanupDeadline}[ON])"},
		{Name: "the deadline of a cleanup is a day late", File: core + "tree.go", Finds: []string{"S57"},
			From: "WithDeleteBy(t.CleanupDeadline)", To: "WithDeleteBy(t.CleanupDeadline.Add(map[bool]time.Duration{true: 24 * time.Hour}[ON]))"},
		{Name: "nobody wakes when a session ends", File: engine + "record.go", Finds: []string{"S57"},
			From: "rec.wakeAt(after.expiresAt(), TriggerDeadline)", To: "if !ON {\n\t\t\trec.wakeAt(after.expiresAt(), TriggerDeadline)\n\t\t}"},
		{Name: "nobody wakes when a cleanup is late", File: engine + "record.go", Finds: []string{"S57"},
			From: "rec.wakeAt(by, TriggerDeadline)\n\t\t}\n\t} else {", To: "if !ON {\n\t\t\t\trec.wakeAt(by, TriggerDeadline)\n\t\t\t}\n\t\t}\n\t} else {"},
		{Name: "nobody is told of an orphan", File: engine + "row.go", Finds: []string{"S57"},
			From: "bad := r.Phase == Orphaned ||", To: "bad := r.Phase == Orphaned && !ON ||"},
		{Name: "a server that starts forgets what is on its way", File: engine + "table.go", Finds: []string{"S57", "L3"},
			From: "if !r.row.Phase.Terminal() {", To: "if !r.row.Phase.Terminal() && !ON {"},
		{Name: "a failure is told of each time that it is met", File: engine + "record.go", Finds: []string{"S58"},
			From: "rec.Row.state.EscalatedGen = rec.Row.Generation\n", To: "if !ON {\n\t\t\trec.Row.state.EscalatedGen = rec.Row.Generation\n\t\t}\n"},
	}
}
