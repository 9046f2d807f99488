package rollout

import "github.com/steadyfleet/steady/internal/core/prose"

// Statuses of a rollout that are no phases: it did not open yet, or something lies over its phase.
const (
	StatusQueued    = "queued"
	StatusPaused    = "paused"
	StatusReverting = "reverting"
	StatusCancelled = "cancelled"
	StatusHalted    = "halted" // phase Failed, which an operator may still resume
	StatusDone      = "done"   // phase Terminal
	// StatusRevertFailed is the phase Reverted of a rollout of which hosts did not go back.
	StatusRevertFailed = "revert failed"
)

// StatusMeanings are the statuses of a rollout: its phases, and what lies over them.
var StatusMeanings = []prose.Meaning{
	{Word: StatusQueued, Means: "a release lists it, and it waits for the active rollout of its channel or for a channel that goes first", Next: "opening; only the newest of a channel waits"},
	{Word: string(Opening), Means: "it was just opened, and gave out nothing", Next: "active; halted, if a required control fails"},
	{Word: string(Active), Means: "its open wave is given grants, as far as gates allow", Next: "the next wave, converging, halted or reverted"},
	{Word: string(Converging), Means: "every host of the last wave is on its way", Next: "done, halted or reverted"},
	{Word: StatusPaused, Means: "an operator or the audit stopped its grants; hosts on their way finish", Next: "`steady rollout resume` or `cancel`"},
	{Word: StatusReverting, Means: "too many hosts failed, or an operator signed a rollback: its hosts are sent back", Next: "reverted"},
	{Word: StatusHalted, Means: "too many hosts failed, and the policy or silence forbids sending others back; or its controls block it: nothing is granted until a person decides", Next: "`steady rollout resume`, `retry` or `cancel`, or a release that replaces it"},
	{Word: StatusCancelled, Means: "an operator ended it: nothing new is granted, and hosts on their way finish", Next: "a release that replaces it"},
	{Word: string(Reverted), Means: "every host of it that is in contact or acted on it went back", Next: "a release that replaces it, or `steady rollout retry`"},
	{Word: StatusRevertFailed, Means: "its revert is over, and hosts did not go back: they could not, or were given up", Next: "`steady why HOST` and `steady host retry HOST`; a release that replaces it"},
	{Word: StatusDone, Means: "it has converged, and is what hosts that return are given", Next: "nothing"},
	{Word: string(Superseded), Means: "a newer one of the channel replaced it", Next: "nothing"},
	{Word: string(Pruned), Means: "it was over for longer than the server's `--retention`, or 50 later ones of its channel opened; one row is left", Next: "nothing"},
}

// MemberMeanings are the statuses of a host in a rollout, in the order of Status.
var MemberMeanings = []prose.Meaning{
	{Word: Waiting.String(), Means: "it is to run the bundle and a gate blocks it, or it is away", Next: "`steady why HOST` says for what it waits"},
	{Word: AtTarget.String(), Means: "it ran the bundle already; it proves nothing", Next: "nothing"},
	{Word: Busy.String(), Means: "it is to run the bundle and has to end something else first", Next: "waiting, once that is over"},
	{Word: Offered.String(), Means: "it was offered a grant and did not claim it yet", Next: "claimed; or waiting, when the grant expires"},
	{Word: Claimed.String(), Means: "the server took its claim: it activates, soaks, or waits for its reboot", Next: "converged or failed"},
	{Word: Converged.String(), Means: "it runs the bundle and was healthy all through its soak: the only evidence that promotes a wave", Next: "nothing"},
	{Word: Broken.String(), Means: "its activation failed, or it was given up: it is on its way back, or could not go, and keeps its slot", Next: "reverted; else `steady why HOST`"},
	{Word: Refused.String(), Means: "it does not take the bundle; nothing changed there", Next: "`steady why HOST` says why; a release with another bundle"},
	{Word: RolledBack.String(), Means: "it runs its earlier bundle again after a failure, and what failed is quarantined on it", Next: "a release that mends the bundle"},
	{Word: Ahead.String(), Means: "it went on to a newer rollout, and takes no older one", Next: "nothing"},
	{Word: Absent.String(), Means: "it never enrolled, or is decommissioned: it counts for nothing", Next: "`steady token create HOST`, if it is meant to be there"},
}

// The states of a wave.
const (
	WaveClosed   = "closed"
	WaveOpen     = "open"
	WavePromoted = "promoted"
	WaveForced   = "forced"
	WaveOver     = "over"
)

// WaveMeanings are the states of a wave.
var WaveMeanings = []prose.Meaning{
	{Word: WaveClosed, Means: "an earlier wave is open, and no host of this one is granted the target", Next: "open, when that one is promoted"},
	{Word: WaveOpen, Means: "its hosts are granted the target, as far as gates allow", Next: "promoted, when enough of its hosts converged; `steady rollout promote` passes it before"},
	{Word: WavePromoted, Means: "enough of its hosts converged", Next: "nothing"},
	{Word: WaveForced, Means: "an operator or a signed override let it pass before it was proven", Next: "nothing"},
	{Word: WaveOver, Means: "the rollout ended while it was open", Next: "nothing"},
}

// WaveState is the state of a wave.
func (r *Rollout) WaveState(i int) string {
	switch {
	case i > r.Cursor:
		return WaveClosed
	case r.Forced(i) != nil:
		return WaveForced
	case i < r.Cursor, r.Phase == Terminal:
		return WavePromoted
	case r.EndedAt != 0:
		return WaveOver
	}
	return WaveOpen
}
