package session

import (
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// StateMeanings are the states of sessions, in the order in which one goes through them.
var StateMeanings = []prose.Meaning{
	{Word: string(Pending), Means: "a pod of it waits for a host", Next: "its reason says what is missing, and when there is room"},
	{Word: string(Scheduled), Means: "its hosts are booked, and its time has not come", Next: "Provisioning, at the beginning of its timeslot"},
	{Word: string(Provisioning), Means: "it comes up", Next: "Ready, or Running once it has started; Failed, if a part fails and onFailure is abort"},
	{Word: string(Ready), Means: "all of it runs, before its start", Next: "Running, at its start"},
	{Word: string(Running), Means: "it has started", Next: "Stopping, at its end; steady session extend moves that"},
	{Word: string(Degraded), Means: "it runs, with a part that failed and that onFailure accepts", Next: "the reason of the part, and steady session retry-phase for a phase that failed"},
	{Word: string(Stopping), Means: "it is being removed from its hosts", Next: "Retired; Orphaned, if something of it cannot be cleaned up by its deadline"},
	{Word: string(Retired), Means: "nothing of it is left", Next: "nothing: it is forgotten a week later"},
	{Word: string(Failed), Means: "a part failed, and onFailure is abort", Next: "the reason of the part; steady attention ack once somebody has looked"},
	{Word: string(Orphaned), Means: "something of it could not be cleaned up in time", Next: "it ends on its host by the host's own clock; steady session reconcile once the host is back"},
}

// RowMeanings are the phases of the rows of parts and pods.
var RowMeanings = []prose.Meaning{
	{Word: string(engine.Pending), Means: "it was asked for, and not checked yet", Next: "nothing, or what it waits for, which its reason says"},
	{Word: string(engine.Acting), Means: "something is being done for it", Next: "verifying"},
	{Word: string(engine.Verifying), Means: "what was done is being checked", Next: "converged, or retrying"},
	{Word: string(engine.Retrying), Means: "what was tried failed, and is tried again after a while", Next: "its reason says what failed"},
	{Word: string(engine.Waiting), Means: "it waits for something else, or what is below it is on its way", Next: "its reason says what it waits for"},
	{Word: string(engine.Converged), Means: "it is as it is to be, and so is all below it", Next: "nothing"},
	{Word: string(engine.Degraded), Means: "something below it failed, and onFailure accepts that", Next: "the reason of what failed"},
	{Word: string(engine.Drifted), Means: "it was as it is to be, and is not any more", Next: "its reason says what differs"},
	{Word: string(engine.Deleting), Means: "it is being removed", Next: "deleted"},
	{Word: string(engine.Failed), Means: "it was given up", Next: "its reason says why; steady session start after steady session stop has a part begin anew"},
	{Word: string(engine.Deleted), Means: "nothing of it is left", Next: "nothing"},
	{Word: string(engine.Orphaned), Means: "it could not be cleaned up in time", Next: "it ends on its host by the host's own clock; steady session reconcile once the host is back"},
}

// PhaseMeanings are where phases stand.
var PhaseMeanings = []prose.Meaning{
	{Word: PhasePending, Means: "the pods of its part are not ready, or a phase before it is not over", Next: "running"},
	{Word: PhaseRunning, Means: "its job was asked for, or is about to be; it awaits its event", Next: "over, or failed"},
	{Word: PhaseFailed, Means: "its job was refused or failed, or no event came in time", Next: "steady session retry-phase has it begin anew"},
	{Word: PhaseOver, Means: "its event came, or its job was accepted or done", Next: "nothing"},
	{Word: PhaseGone, Means: "it was removed with its part before it was over", Next: "nothing; steady session start has a part that was stopped begin anew"},
}
