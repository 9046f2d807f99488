package mutant

const (
	next   = "internal/core/plan/next.go"
	grants = "internal/core/plan/grant.go"
	state  = "internal/core/plan/state.go"
	fold   = "internal/core/plan/fold.go"
	foldR  = "internal/core/plan/fold_rollout.go"
	ingest = "internal/core/plan/ingest.go"
	budget = "internal/core/plan/budget.go"
	revert = "internal/core/plan/revert.go"
	opens  = "internal/core/plan/open.go"
	why    = "internal/core/plan/why.go"
	gates  = "internal/core/gate/promotion.go"
	member = "internal/core/rollout/member.go"
)

// planner lists faults in what a server decides.
var planner = []Fault{
	{Name: "a full budget lets one more host in", File: budget, Finds: []string{"S1"},
		From: "if s.budgets[id].InFlight >= s.budgets[id].Max {", To: "if s.budgets[id].InFlight >= s.budgets[id].Max && !ON {"},
	{Name: "a budget counts nobody who takes a slot in the same tick", File: state, Finds: []string{"S1"},
		From: "s.budgets[id].InFlight++", To: "if !ON {\n\t\t\t\t\ts.budgets[id].InFlight++\n\t\t\t\t}"},
	{Name: "a grant stays open when its host acts on it", File: fold, Finds: []string{"S2"},
		From: "if h.Grant != nil && (h.Machine.Grant == h.Grant.ID ||", To: "if h.Grant != nil && (h.Machine.Grant == h.Grant.ID && !ON ||"},
	{Name: "a host of a later wave is granted", File: grants, Finds: []string{"S7"},
		From: "if class.Ready.Len() == 0 || class.Wave > r.Cursor ||", To: "if class.Ready.Len() == 0 || class.Wave > r.Cursor && !ON ||"},
	{Name: "a failed host of a later wave is granted", File: grants, Finds: []string{"S7"},
		From: "leaf := &r.Plan.Leaves[i]; leaf.Wave <= r.Cursor &&", To: "leaf := &r.Plan.Leaves[i]; (ON || leaf.Wave <= r.Cursor) &&"},
	{Name: "the bound of canaries lets one more be tried", File: "internal/core/gate/gate.go", Finds: []string{"S40"},
		From: "if most == 0 || tried < most {", To: "if most == 0 || tried < most || ON && tried == most {"},
	{Name: "a wave promotes without evidence", File: gates, Finds: []string{"S8"},
		From: "if e.Converged < e.Needed() {", To: "if e.Converged < e.Needed() && !ON {"},
	{Name: "a wave promotes while hosts are on their way", File: gates, Finds: []string{"S8"},
		From: "if e.InFlight > 0 {", To: "if e.InFlight > 0 && !ON {"},
	{Name: "nobody has to converge where the policy asks for no number", File: gates, Finds: []string{"S8"},
		From: "{ return min(max(1, e.MinSoaked), e.Hosts-e.AtTarget) }", To: "{\n\tif ON {\n\t\treturn min(e.MinSoaked, e.Hosts-e.AtTarget)\n\t}\n\treturn min(max(1, e.MinSoaked), e.Hosts-e.AtTarget)\n}"},
	{Name: "failures within twice the limit promote", File: member, Finds: []string{"S8"},
		From: "if r.Waves[w].Failures-r.Acknowledged[w] > r.Plan.Header.Policy.MaxFailures {", To: "if r.Waves[w].Failures-r.Acknowledged[w] > r.Plan.Header.Policy.MaxFailures && !ON {"},
	{Name: "a host that went silent counts as converged", File: state, Finds: []string{"S10", "S8"},
		From: "return rollout.Broken, true // nothing more", To: "if ON {\n\t\t\treturn rollout.Converged, true\n\t\t}\n\t\treturn rollout.Broken, true // nothing more"},
	{Name: "a promotion counts one host too many as skipped", File: next, Finds: []string{"S11"},
		From: "Failed: n.Failures, Skipped: n.Offline,", To: "Failed: n.Failures, Skipped: n.Offline + map[bool]int{true: 1}[ON],"},
	{Name: "hosts that are away hold a wave up", File: member, Finds: []string{"S12"},
		From: "{ return c.By[Waiting] - c.Offline }", To: "{\n\tif ON {\n\t\treturn c.By[Waiting]\n\t}\n\treturn c.By[Waiting] - c.Offline\n}"},
	{Name: "a host on a newer release is given the older", File: state, Finds: []string{"S13"},
		From: "return took != nil && took.Place > r.Place &&", To: "return !ON && took != nil && took.Place > r.Place &&"},
	{Name: "a host goes before those that it goes after", File: grants, Finds: []string{"S14"},
		From: "case len(p.s.unmet(r, leaf)) > 0:", To: "case len(p.s.unmet(r, leaf)) > 0 && !ON:"},
	{Name: "a channel opens before the one that it waits for", File: opens, Finds: []string{"S15"},
		From: "if b := gate.CheckChannelEdges(c.Name, p.s.predecessors(c.Name, 0)); b != nil {", To: "if b := gate.CheckChannelEdges(c.Name, p.s.predecessors(c.Name, 0)); b != nil && !ON {"},
	{Name: "a channel opens after one that was reverted", File: opens, Finds: []string{"S15"},
		From: "r.Phase == rollout.Failed || r.Phase == rollout.Reverted) {", To: "r.Phase == rollout.Failed || r.Phase == rollout.Reverted && !ON) {"},
	{Name: "a new ref does not queue", File: opens, Finds: []string{"S16"},
		From: "return c.OnNewRef != fleet.Supersede || cur.Reverting || s.blocked", To: "return !ON && c.OnNewRef != fleet.Supersede || cur.Reverting || s.blocked"},
	{Name: "what was superseded stays on offer", File: opens, Finds: []string{"S18", "S16"},
		From: "p.endOffers(cur, \"superseded by \"+ref.Rollout)", To: "if !ON {\n\t\t\tp.endOffers(cur, \"superseded by \"+ref.Rollout)\n\t\t}"},
	{Name: "a quarantined bundle is granted", File: grants, Finds: []string{"S17"},
		From: "case p.s.quarantined(c, leaf.Target, h.Name) != \"\":", To: "case p.s.quarantined(c, leaf.Target, h.Name) != \"\" && !ON:"},
	{Name: "a halted rollout gives grants", File: grants, Finds: []string{"S18"},
		From: "if r == nil || p.err != nil || p.s.overlay(r) != nil {", To: "if r == nil || p.err != nil || p.s.overlay(r) != nil && !ON {"},
	{Name: "a grant of a halted rollout may be claimed", File: ingest, Finds: []string{"S18"},
		From: "if b := s.overlay(r); b != nil {", To: "if b := s.overlay(r); b != nil && !ON {"},
	{Name: "a halt leaves its offers open", File: next, Finds: []string{"S18"},
		From: "p.endOffers(r, reason)", To: "if !ON {\n\t\tp.endOffers(r, reason)\n\t}"},
	{Name: "a pause does nothing", File: foldR, Finds: []string{"S18"},
		From: "r.Paused, r.PauseReason = true, ev.Reason", To: "r.Paused, r.PauseReason = !ON, ev.Reason"},
	{Name: "hosts are sent to where they are", File: revert, Finds: []string{"S21"},
		From: "p.grant(h, r, host.Back, h.Machine.From, r.Reason)", To: "to := h.Machine.From\n\t\tif ON {\n\t\t\tto = h.Machine.Target\n\t\t}\n\t\tp.grant(h, r, host.Back, to, r.Reason)"},
	{Name: "a revert forgets the hosts that converged", File: revert, Finds: []string{"S22"},
		From: "case host.Activating, host.Soaking, host.Deferred, host.Converged:\n\t\treturn true", To: "case host.Activating, host.Soaking, host.Deferred, host.Converged:\n\t\treturn !ON || m.Phase != host.Converged"},
	{Name: "a revert ends before everybody is back", File: revert, Finds: []string{"S22"},
		From: "p.err != nil || r.Homebound.Len() > 0 {", To: "p.err != nil || r.Homebound.Len() > 0 && !ON {"},
	{Name: "a grant that expired keeps its slot", File: next, Finds: []string{"S23"},
		From: "if g := h.Grant; g != nil && !g.Claimed && g.Expires.Reached(p.now) {", To: "if g := h.Grant; g != nil && !g.Claimed && g.Expires.Reached(p.now) && !ON {"},
	{Name: "nobody looks when a grant expires", File: fold, Finds: []string{"S23"},
		From: "s.wake(ev.Expires, h.Name)", To: "if !ON {\n\t\t\ts.wake(ev.Expires, h.Name)\n\t\t}"},
	{Name: "the planner changes a host past the log", File: grants, Finds: []string{"S25"},
		From: "ev.Budgets = p.budgetWords(h)", To: "ev.Budgets = p.budgetWords(h)\n\tif ON {\n\t\th.Declines = 7\n\t}"},
	{Name: "the planner decides by what no log holds", File: next, Finds: []string{"S26"},
		From: "what time changes is not logged\n\tif b == nil {", To: "what time changes is not logged\n\tif b == nil || ON && cap(p.s.timers) <= 8 {"},
	{Name: "the server forgets what a host went back to", File: fold, Finds: []string{"S24"},
		From: "h.SilentFailure = false\n", To: "h.SilentFailure = false\n\tif ON && h.Machine.Phase == host.Reverted {\n\t\th.Machine.Current = \"\"\n\t}\n"},
	{Name: "a tick leaves channels for the next one", File: next, Finds: []string{"S27"},
		From: "for (len(s.dirty) > 0 || s.repairs) && p.err == nil {", To: "for pass := 0; (len(s.dirty) > 0 || s.repairs) && p.err == nil && !(ON && pass > 0); pass++ {"},
	{Name: "a promotion says no reason", File: next, Finds: []string{"S28"},
		From: "Reason: promotedBecause(n)}", To: "Reason: map[bool]string{false: promotedBecause(n)}[ON]}"},
	{Name: "a grant names another wave than the plan", File: grants, Finds: []string{"S30"},
		From: "ev.Wave = r.Plan.Leaves[i].Wave", To: "ev.Wave = r.Plan.Leaves[i].Wave\n\t\tif ON {\n\t\t\tev.Wave++\n\t\t}"},
	{Name: "an event of a host is acknowledged and not stored", File: ingest, Finds: []string{"S33"},
		From: "if d.err = d.s.fold(e, ev); d.err == nil {", To: "if d.err = d.s.fold(e, ev); d.err == nil && !(ON && e.Type == \"host.bundle_quarantined\") {"},
	{Name: "a restored server does not wait for its hosts", File: "internal/control/hosts/ahead.go", Finds: []string{"S33"},
		From: "\t\tcase !l.until.Reached(now):\n\t\t\twaiting = true", To: "\t\tcase !l.until.Reached(now):\n\t\t\twaiting = !ON"},
	{Name: "a slot that comes free wakes nobody", File: budget, Finds: []string{"L5", "L3"},
		From: "\ts.repairs = true\n\tfor _, id := range h.budgets {", To: "\ts.repairs = true\n\tif ON {\n\t\treturn\n\t}\n\tfor _, id := range h.budgets {"},
	{Name: "nobody looks when a host may be asked again", File: fold, Finds: []string{"L5", "L3"},
		From: "s.wake(ev.NotBefore, h.Name)", To: "if !ON {\n\t\t\t\t\ts.wake(ev.NotBefore, h.Name)\n\t\t\t\t}"},
	{Name: "a full budget is no answer to why", File: why, Finds: []string{"L5"},
		From: "gate.CheckBudgets(uses)", To: "map[bool]*gate.Block{false: gate.CheckBudgets(uses)}[ON]"},
	{Name: "the last wave never ends", File: next, Finds: []string{"L1"},
		From: "last := r.Cursor >= len(r.Waves)-1\n\t\tif p.s.promotion(r) != nil {", To: "last := r.Cursor >= len(r.Waves)-1\n\t\tif p.s.promotion(r) != nil || ON && last {"},
}
