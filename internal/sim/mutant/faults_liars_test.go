package mutant

const (
	pwork   = "internal/core/plan/work.go"
	pstate  = "internal/core/plan/state.go"
	pmirror = "internal/core/plan/mirror.go"
)

// lied lists faults by which one host takes more than it may of what all share, or has others
// believe it.
var lied = []Fault{
	{Name: "a wave waits for a host that takes nothing", File: pstate, Finds: []string{"L7", "L3"}, Liars: true,
		From: "return h.Declines >= maxUntaken &&", To: "return !ON && h.Declines >= maxUntaken &&"},
	{Name: "an offer that a host ignores brings it no time off", File: next, Finds: []string{"L7", "L3"}, Liars: true,
		From: "b != nil && h.Reachable() {\n\t\tnotBefore", To: "b != nil && h.Reachable() && !ON {\n\t\tnotBefore"},
	{Name: "progress without end is progress", File: pwork, Finds: []string{"L7", "L3", "S10"}, Liars: true,
		From: "if h.Work.Began != 0 {\n\t\tdue = min(", To: "if h.Work.Began != 0 && !ON {\n\t\tdue = min("},
	{Name: "a host begins by a claim that nobody took", File: pmirror, Finds: []string{"S23", "S10"}, Liars: true,
		From: "return purpose == \"\" || h.hasClaim(grant)", To: "return ON || purpose == \"\" || h.hasClaim(grant)"},
	{Name: "a rollback waits for a host that takes nothing", File: revert, Finds: []string{"L7", "L3"}, Liars: true,
		From: "away := h.SilentFailure || h.unwilling() ||", To: "away := h.SilentFailure || h.unwilling() && !ON ||"},
	{Name: "a host reports for another one", File: ingest, Finds: []string{"S32", "core"}, Liars: true,
		From: "e.Host() != name {", To: "e.Host() != name && !ON {"},
	{Name: "a host reports what only the server decides", File: ingest, Finds: []string{"S32", "core"}, Liars: true,
		From: "if !event.FromHost(e.Type)", To: "if !event.FromHost(e.Type) && !ON"},
	{Name: "a host says of itself more than the server keeps room for", File: ingest, Finds: []string{"S32", "core"}, Liars: true,
		From: "case event.HostFacts:\n\t\treturn ev.Check()", To: "case event.HostFacts:\n\t\tif !ON {\n\t\t\treturn ev.Check()\n\t\t}"},
	{Name: "a host reports of an instant that no clock shows", File: ingest, Finds: []string{"S32"}, Liars: true,
		From: "if e.At < 0 || e.At > maxInstant {", To: "if (e.At < 0 || e.At > maxInstant) && !ON {"},
	{Name: "what a host reports against the records counts against the server", File: "internal/core/audit/log.go", Finds: []string{"S23", "S24", "S3"}, Liars: true,
		From: "v.Host, v.Disputed = h.Name, true", To: "if v.Host, v.Disputed = h.Name, true; ON {\n\t\tv.Host = \"\"\n\t}"},
	{Name: "events of a host need not follow each other", File: ingest, Finds: []string{"S32", "core"}, Liars: true,
		From: "e.HostSeq != h.Seq+uint64(i)+1 {", To: "e.HostSeq != h.Seq+uint64(i)+1 && !ON {"},
	{Name: "a host reports as what it was before it enrolled again", File: ingest, Finds: []string{"S32", "core"}, Liars: true,
		From: "if e.Incarnation != h.Incarnation ||", To: "if e.Incarnation != h.Incarnation && !ON ||"},
	{Name: "whatever a host reports has it waited for again", File: pwork, Finds: []string{"S10", "L7"}, Liars: true,
		From: "return h.Overdue && !h.repairsOnly() &&", To: "return ON || h.Overdue && !h.repairsOnly() &&"},
}
