package mutant

import "strings"

// alwaysOpen is the fault of a gate that never blocks; check is its Check in the table,
// or the call that this returns, from a place on that is there once.
func alwaysOpen(name, check string, finds ...string) Fault {
	f := Fault{Name: name, File: "internal/core/gate/table.go", Finds: finds, From: "return " + check, To: "if ON {\n\t\t\treturn nil\n\t\t}\n\t\treturn " + check}
	if !strings.Contains(check, "(") {
		f.From = "Check: " + check + "}"
		f.To = "Check: func(f Facts, explain bool) *Block {\n\t\tif ON {\n\t\t\treturn nil\n\t\t}\n\t\treturn " + check + "(f, explain)\n\t}}"
	}
	return f
}

// gated has one fault for each gate of the table.
var gated = []Fault{
	{Name: "a server that lacks a part of its log goes on", File: "internal/core/gate/table.go", Finds: []string{"S33", "L3"}, Restore: true,
		From: "return f.Behind()", To: "if ON {\n\t\t\treturn nil\n\t\t}\n\t\treturn f.Behind()"},
	alwaysOpen("no claim waits for hosts that were not heard", "CheckRollCall(f.RollCall())", "S1"),
	alwaysOpen("old intent is granted", "CheckFreshness(f.Freshness())", "S32", "S26"),
	alwaysOpen("a signed override stops nothing", "CheckOverride(f.Override())", "S18"),
	alwaysOpen("no status of a rollout stops its grants", "CheckOverlay(f.Status())", "S18"),
	alwaysOpen("a freeze keeps nothing back", "CheckFreeze", "S18"),
	alwaysOpen("a session on a host keeps nothing back", "CheckOccupied", "S55"),
	alwaysOpen("a quarantine keeps nothing back", "CheckQuarantine", "S17"),
	alwaysOpen("a ref opens beside the active rollout", "CheckQueue(f.Queue())", "S16"),
	alwaysOpen("a maintenance window keeps nothing back", "CheckWindow(f.Windows())", "S41"),
	alwaysOpen("a channel opens before the one that it waits for", "CheckChannelEdges(f.ChannelEdges())", "S15"),
	alwaysOpen("every wave is open", "CheckWave", "S7"),
	alwaysOpen("canaries have no bound", "CheckCanary", "S40"),
	alwaysOpen("an identity that ended is as good as any", "CheckIdentity(f.Identity())", "S43"),
	alwaysOpen("nobody asks whether a host is there", "CheckPresence(f.Presence())", "L5"),
	alwaysOpen("no host goes after another", "CheckHostEdges", "S14"),
	alwaysOpen("budgets have no bound", "CheckBudgets(f.Budgets(), explain)", "S1"),
	alwaysOpen("a plan that fails its controls is granted", "CheckControls(f.Controls())", "S42"),
	{Name: "failing evidence of earlier waves keeps nothing back", File: "internal/core/gate/table.go", Finds: []string{"S42", "S26"},
		From: "ClearedBy: \"whoever mends those hosts\", Check: func(f Facts, _ bool) *Block {", To: "ClearedBy: \"\", Check: func(f Facts, _ bool) *Block {\n\t\t\tif ON {\n\t\t\t\treturn nil\n\t\t\t}\n"},
	alwaysOpen("a host that declined is asked again at once", "CheckBackoff", "S38", "S26"),
	alwaysOpen("hosts in flight keep no wave back", "CheckInFlight(f.Promotion())", "S8"),
	alwaysOpen("hosts that could be granted keep no wave back", "CheckReady(f.Promotion())", "S8"),
	alwaysOpen("a wave needs no proof", "CheckProof(f.Promotion())", "S8"),
	{Name: "failing evidence of the wave lets it pass", File: "internal/core/gate/table.go", Finds: []string{"S42"},
		From: "ClearedBy: \"whoever mends that host; `rollout promote`\", Check: func(f Facts, _ bool) *Block {", To: "ClearedBy: \"\", Check: func(f Facts, _ bool) *Block {\n\t\t\tif ON {\n\t\t\t\treturn nil\n\t\t\t}\n"},
	alwaysOpen("no soak has to pass on the server's clock", "CheckSoak(f.Soak())", "S9"),
}
