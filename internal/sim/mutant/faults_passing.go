package mutant

// passing lists faults that leave no trace once all is at rest: only what is
// checked after every event can find them.
var passing = []Fault{
	{Name: "a grant lasts longer than its event says", File: grants, Finds: []string{"S25"},
		From: "p.do(grant{ev, h.Name}, h.Name, ev)", To: "p.do(grant{ev, h.Name}, h.Name, ev)\n\tif ON && h.Grant != nil {\n\t\th.Grant.Expires += 900\n\t}"},
	{Name: "a host that soaks is not sent back before it has converged", File: revert, Finds: []string{"S22"},
		From: "if r.SetHomeward(i, needs && h.Reachable()", To: "if r.SetHomeward(i, needs && h.Reachable() && !(ON && h.Machine.Phase == host.Soaking)"},
	{Name: "the server forgets when a host claimed", File: fold, Finds: []string{"S24"},
		From: "\t\th.Machine = next\n", To: "\t\tif ON {\n\t\t\tnext.ClaimedAt = 0\n\t\t}\n\t\th.Machine = next\n"},
	{Name: "the planner forgets to look again when much is due", File: next, Finds: []string{"L3"},
		From: "if len(s.timers) > 0 {", To: "if n := len(s.timers); n > 0 && !(ON && n > 3) {"},
	{Name: "a host that declined is left alone for hours", File: ingest, Finds: []string{"L1"},
		From: "min(declineBase<<min(h.Declines, 16), declineCap))", To: "min(declineBase<<min(h.Declines, 16), declineCap)+map[bool]clock.Duration{true: 2 * clock.Hour}[ON])"},
}
