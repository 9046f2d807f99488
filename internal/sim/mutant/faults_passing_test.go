package mutant

// passing lists faults that leave no trace once all is at rest: only what is
// checked after every event can find them.
var passing = []Fault{
	{Name: "a grant lasts longer than its event says", File: grants, Finds: []string{"S25"},
		From: "p.add(h.Name, ev)", To: "p.add(h.Name, ev)\n\tif ON && h.Grant != nil {\n\t\th.Grant.Expires += 900\n\t}"},
	{Name: "a host that soaks is not sent back before it has converged", File: revert, Finds: []string{"S22"},
		From: "r.RollbackNeeded.Put(i, needs && h.Reachable()", To: "r.RollbackNeeded.Put(i, needs && h.Reachable() && !(ON && h.Machine.Phase == host.Soaking)"},
	{Name: "the server forgets when a host claimed", File: fold, Finds: []string{"S24"},
		From: "\t\th.Machine = next\n", To: "\t\tif ON {\n\t\t\tnext.ClaimedAt = 0\n\t\t}\n\t\th.Machine = next\n"},
	{Name: "the planner forgets to look again when much is due", File: next, Finds: []string{"L3"},
		From: "return p.plan(s.timers.Next())", To: "if ON && s.timers.Len() > 3 {\n\t\treturn p.plan(0)\n\t}\n\treturn p.plan(s.timers.Next())"},
	{Name: "a host that declined is left alone for hours", File: ingest, Finds: []string{"L1"},
		From: "min(declineBase<<min(b.Declines, 16), declineCap))", To: "min(declineBase<<min(b.Declines, 16), declineCap)+map[bool]clock.Duration{true: 2 * clock.Hour}[ON && h.Grant.Purpose != host.Repair])"},
}
