package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// A host's own clock rules its machine, and a host may lie or hang while it keeps
// its heartbeats up. The server's clock bounds both: what a host does of a rollout
// ends by a deadline, and its soak is no evidence before it has passed since the claim.

// reportPatience is how long a report may take beyond all that a policy allows: as
// long as silence takes to be noticed.
const reportPatience = 3 * clock.Minute

// mostWork is how many times that a host may take for all of it, whatever it reports.
const mostWork = 4

// unknownWork is all the time where nobody has the plan by which the host says that it acts.
const unknownWork = 30 * clock.Minute

// Work is when a host began what it does, on the server's clock.
type Work struct {
	// Manifest and ClaimedAt are of the newest claim of a rollout's target.
	Manifest  digest.Digest `json:"manifest,omitempty"`
	ClaimedAt clock.Instant `json:"claimedAt,omitempty"`
	// Since is when the newest claim or report of progress came. Progress says that
	// a report came whose instant the head that follows it tells.
	Since clock.Instant `json:"since,omitempty"`
	// Began is when the newest claim came, of whatever part of a rollout.
	Began    clock.Instant `json:"began,omitempty"`
	Progress bool          `json:"progress,omitempty"`
	// Returned is when it was last heard again after a silence.
	Returned clock.Instant `json:"returned,omitempty"`
}

// claimed notes the claim of a grant.
func (s *State) claimed(h *Host, at clock.Instant) {
	s.began(h, h.Grant.Manifest, h.Grant.Purpose, at)
}

func (s *State) began(h *Host, manifest digest.Digest, purpose host.Purpose, at clock.Instant) {
	if purpose == host.Update {
		h.Work.Manifest, h.Work.ClaimedAt = manifest, at
	}
	h.Work.Since, h.Work.Began, h.Work.Progress = at, at, false
}

// progress reports whether a step began something that has a time of its own: another
// phase, a soak from its start, a reboot, another attempt to go back.
func progress(before, after *host.State) bool {
	return before.Phase != after.Phase || before.SoakFrom != after.SoakFrom || before.Reboot != after.Reboot ||
		before.RevertFailures != after.RevertFailures || before.Grant != after.Grant
}

// stepped notes a report of the host's machine. One that was given up while it was
// there is taken back by progress alone, which the head that follows dates.
func (h *Host) stepped(before *host.State) {
	h.Work.Progress = h.Work.Progress || progress(before, &h.Machine)
	if !h.Overdue {
		h.SilentFailure = false
	}
}

// takesBack reports whether progress at an instant takes back a host that was given up: it is
// through with what it did, or has time left for it.
func (s *State) takesBack(h *Host, at clock.Instant) bool {
	return h.Overdue && !h.repairsOnly() && (!h.Acting() || at < h.Work.Began.Add(s.mostOf(h)))
}

// mostOf is all the time that a host may take for what it does, whatever it reports.
func (s *State) mostOf(h *Host) clock.Duration {
	if s.hostPlan(h, h.actsFor()) == nil {
		return unknownWork
	}
	return mostWork * s.whole(h)
}

// whole is the time that a host may take without progress.
func (s *State) whole(h *Host) clock.Duration {
	p := s.hostPlan(h, h.actsFor())
	if p == nil {
		return unknownWork
	}
	return p.Policy.ActivationDeadline + p.Policy.ConfirmWindow + p.Soak + reportPatience
}

// reported dates what a batch of reports told of: progress, and that the host converged where
// nobody knows of its claim, whose soak passes from then on.
func (s *State) reported(h *Host, at clock.Instant) {
	if m := &h.Machine; m.Phase == host.Converged && h.Work.Manifest != m.Manifest && (h.Grant == nil || !h.Grant.Claimed) {
		h.Work.Manifest, h.Work.ClaimedAt = m.Manifest, at
		if r := s.Rollouts[m.Manifest]; r != nil {
			s.soakedFirst(h, r)
		}
	}
	if h.Work.Progress {
		h.Work.Since, h.Work.Progress = at, false
		if h.Work.Began == 0 { // a claim that nobody knows of
			h.Work.Began = at
		}
		if s.takesBack(h, at) {
			h.SilentFailure, h.Overdue = false, false
		}
		s.refresh(h)
	}
}

// foldResumed gives every host that acts time to report.
func (s *State) foldResumed(at clock.Instant) {
	s.Resumed = at
	for _, h := range s.Hosts { // order-free: each has a time of its own
		s.wakeGivenUp(h)
	}
}

// ActsAny reports whether a host does something that it has to report by a time.
func (s *State) ActsAny() bool {
	for _, h := range s.Hosts { // order-free
		if h.Acting() || h.repairsOnly() {
			return true
		}
	}
	return false
}

// givenUp is when what a host does of a rollout is given up unless it reports; zero when
// nothing is waited for. Overdue says that the host need not be silent for it. A server that
// was away itself listens for a while first.
func (s *State) givenUp(h *Host) (at clock.Instant, overdue bool) {
	if !h.Acting() && !h.repairsOnly() || h.Overdue {
		return 0, false
	}
	p := s.hostPlan(h, h.actsFor())
	confirm := clock.Duration(0)
	if p != nil {
		confirm = p.Policy.ConfirmWindow
	}
	at, overdue = s.patience(h, p, confirm)
	if at != 0 && s.Resumed != 0 {
		at = max(at, s.Resumed.Add(confirm+reportPatience))
	}
	return at, overdue
}

// patience is givenUp by a server that never was away.
func (s *State) patience(h *Host, p *fleet.HostPlan, confirm clock.Duration) (at clock.Instant, overdue bool) {
	whole := s.whole(h)
	if h.repairsOnly() { // which nobody waits for while it is silent
		if h.Work.Began == 0 || !h.Online {
			return 0, false
		}
		return h.Work.Began.Add(whole), true
	}
	if h.SilentSince != 0 && !h.SilentFailure {
		at = h.SilentSince
		if p != nil {
			at = at.Add(h.absence(&p.Policy))
		}
	}
	staged := h.Machine.Staged() && (h.rolloutGrant() == nil || !h.Grant.Claimed)
	if h.Work.Since == 0 || staged || h.SilentFailure && !h.Online {
		return at, false
	}
	due := max(h.Work.Since.Add(whole), h.Work.Returned.Add(confirm+reportPatience))
	if h.Work.Began != 0 {
		due = min(due, h.Work.Began.Add(s.mostOf(h)))
	}
	if at == 0 || due < at {
		return due, h.Online
	}
	return at, false
}

// wakeGivenUp has a host looked at when it is to be given up.
func (s *State) wakeGivenUp(h *Host) {
	if at, _ := s.givenUp(h); at != h.givenUpAt {
		h.givenUpAt = at
		s.wake(at, h.Name)
	}
}

// soakEnds is when the soak of a host in a rollout has passed since its claim on the
// server's clock, which no rollout had before it opened; zero when nothing dates the claim.
func (h *Host) soakEnds(r *rollout.Rollout, wave int) clock.Instant {
	if h.Work.Manifest != r.Manifest || h.Work.ClaimedAt == 0 {
		return 0
	}
	return max(h.Work.ClaimedAt, r.OpenedAt).Add(r.Plan.Header.Waves[wave].Soak)
}

// soakedFirst notes from when on a host that converged is a canary that did.
func (s *State) soakedFirst(h *Host, r *rollout.Rollout) {
	if h.Work.Manifest != r.Manifest {
		return // the head that follows dates it
	}
	at := clock.Instant(1)
	if r.Plan != nil {
		if i, ok := r.Plan.Leaf(h.Name); ok {
			at = max(at, h.soakEnds(r, r.Plan.Leaves[i].Wave))
		}
	}
	if r.SoakedAt == 0 || at < r.SoakedAt {
		r.SoakedAt = at
		s.dirty[r.Channel] = true
		if r.Plan != nil && r.CanaryMax() > 0 {
			s.wakeAt(at, timer{channel: r.Channel})
		}
	}
}

// soakUntil is when the soak of every host that converged up to the open wave has
// passed on the server's clock.
func (s *State) soakUntil(r *rollout.Rollout) clock.Instant {
	var until clock.Instant
	for i := range r.Members {
		if leaf := &r.Plan.Leaves[i]; leaf.Wave <= r.Cursor && r.Members[i].Status == rollout.Converged {
			if h := s.Hosts[leaf.Host]; h != nil {
				until = max(until, h.soakEnds(r, leaf.Wave))
			}
		}
	}
	return until
}
