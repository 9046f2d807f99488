package host

// A part of a system that cannot be switched while it runs is staged: the host is
// Deferred, holds its slot, and changes nothing more until it is rebooted. The
// reboot waits for a grant of purpose Reboot, also when the activation was granted
// long ago. What boots is observed like any activation. A host that is rebooted by
// somebody else meanwhile boots what is staged and goes on in the same way.
//
// A host on its way back that needs a reboot takes it without a grant: it failed,
// or was ordered back and claimed that; it holds its slot either way.

// RebootClaimed says that the server acknowledged the claim of a Reboot grant.
type RebootClaimed struct {
	Grant string `json:"grant"`
}

// RebootFailed says that the reboot could not be started although it was tried
// again and again.
type RebootFailed struct {
	Detail string `json:"detail"`
}

// RevertDeferred says that the earlier bundle is staged and needs a reboot because
// Component cannot be switched while it runs.
type RevertDeferred struct {
	Component string `json:"component"`
}

// Kind names of the variants, part of the event vocabulary.
func (RebootClaimed) Kind() string  { return "reboot-claimed" }
func (RebootFailed) Kind() string   { return "reboot-failed" }
func (RevertDeferred) Kind() string { return "revert-deferred" }

// BeginReboot starts the reboot of the machine. It is repeated when the agent restarts
// in the same boot.
type BeginReboot struct{ Reason string }

// Run calls the variant's method.
func (e BeginReboot) Run(h Effects) error { return h.BeginReboot(e) }

// Staged reports whether a reboot waits for its grant.
func (s *State) Staged() bool { return s.Phase == Deferred && s.Reboot == "" }

// Rebooting reports whether the host may be away for a reboot of its own.
func (s *State) Rebooting() bool {
	return s.Phase == Deferred && s.Reboot != "" || s.Phase == Failed && s.Reverting && s.Deadline != 0
}

func (in ActivationDeferred) accept(t *turn) error {
	if t.s.Phase != Activating {
		return t.illegal(in, "no activation is under way")
	}
	if t.s.Rebooted { // a host must not reboot again and again
		t.fail(ActivationFailedCause, in.Component+" still needs a reboot after one")
		return nil
	}
	t.s.Phase, t.s.Deadline, t.s.Detail = Deferred, 0, in.Component
	return nil
}

func (in RebootClaimed) accept(t *turn) error {
	if t.s.Phase == "" || t.s.Phase == Pending {
		return t.illegal(in, "nothing is staged")
	}
	staged := t.s.Staged()
	t.s.Reboot = in.Grant
	if staged { // else it was met or overtaken while it was claimed, and the grant is answered
		t.s.Deadline = t.now.Add(t.plan.Policy.ActivationDeadline)
		t.emit(BeginReboot{Reason: t.s.Detail})
	}
	return nil
}

func (in RebootFailed) accept(t *turn) error {
	switch {
	case t.s.Phase == Deferred && t.s.Reboot != "":
		t.fail(RebootNotDone, in.Detail)
	case t.s.Phase == Failed && t.s.Reverting && t.s.Deadline != 0:
		return RevertFailed{Code: string(RebootNotDone), Detail: in.Detail}.accept(t)
	default:
		return t.illegal(in, "no reboot is under way")
	}
	return nil
}

func (in RevertDeferred) accept(t *turn) error {
	if t.s.Phase != Failed || !t.s.Reverting {
		return t.illegal(in, "no revert is under way")
	}
	if t.s.Rebooted {
		return RevertFailed{Code: string(RebootNotDone), Detail: in.Component + " still needs a reboot after one"}.accept(t)
	}
	t.s.Deadline = t.now.Add(t.plan.Policy.ActivationDeadline)
	t.emit(BeginReboot{Reason: in.Component})
	return nil
}

// overdue ends a reboot that does not come.
func (t *turn) overdue() {
	detail := "not rebooted within " + t.plan.Policy.ActivationDeadline.String()
	if t.s.Phase == Deferred {
		t.fail(RebootNotDone, detail)
		return
	}
	_ = RevertFailed{Code: string(RebootNotDone), Detail: detail}.accept(t) // legal: it is reverting
}

// bootedStaged takes a start of the agent while a reboot is waited for.
func (t *turn) bootedStaged(another bool) {
	switch {
	case another:
		t.s.Phase, t.s.Rebooted, t.s.Deadline = Activating, true, t.now.Add(t.plan.Policy.ActivationDeadline)
		t.emit(Activate{Target: t.s.Target, Deadline: t.s.Deadline})
	case t.s.Reboot != "":
		t.emit(BeginReboot{Reason: t.s.Detail})
	}
}
