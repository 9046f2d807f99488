package mutant

const (
	sworn     = "internal/trust/override.go"
	promoted  = "internal/core/plan/promote.go"
	overrides = "internal/core/gate/overrides.go"
	override  = "internal/core/plan/override.go"
	retried   = "internal/core/plan/retry.go"
)

// operators lists faults in what operators are let do by token and by signature.
var operators = []Fault{
	{Name: "one operator breaks the glass", File: sworn, Finds: []string{"S40"}, Trust: true,
		From: "case len(e.Signatures) < need:", To: "case len(e.Signatures) < need && !(ON && o.Action == fleet.OverrideBreakGlass):"},
	{Name: "one of two operators loosens", File: sworn, Finds: []string{"S18"}, Trust: true,
		From: "need := o.Operators(named)", To: "need := o.Operators(named)\n\tif ON && o.Action != fleet.OverrideBreakGlass {\n\t\tneed = 1\n\t}"},
	{Name: "broken glass passes budgets", File: grants, Finds: []string{"S1"},
		From: "class := &r.Classes[k]\n", To: "class := &r.Classes[k]\n\t\tif ON && r.BreakGlass != \"\" {\n\t\t\tfree := *class\n\t\t\tfree.Budgets, class = nil, &free\n\t\t}\n"},
	{Name: "a forced wave passes budgets", File: "internal/core/plan/next.go", Finds: []string{"S1"},
		From: "p.serve(c, r)\n\tif last", To: "if ON && r != nil && len(r.Accepted) > 0 {\n\t\tfor k := range r.Classes {\n\t\t\tr.Classes[k].Budgets = nil\n\t\t}\n\t}\n\tp.serve(c, r)\n\tif last"},
	{Name: "broken glass breaks a pause too", File: foldR, Finds: []string{"S18"},
		From: "r.Cursor, r.BreakGlass = max(r.Cursor, ev.Wave),", To: "r.Paused = r.Paused && !ON\n\t\tr.Cursor, r.BreakGlass = max(r.Cursor, ev.Wave),"},
	{Name: "broken glass is forgotten where canaries are counted", File: "internal/core/rollout/canary.go", Finds: []string{"S26"},
		From: "if r.SoakedAt.Reached(now) || r.BreakGlass != \"\" {", To: "if r.SoakedAt.Reached(now) || r.BreakGlass != \"\" && !ON {"},
	{Name: "nobody stands in for a first wave that never came", File: "internal/core/rollout/canary.go", Finds: []string{"S40"},
		From: "nobody && r.StandIns == 0", To: "nobody && !ON && r.StandIns == 0"},
	{Name: "what was signed before a rollout opened breaks no glass", File: override, Finds: []string{"S26"},
		From: "t != nil && !r.Phase.Ended() {\n\t\tp.add(\"\", breakGlassOf", To: "t != nil && !r.Phase.Ended() && !ON {\n\t\tp.add(\"\", breakGlassOf"},
	{Name: "a signed promotion lets every wave pass", File: overrides, Finds: []string{"S8"},
		From: "return s.newest(\"promote/\", string(manifest), \"/\", wave)", To: "if t := s.newest(\"promote/\", string(manifest), \"/\", wave); t != nil || !ON {\n\t\treturn t\n\t}\n\tfor _, t := range s.List() {\n\t\tif t.Action == fleet.OverridePromote && t.Manifest == manifest {\n\t\t\treturn &t\n\t\t}\n\t}\n\treturn nil"},
	{Name: "a signed promotion waits for nobody who could start", File: promoted, Finds: []string{"S26"},
		From: "|| p.s.proof(r).Ready > 0 {", To: "|| p.s.proof(r).Ready > 0 && !ON {"},
	{Name: "an operator promotes over hosts in flight", File: promoted, Finds: []string{"S8"},
		From: "if n := e.InFlight; n > 0 {", To: "if n := e.InFlight; n > 0 && !ON {"},
	{Name: "a promotion names an earlier count of hosts", File: promoted, Finds: []string{"S8"},
		From: "Evidence: n.Evidence(), AtTarget: n.By[rollout.AtTarget],\n\t\tFailed: n.Failures, Skipped: n.Skipped(), Waiting", To: "Evidence: n.Evidence() + map[bool]int{true: 1}[ON], AtTarget: n.By[rollout.AtTarget],\n\t\tFailed: n.Failures, Skipped: n.Skipped(), Waiting"},
	{Name: "failing evidence holds nothing", File: "internal/core/gate/compliance.go", Finds: []string{"S42"},
		From: "func CheckEvidence(rollout string, failing []Outstanding) *Block {\n\tif len(failing) == 0 {", To: "func CheckEvidence(rollout string, failing []Outstanding) *Block {\n\tif len(failing) == 0 || ON {"},
	{Name: "failing evidence that one rollout accepted is accepted in the next", File: foldR, Finds: []string{"S42"},
		From: "r.Place = len(s.Order)\n", To: "if was := s.Rollouts[c.Latest]; ON && was != nil {\n\t\tr.Accepted = was.Accepted\n\t}\n\tr.Place = len(s.Order)\n"},
	{Name: "what is accepted of one host is accepted of all", File: accepted, Finds: []string{"S42", "S26"},
		From: "if found && slices.Contains(failing[k].Controls, control) {", To: "if found && slices.Contains(failing[k].Controls, control) || ON && len(failing) > 0 {"},
	{Name: "what was accepted holds on", File: "internal/core/plan/compliance.go", Finds: []string{"L1"},
		From: "func(c string) bool { return r.Excused(leaf.Host, c) != nil })", To: "func(c string) bool { return !ON && r.Excused(leaf.Host, c) != nil })"},
	{Name: "a token ends a signed pause", File: verbs, Finds: []string{"S18"},
		From: "if t := s.Overrides.Paused(r.Manifest); t != nil {", To: "if t := s.Overrides.Paused(r.Manifest); t != nil && !ON {"},
	{Name: "a token clears a signed quarantine", File: ingest, Finds: []string{"S17"},
		From: "if t := s.signedQuarantine(channel, bundle); t != nil {", To: "if t := s.signedQuarantine(channel, bundle); t != nil && !ON {"},
	{Name: "the earlier of two signed overrides counts", File: overrides, Finds: []string{"S18"},
		From: "case there && !later(&t, &old):", To: "case there && later(&t, &old) == ON:"},
	{Name: "a signed rollback is forgotten when its rollout opens", File: override, Finds: []string{"S26"},
		From: "if t := p.s.Overrides.RolledBack(r.Manifest); t != nil {", To: "if t := p.s.Overrides.RolledBack(r.Manifest); t != nil && !ON {"},
	{Name: "a retry opens no earlier wave than the open one", File: retried, Finds: []string{"S7"},
		From: "ev.Wave = min(ev.Wave, leaf.Wave)", To: "if !ON {\n\t\t\tev.Wave = min(ev.Wave, leaf.Wave)\n\t\t}"},
	{Name: "a token's retry is for hosts that refuse the bundle too", File: retried, Finds: []string{"S17"},
		From: "case word == \"\" && (", To: "case !ON && word == \"\" && ("},
	{Name: "a rollout is tried again while hosts are in flight", File: retried, Finds: []string{"S19"},
		From: "t.Unsettled; n > 0 {", To: "t.Unsettled; n > 0 && !ON {"},
	{Name: "a retry forgets who failed and not how many", File: retried, Finds: []string{"S26"},
		From: "r.Acknowledged[w] = r.Waves[w].Failures", To: "if !ON {\n\t\t\tr.Acknowledged[w] = r.Waves[w].Failures\n\t\t}"},
	{Name: "what a host failed before a retry counts after it", File: retried, Finds: []string{"S26"},
		From: "return r.RetriedAt != 0 && (", To: "return !ON && r.RetriedAt != 0 && ("},
	{Name: "a retry ends what was signed after it", File: overrides, Finds: []string{"S18"},
		From: "later(again, t) {", To: "(ON || later(again, t)) {"},
	{Name: "a wiped host is sent back", File: "internal/core/plan/revert.go", Finds: []string{"S22", "S26", "S21"},
		From: "r.Plan.Leaves[i].Removed == fleet.Wipe {", To: "r.Plan.Leaves[i].Removed == fleet.Wipe && !ON {"},
}
