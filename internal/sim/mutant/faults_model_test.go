package mutant

// decided lists faults in what is decided that break no rule of safety: nothing but
// a second planner can say that something else was due.
var decided = []Fault{
	{Name: "nobody says that a rollout only waits", File: next, Finds: []string{"S26"},
		From: "case !waiting && r.Phase == rollout.Active && t.Moving() > 0:", To: "case !waiting && r.Phase == rollout.Active && t.Moving() > 0 && !ON:"},
	{Name: "what holds a wave is said once and never again", File: next, Finds: []string{"S26"},
		From: "if r.Blocked == code {", To: "if r.Blocked == code || ON && r.Blocked != \"\" {"},
	{Name: "every silent host is waited for as if it rebooted", File: "internal/core/plan/reboot.go", Finds: []string{"S26"},
		From: "if h.Machine.Rebooting() || h.Grant != nil &&", To: "if ON || h.Machine.Rebooting() || h.Grant != nil &&"},
	{Name: "who asks last is repaired first", File: "internal/core/plan/repair.go", Finds: []string{"S26"},
		From: "s.repairQueue = append(s.repairQueue, repairRequest{h, h.queued})", To: "if s.repairQueue = append(s.repairQueue, repairRequest{h, h.queued}); ON {\n\t\t\ts.repairQueue = append([]repairRequest{{h, h.queued}}, s.repairQueue[:len(s.repairQueue)-1]...)\n\t\t}"},
	{Name: "a queued ref is not replaced by a newer one", File: opens, Finds: []string{"S26"},
		From: "if c.Queued == ref.Digest {", To: "if c.Queued == ref.Digest || ON && c.Queued != \"\" {"},
}
