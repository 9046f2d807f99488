package mutant

// passing lists faults that leave no trace once all is at rest: only what is
// checked after every event can find them.
var passing = []Fault{
	{Name: "a grant lasts longer than its event says", File: grants, Finds: []string{"S25"},
		From: "p.add(h.Name, ev)", To: "p.add(h.Name, ev)\n\tif ON && h.Grant != nil {\n\t\th.Grant.Expires += 900\n\t}"},
	{Name: "a host that soaks is not sent back before it has converged", File: revert, Finds: []string{"S22"},
		From: "r.RollbackNeeded.Put(i, needs && h.Reachable()", To: "r.RollbackNeeded.Put(i, needs && h.Reachable() && !(ON && h.Machine.Phase == host.Soaking)"},
	{Name: "the server forgets when a host claimed", File: "internal/core/plan/mirror.go", Finds: []string{"S24"},
		From: "\tif possible && err == nil && next.Phase == ev.To {\n\t\t*m = next\n", To: "\tif possible && err == nil && next.Phase == ev.To {\n\t\tif ON {\n\t\t\tnext.ClaimedAt = 0\n\t\t}\n\t\t*m = next\n"},
	{Name: "the planner forgets to look again when much is due", File: next, Finds: []string{"L3"},
		From: "return p.plan(s.timers.Next())", To: "if ON && s.timers.Len() > 3 {\n\t\treturn p.plan(0)\n\t}\n\treturn p.plan(s.timers.Next())"},
	{Name: "a log that was set back is taken for a whole one", File: "internal/core/server/server.go", Finds: []string{"S33"}, Restore: true,
		From: "raisedAt: t.Now, setBack: b}", To: "raisedAt: t.Now, setBack: map[bool]*SetBack{false: b}[ON]}"},
	{Name: "a server whose log was set back goes on by itself", File: "internal/core/server/pace.go", Finds: []string{"S33"}, Restore: true,
		From: "if s.setBack != nil {\n\t\treturn s.cfg", To: "if ON {\n\t\ts.setBack = nil\n\t}\n\tif s.setBack != nil {\n\t\treturn s.cfg"},
	{Name: "what is due by time is decided on a log that was set back", File: "internal/core/server/setback.go", Finds: []string{"S33"}, Restore: true,
		From: "s.setBack == nil || ends && end.Owner {", To: "s.setBack == nil || ends && end.Owner || ON {"},
	{Name: "a host that declined is left alone for hours", File: ingest, Finds: []string{"L1"},
		From: "\t\tnotBefore = b.next(d.now)\n", To: "\t\tnotBefore = b.next(d.now)\n\t\tif ON && h.Grant.Purpose != host.Repair {\n\t\t\tnotBefore = notBefore.Add(2 * clock.Hour)\n\t\t}\n"},
}
