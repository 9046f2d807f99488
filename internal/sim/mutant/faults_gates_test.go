package mutant

// alwaysOpen is the fault of a gate whose Check never blocks; check is its call in the
// table, from a place on that is there once.
func alwaysOpen(name, check string, finds ...string) Fault {
	return Fault{Name: name, File: "internal/core/gate/table.go", Finds: finds, From: "return " + check, To: "if ON {\n\t\t\treturn nil\n\t\t}\n\t\treturn " + check}
}

// neverClosed is the same of a gate that says by itself when it is closed.
func neverClosed(name, closed, check string, finds ...string) Fault {
	rest := " },\n\t\tCheck: func(f Facts) *Block { return " + check
	return Fault{Name: name, File: "internal/core/gate/table.go", Finds: finds, From: "return " + closed + rest, To: "return !ON && (" + closed + ")" + rest}
}

// gated has one fault for each gate of the table.
var gated = []Fault{
	{Name: "a server that lacks a part of its log goes on", File: "internal/core/gate/table.go", Finds: []string{"S33", "L3"}, Restore: true,
		From: "Check: Facts.Behind", To: "Check: func(f Facts) *Block {\n\t\t\tif ON {\n\t\t\t\treturn nil\n\t\t\t}\n\t\t\treturn f.Behind()\n\t\t}"},
	alwaysOpen("no claim waits for hosts that were not heard", "CheckRollCall(f.RollCall())", "S1"),
	alwaysOpen("old intent is granted", "CheckFreshness(f.Freshness())", "S32", "S26"),
	alwaysOpen("a signed override stops nothing", "CheckOverride(f.Override())", "S18"),
	alwaysOpen("no status of a rollout stops its grants", "CheckOverlay(f.Status())", "S18"),
	neverClosed("a freeze keeps nothing back", `until > now`, "CheckFreeze(f.Freeze())", "S18"),
	neverClosed("a quarantine keeps nothing back", `reason != ""`, "CheckQuarantine(f.Quarantine())", "S17"),
	alwaysOpen("a ref opens beside the active rollout", "CheckQueue(f.Queue())", "S16"),
	alwaysOpen("a maintenance window keeps nothing back", "CheckWindow(f.Windows())", "S41"),
	alwaysOpen("a channel opens before the one that it waits for", "CheckChannelEdges(f.ChannelEdges())", "S15"),
	neverClosed("every wave is open", `wave > cursor`, "CheckWave(f.Wave())", "S7"),
	neverClosed("canaries have no bound", `most != 0 && tried >= most`, "CheckCanary(f.Canary())", "S40"),
	alwaysOpen("an identity that ended is as good as any", "CheckIdentity(f.Identity())", "S43"),
	alwaysOpen("nobody asks whether a host is there", "CheckPresence(f.Presence())", "L5"),
	neverClosed("no host goes after another", `len(unmet) > 0`, "CheckHostEdges(f.HostEdges())", "S14"),
	neverClosed("budgets have no bound", `slices.ContainsFunc(f.Budgets(), Use.Full)`, "CheckBudgets(f.Budgets())", "S1"),
	alwaysOpen("a plan that fails its controls is granted", "CheckControls(f.Controls())", "S42"),
	{Name: "failing evidence of earlier waves keeps nothing back", File: "internal/core/gate/table.go", Finds: []string{"S42", "S26"},
		From: "ClearedBy: \"whoever mends those hosts\", Check: func(f Facts) *Block {", To: "ClearedBy: \"\", Check: func(f Facts) *Block {\n\t\t\tif ON {\n\t\t\t\treturn nil\n\t\t\t}\n"},
	neverClosed("a host that declined is asked again at once", `until > now`, "CheckBackoff(f.Backoff())", "S38", "S26"),
	alwaysOpen("hosts in flight keep no wave back", "CheckInFlight(f.Promotion())", "S8"),
	alwaysOpen("hosts that could be granted keep no wave back", "CheckReady(f.Promotion())", "S8"),
	alwaysOpen("a wave needs no proof", "CheckProof(f.Promotion())", "S8"),
	{Name: "failing evidence of the wave lets it pass", File: "internal/core/gate/table.go", Finds: []string{"S42"},
		From: "ClearedBy: \"whoever mends that host; `rollout promote`\", Check: func(f Facts) *Block {", To: "ClearedBy: \"\", Check: func(f Facts) *Block {\n\t\t\tif ON {\n\t\t\t\treturn nil\n\t\t\t}\n"},
	alwaysOpen("no soak has to pass on the server's clock", "CheckSoak(f.Soak())", "S9"),
}
