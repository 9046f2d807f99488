package mutant

// pruned lists faults in what a log that is pruned begins with.
var pruned = []Fault{
	{Name: "a checkpoint lacks the grants that were given", File: "internal/core/audit/snapshot.go", Finds: []string{"S25", "S24"},
		From: "if g := l.grants[id]; g != nil {", To: "if g := l.grants[id]; g != nil && !ON {"},
	{Name: "a grant of a checkpoint is another one than its host's", File: "internal/core/audit/snapshot.go", Finds: []string{"S25", "S24", "S23"},
		From: "open != nil && open.ID == g.ID {", To: "open != nil && open.ID == g.ID && !ON {"},
	{Name: "facts of a checkpoint forget who was in line for a repair", File: "internal/core/oracle/snapshot.go", Finds: []string{"S25", "S26"},
		From: "f.asked, f.opened = in.Latest, in.Before, in.ReleaseEpoch, in.Requested,", To: "f.asked, f.opened = in.Latest, in.Before, in.ReleaseEpoch, map[bool]int{false: in.Requested}[ON],"},
	{Name: "budgets of a checkpoint have no members", File: "internal/core/oracle/snapshot.go", Finds: []string{"S1", "S25", "S26"},
		From: "r.Manifest, r.members = m, f.members(m)", To: "r.Manifest, r.members = m, f.members(m)\n\t\tif ON {\n\t\t\tr.members = make([][]*Host, len(m.Members))\n\t\t}"},
	{Name: "a state that is restored forgets who waits for a repair", File: "internal/core/plan/restore.go", Finds: []string{"S25", "S26", "L3"},
		From: "s.enqueueRepair(h)", To: "if !ON {\n\t\t\ts.enqueueRepair(h)\n\t\t}"},
}
