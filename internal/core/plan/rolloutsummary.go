package plan

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/status"
)

// rolloutLevels is how bad a rollout's status is, of the newest of its channel.
var rolloutLevels = map[string]status.Level{
	rollout.StatusQueued:       status.Waiting,
	rollout.StatusPaused:       status.Warning,
	rollout.StatusReverting:    status.Critical,
	rollout.StatusCancelled:    status.Waiting,
	rollout.StatusHalted:       status.Critical,
	string(rollout.Opening):    status.Busy,
	string(rollout.Active):     status.Busy,
	string(rollout.Converging): status.Busy,
	rollout.StatusDone:         status.OK,
	rollout.StatusRevertFailed: status.Critical,
	string(rollout.Reverted):   status.Critical,
	string(rollout.Superseded): status.Waiting,
	string(rollout.Pruned):     status.Waiting,
}

// RolloutSummary is how a rollout is: its phase with what lies over it, and no better than its
// hosts. A rollout with a newer one of its channel needs no person.
func (s *State) RolloutSummary(r *rollout.Rollout, now clock.Instant) status.Summary {
	out := status.Summary{Word: Status(r), Since: cmp.Or(r.EndedAt, r.OpenedAt)}
	out.Level = rolloutLevels[out.Word]
	out.Reason = r.Reason
	if c := s.Channels[r.Channel]; c == nil || c.Latest != r.Manifest {
		if out.Level.NeedsPerson() {
			out.Level = status.Waiting
		}
		return out
	}
	switch out.Word {
	case rollout.StatusPaused:
		out.Reason, out.Who, out.Next = r.PauseReason, status.Operator, []status.Remedy{status.Do(status.RolloutResume, r.Name), status.Do(status.RolloutCancel, r.Name)}
	case rollout.StatusHalted:
		out.Who, out.Next = status.Operator, []status.Remedy{status.Do(status.RolloutResume, r.Name), status.Do(status.RolloutRetry, r.Name), status.Do(status.RolloutCancel, r.Name), status.Do(status.ReleasePublish)}
		if len(s.Verdicts[r.Manifest]) > 0 { // nothing but another release passes
			out.Who, out.Next = status.Releaser, []status.Remedy{status.Do(status.ReleasePublish)}
		}
	case rollout.StatusReverting, rollout.StatusRevertFailed, string(rollout.Reverted):
		out.Who, out.Next = status.Releaser, []status.Remedy{status.Do(status.ReleasePublish), status.Do(status.RolloutRetry, r.Name)}
	}
	if r.Plan == nil {
		return out
	}
	b := FirstBlock(s, r, now)
	if b != nil && !r.Phase.Ended() && !r.Paused {
		out.Reason = b.Message
	}
	if from := blockedFrom(r, b); from != 0 && from.Reached(now) && !out.Level.NeedsPerson() {
		out.Level, out.Since, out.Who = status.Warning, r.BlockedSince, status.Operator
		out.Next = []status.Remedy{status.Do(status.RolloutShow, r.Name), status.Do(status.RolloutPromote, r.Name), status.Do(status.RolloutCancel, r.Name)}
	}
	if failed := s.firstFailure(r); failed != "" {
		out.Reason = prose.Clauses(out.Reason, failed)
		if !out.Level.NeedsPerson() && r.Total().By[rollout.Broken]+r.Total().By[rollout.RolledBack] > 0 {
			out.Level, out.Who, out.Next = status.Warning, status.Releaser, []status.Remedy{status.Do(status.RolloutShow, r.Name), status.Do(status.ReleasePublish)}
		}
	}
	return out
}

// BlockedFor is how long the open wave of a rollout may be blocked before a person is needed, beyond what
// time alone is known to end.
const BlockedFor = 6 * clock.Hour

// blockedFrom is when a rollout whose open wave is blocked begins to need a person; zero where none is.
func blockedFrom(r *rollout.Rollout, b *gate.Block) clock.Instant {
	if b == nil || r.BlockedSince == 0 || r.Phase.Ended() || r.Paused {
		return 0
	}
	return max(r.BlockedSince, b.Earliest).Add(BlockedFor)
}

// firstFailure names the host that failed first in a rollout and why; empty where none did.
func (s *State) firstFailure(r *rollout.Rollout) string {
	t := r.Total()
	if t.Failures == 0 {
		return ""
	}
	name, why, first := "", "", clock.Instant(0)
	for i := range r.Members {
		m, h := &r.Members[i], s.Hosts[r.Plan.Leaves[i].Host]
		if !m.Failed && m.Refused == "" || h == nil {
			continue
		}
		at, words := clock.Instant(0), prose.Reason(m.Refused)
		if hm := &h.Machine; hm.Manifest == r.Manifest {
			at, words = h.Clock.onServer(hm.FailedAt), cmp.Or(s.hostReason(h, StateFailed), words)
		}
		if name == "" || at != 0 && (first == 0 || at < first) {
			name, why, first = h.Name, words, at
		}
	}
	if name == "" {
		return ""
	}
	return prose.Clauses("host "+name+" failed first: "+why, others(t.Failures-1))
}

func others(n int) string {
	if n <= 0 {
		return ""
	}
	return prose.Count(n, "other host") + " failed as well"
}

// inTrouble reports whether a rollout is the newest of its channel and stopped by failures, so that
// what its hosts came to is told with it.
func (s *State) inTrouble(r *rollout.Rollout) bool {
	c := s.Channels[r.Channel]
	return c != nil && c.Latest == r.Manifest && !r.Final && (r.Reverting || r.Phase == rollout.Failed || r.Phase == rollout.Reverted)
}

// QueuedSummary is how a rollout is that has not opened.
func QueuedSummary(q Queued) status.Summary {
	out := status.Summary{Word: rollout.StatusQueued, Level: status.Waiting, Since: q.Since}
	if q.Block != nil {
		out.Reason = q.Block.Message
	}
	return out
}

// PrunedSummary is how a rollout was of which one row is left.
func PrunedSummary(r PrunedRollout) status.Summary {
	return status.Summary{Word: string(rollout.Pruned), Level: status.Waiting, Since: r.EndedAt, Reason: "it ended " + string(r.Phase) + "; the log has the rest"}
}

// WaveSummary is how a wave of a rollout with a plan is: no better than its hosts.
func WaveSummary(r *rollout.Rollout, i int) status.Summary {
	n := &r.Waves[i]
	out := status.Summary{Word: r.WaveState(i), Level: status.Waiting}
	switch out.Word {
	case rollout.WaveOpen:
		out.Level = status.Busy
	case rollout.WavePromoted, rollout.WaveForced:
		out.Level = status.OK
	}
	if bad := n.By[rollout.Broken] + n.By[rollout.RolledBack] + n.By[rollout.Refused] + n.Unfit; bad > 0 {
		out.Level, out.Reason = status.Warning, prose.Count(bad, "host")+prose.Verb(bad, " does", " do")+" not run the target as "+prose.Verb(bad, "it", "they")+" should"
	}
	return out
}
