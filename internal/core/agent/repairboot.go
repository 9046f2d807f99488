package agent

import "github.com/steadyfleet/steady/internal/core/event"

// A repair that can only be staged while the machine runs does not keep the window of its grant
// open: it ends, gives its place back, and asks for another one whose need names the reboot. In
// that window the machine is rebooted once. Where what it staged still waits for a reboot then, the
// repair failed, and no other reboot is asked for until somebody else boots the machine or another
// generation comes.

// asksReboot reports whether repairs wait for a reboot that is to be asked for.
func (t *turn) asksReboot(in *RepairsObserved) bool {
	futile := t.s.Repairs.Futile
	return len(in.Staged) > 0 && (futile == "" || futile != t.s.Machine.BootID)
}

// rebootRepairs goes on in an open window in which everything waits for a reboot.
func (t *turn) rebootRepairs(in *RepairsObserved) {
	r, boot := &t.s.Repairs, t.s.Machine.BootID
	end := event.RepairOver{Grant: r.Grant, OK: true, Detail: "waits for a reboot: " + in.Component}
	switch asked := r.Need != nil && r.Need.Reboot != "" && !r.Closing; {
	case asked && r.Reboot == "", r.Reboot != "" && r.Reboot == boot && !t.s.rebooting:
		r.Reboot, t.s.rebooting = boot, true
		t.emit(BeginReboot{Reason: in.Component})
		return
	case r.Reboot != "" && r.Reboot == boot:
		return // the machine goes down, or the time ends
	case r.Reboot != "":
		end.OK, end.Detail = false, in.Component+" still needs a reboot after one"
	default:
		r.ReportedAt = 0 // it is news whatever was reported before, and there is one of it for each grant
	}
	t.closeRepairs(in, end)
}

// Rebooting reports whether the machine may be rebooted now: for what it activates or goes back to,
// or to repair what it runs.
func (s *State) Rebooting() bool {
	return s.Machine.Rebooting() || s.Repairs.Grant != "" && s.Repairs.Reboot != "" && s.Repairs.Reboot == s.Machine.BootID
}

// repairRebootFailed ends the window whose reboot could not be started.
func (t *turn) repairRebootFailed(detail string) {
	t.Save = true
	t.closeRepairs(&RepairsObserved{}, event.RepairOver{Grant: t.s.Repairs.Grant, Detail: "the reboot could not be started: " + detail})
	t.observe()
}
