package mutant

// passing lists faults that leave no trace once all is at rest: only what is
// checked after every event can find them.
var passing = []Fault{
	{Name: "a grant lasts longer than its event says", File: grants, Finds: []string{"S25"},
		From: "p.do(grant{ev, h.Name}, h.Name, ev)", To: "p.do(grant{ev, h.Name}, h.Name, ev)\n\tif ON && h.Grant != nil {\n\t\th.Grant.Expires += 900\n\t}"},
}
