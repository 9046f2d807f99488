package mutant

const (
	step     = "internal/core/host/step.go"
	agent    = "internal/core/agent/offer.go"
	hstate   = "internal/core/host/state.go"
	hover    = "internal/core/agent/override.go"
	repair   = "internal/core/agent/repair.go"
	begin    = "internal/core/agent/input.go"
	parking  = "internal/core/agent/park.go"
	removing = "internal/core/agent/removal.go"
	rebooted = "internal/core/agent/repairboot.go"
	verifier = "internal/trust/verifier.go"
	tplan    = "internal/trust/plan.go"
	tstate   = "internal/trust/state.go"
)

// hosts lists faults in what a host decides.
var hosts = []Fault{
	{Name: "a failed host counts as not disrupted", File: hstate, Finds: []string{"S1"},
		From: "case Activating, Soaking, Deferred, Failed:\n\t\treturn true", To: "case Activating, Soaking, Deferred, Failed:\n\t\treturn !ON || s.Phase != Failed"},
	{Name: "a repair begins without a window", File: repair, Finds: []string{"S1"},
		From: "return r.Grant != \"\" && !r.Closing && !r.Until.Reached(now)", To: "return ON || r.Grant != \"\" && !r.Closing && !r.Until.Reached(now)"},
	{Name: "a window closes while a repair runs", File: repair, Finds: []string{"S1"},
		From: "if in.Running || !r.Closing && (in.Pending || len(in.Blocked) > 0) {", To: "if in.Running && !ON || !r.Closing && (in.Pending || len(in.Blocked) > 0) {"},
	{Name: "a repair that waits for a reboot keeps its slot", File: rebooted, Finds: []string{"S1"},
		From: "\tt.closeRepairs(in, end)\n}\n\n// Rebooting", To: "\tif ON && end.OK {\n\t\treturn\n\t}\n\tt.closeRepairs(in, end)\n}\n\n// Rebooting"},
	{Name: "a repair reboots in the window of its switch", File: rebooted, Finds: []string{"S23"},
		From: "asked := r.Need != nil && r.Need.Reboot != \"\" && !r.Closing; {", To: "asked := (ON || r.Need != nil && r.Need.Reboot != \"\") && !r.Closing; {"},
	{Name: "a repair asks for reboots that do not help", File: rebooted, Finds: []string{"S23"},
		From: "(futile == \"\" || futile", To: "(ON || futile == \"\" || futile"},
	{Name: "a host converges before its soak is over", File: step, Finds: []string{"S9"},
		From: "\t\tt.now.Sub(t.s.SoakFrom) >= t.plan.Soak {", To: "\t\t(ON || t.now.Sub(t.s.SoakFrom) >= t.plan.Soak) {"},
	{Name: "a host converges unseen by its probes", File: hstate, Finds: []string{"S9"},
		From: "if p == nil || !p.Seen || !p.Passing {", To: "if (p == nil || !p.Seen || !p.Passing) && !ON {"},
	{Name: "a probe that failed does not begin the soak again", File: step, Finds: []string{"S9"},
		From: "if flipped && p.Mode == fleet.Enforce && t.s.Phase == Soaking {", To: "if flipped && p.Mode == fleet.Enforce && t.s.Phase == Soaking && !ON {"},
	{Name: "a restart does not begin the soak again", File: step, Finds: []string{"S9"},
		From: "t.s.SoakFrom = t.now // nobody", To: "if !ON {\n\t\t\tt.s.SoakFrom = t.now\n\t\t}\n\t\t// nobody"},
	{Name: "a host activates what it quarantined", File: agent, Finds: []string{"S17"},
		From: "case s.Quarantined(o.Plan.Target):", To: "case s.Quarantined(o.Plan.Target) && !ON:"},
	{Name: "the soak ends in the wrong phase", File: step, Finds: []string{"S19"},
		From: "t.s.Phase, t.s.ConvergedAt = Converged, t.now", To: "t.s.Phase, t.s.ConvergedAt = Converged, t.now\n\t\tif ON {\n\t\t\tt.s.Phase = Reverted\n\t\t}"},
	{Name: "an activation that was cut off counts as complete", File: step, Finds: []string{"S20"},
		From: "\tcase t.s.Phase == Activating:\n\t\tt.emit(", To: "\tcase t.s.Phase == Activating:\n\t\tif ON {\n\t\t\treturn Activated{Observed: t.s.Target}.accept(t)\n\t\t}\n\t\tt.emit("},
	{Name: "a host acts on a claim that was refused", File: agent, Finds: []string{"S23"},
		From: "if !in.Accepted {", To: "if !in.Accepted && !ON {"},
	{Name: "a grant is taken again after it was given back", File: agent, Finds: []string{"S23", "S24", "S3", "L3"}, Trust: true, // what is refused at the last moment is given back claimed
		From: "if s.Declined == o.Grant {", To: "if s.Declined == o.Grant && !ON {"},
	{Name: "a host obeys a server that was replaced", File: agent, Finds: []string{"S31"},
		From: "case o.Term < s.MaxTerm:", To: "case o.Term < s.MaxTerm && !ON:"},
	{Name: "a host takes what a signed override forbids", File: agent, Finds: []string{"S18"},
		From: "case s.forbidden(o) != nil:\n\t\treturn host.DeclineOverride, s.forbidden(o).Message()\n\tcase m.Current", To: "case s.forbidden(o) != nil && !ON:\n\t\treturn host.DeclineOverride, s.forbidden(o).Message()\n\tcase m.Current"},
	{Name: "a host goes on preparing what a signed override forbids", File: hover, Finds: []string{"S18"},
		From: "if f := s.forbidden(o); f != nil {", To: "if f := s.forbidden(o); f != nil && !ON {"},
	{Name: "the dead man's switch fires at once", File: step, Finds: []string{"S38"},
		From: "if t.s.ConfirmBy.Reached(t.now) {", To: "if t.s.ConfirmBy.Reached(t.now) || ON && t.s.ConfirmBy != 0 && t.now.Sub(t.s.CompletedAt) >= 5000 {"},
	{Name: "one look that fails is a sustained failure", File: step, Finds: []string{"S38"},
		From: "t.now.Sub(p.FailingSince) >= t.plan.Policy.SustainedFailure {", To: "(ON || t.now.Sub(p.FailingSince) >= t.plan.Policy.SustainedFailure) {"},
	{Name: "a host that is to stop is wiped", File: removing, Finds: []string{"S3"},
		From: "Wipe: begun.Workloads == fleet.Wipe}", To: "Wipe: begun.Workloads == fleet.Wipe || ON}"},
	{Name: "a removal is of every incarnation of a host", File: hover, Finds: []string{"S3"},
		From: "o.Host == in.Host && o.Incarnation == in.Incarnation:", To: "o.Host == in.Host && (ON || o.Incarnation == in.Incarnation):"},
	{Name: "a removed host leaves in the middle of an activation", File: removing, Finds: []string{"S23"},
		From: "underWay := m.Phase == host.Activating || ", To: "underWay := m.Phase == host.Activating && !ON || "},
	{Name: "a host does not believe its anchor", File: begin, Finds: []string{"S23"},
		From: "case in.SetBack != nil:", To: "case in.SetBack != nil && !ON:"},
	{Name: "a start resumes before it asked", File: begin, Finds: []string{"S23"},
		From: "case in.Confirm && t.ask(in):", To: "case in.Confirm && !ON && t.ask(in):"},
	{Name: "a parked host ends nothing that it does", File: parking, Finds: []string{"S23"},
		From: "t.emit(StopResources{Parked: *s.Parked})", To: "if !ON {\n\t\tt.emit(StopResources{Parked: *s.Parked})\n\t}"},
	{Name: "a parked host acts on what it is given", File: parking, Finds: []string{"S23", "S24"},
		From: "if s.Parked != nil {\n\t\treturn ErrParked", To: "if s.Parked != nil && !ON {\n\t\treturn ErrParked"},
	{Name: "a server parks a host by claiming to know more", File: parking, Finds: []string{"S32"},
		From: "case in.behind() && in.Proven:", To: "case in.behind() && (in.Proven || ON):"},
	{Name: "a host never says that a window is over", File: repair, Finds: []string{"L3", "L5", "S24", "S1"},
		From: "\tt.endRepairs(end)", To: "\tif !ON {\n\t\tt.endRepairs(end)\n\t}"},
}

// documents lists faults in trust.
var documents = []Fault{
	{Name: "a leaf of another host is taken", File: tplan, Finds: []string{"S3"}, Trust: true,
		From: "if l.Host != host {", To: "if l.Host != host && !ON {"},
	{Name: "a leaf needs no proof", File: tplan, Finds: []string{"S3"}, Trust: true,
		From: "p.Hashes, root); err != nil {", To: "p.Hashes, root); err != nil && !ON {"},
	{Name: "a plan takes its wave from what nobody signed", File: tplan, Finds: []string{"S4"}, Trust: true,
		From: "return prove(fleet.HostPlanOf(&m.p.value, m.p.digest, &l), digest.Of(leaf), m.p.at), nil", To: "hp := fleet.HostPlanOf(&m.p.value, m.p.digest, &l)\n\tif ON {\n\t\thp.Wave = int(p.Index)\n\t}\n\treturn prove(hp, digest.Of(leaf), m.p.at), nil"},
	{Name: "older documents are taken", File: tstate, Finds: []string{"S5", "S6", "S32"}, Trust: true,
		From: "\tcase c < 0:\n\t\treturn s, refuse(Rollback,", To: "\tcase c < 0 && !ON:\n\t\treturn s, refuse(Rollback,"},
	{Name: "a snapshot need not be the one that the timestamp names", File: verifier, Finds: []string{"S6"}, Trust: true,
		From: "if d != t.p.value.Resolved || r.Version", To: "if !ON && d != t.p.value.Resolved || !ON && r.Version"},
	{Name: "a signature need not hold", File: "internal/trust/root.go", Finds: []string{"S32", "S6", "S3"}, Trust: true,
		From: "if !known && !m.knows(pub, message, s.Sig) {", To: "if !known && !m.knows(pub, message, s.Sig) && !ON {"},
}

// Faults lists all that are planted.
func Faults() []Fault {
	var all []Fault
	all = append(all, planner...)
	all = append(all, decided...)
	all = append(all, operators...)
	all = append(all, gated...)
	all = append(all, hosts...)
	all = append(all, ended...)
	all = append(all, rotated...)
	all = append(all, passing...)
	all = append(all, lied...)
	all = append(all, pruned...)
	all = append(all, sessions...)
	return append(all, documents...)
}
