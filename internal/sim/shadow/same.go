package shadow

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// What follows compares field by field: it runs after every event of every
// schedule, and reflection would cost more than all other checks. That no field is
// left out is TestEveryFieldCounts.

// differ names a part in which two states are not the same, or is empty.
func differ(a, b *plan.State) string {
	if differs := top(a, b); differs != "" {
		return differs
	}
	for name, h := range a.Hosts { // order-free: any that differs will do
		if !sameHost(h, b.Hosts[name]) {
			return "host " + name
		}
	}
	for name, c := range a.Channels { // order-free: any that differs will do
		if !sameChannel(c, b.Channels[name]) {
			return "channel " + name
		}
	}
	for d, r := range a.Rollouts { // order-free: any that differs will do
		if !sameRollout(r, b.Rollouts[d]) || !maps.Equal(r.Marks, b.Rollouts[d].Marks) {
			return "rollout " + d.Short()
		}
	}
	return rest(a, b)
}

// top compares what costs next to nothing, and how many there are of the others.
func top(a, b *plan.State) string {
	switch x, y := &a.Release, &b.Release; {
	case a.Root != b.Root, a.Timestamp != b.Timestamp, a.Elapsed != b.Elapsed:
		return "what is known of root and time"
	case a.Grants != b.Grants, a.Repairs != b.Repairs, a.Signed != b.Signed:
		return "a count of grants, repairs or words"
	case x.Version != y.Version, x.Epoch != y.Epoch, x.Ref != y.Ref, x.Resolved != y.Resolved, x.Roster != y.Roster, x.At != y.At,
		len(x.Envelopes) != len(y.Envelopes):
		return "the newest release"
	case len(a.Hosts) != len(b.Hosts), len(a.Channels) != len(b.Channels), len(a.Rollouts) != len(b.Rollouts), len(a.Order) != len(b.Order),
		len(a.Edges) != len(b.Edges), len(a.Pruned) != len(b.Pruned), len(a.Tokens) != len(b.Tokens), len(a.Operators) != len(b.Operators),
		len(a.Verdicts) != len(b.Verdicts), len(a.Overrides.Newest) != len(b.Overrides.Newest), len(a.Sources) != len(b.Sources):
		return "the number of something"
	}
	return ""
}

// rest compares what changes seldom.
func rest(a, b *plan.State) string {
	switch {
	case !maps.Equal(a.Release.Envelopes, b.Release.Envelopes):
		return "the newest release"
	case !slices.Equal(a.Order, b.Order), !slices.Equal(a.Pruned, b.Pruned):
		return "the order of rollouts"
	case !slices.Equal(a.Edges, b.Edges):
		return "the edges"
	case !maps.Equal(a.Tokens, b.Tokens), !maps.EqualFunc(a.Operators, b.Operators, sameOperator):
		return "the tokens"
	case !maps.EqualFunc(a.Overrides.Newest, b.Overrides.Newest, sameWord):
		return "what is signed"
	case !maps.EqualFunc(a.Verdicts, b.Verdicts, slices.Equal[[]string]):
		return "what is judged"
	case !maps.EqualFunc(a.Sources, b.Sources, sameSource):
		return "the sources"
	case !maps.Equal(a.Expiries, b.Expiries):
		return "the warnings"
	}
	return ""
}

func sameOperator(a, b access.Token) bool {
	hash, other := a.Hash, b.Hash
	a.Hash, b.Hash = nil, nil
	return reflect.DeepEqual(a, b) && bytes.Equal(hash, other)
}

func sameSource(a, b plan.Source) bool { return same(a.Fetch, b.Fetch) && same(a.Verify, b.Verify) }

// sameWord may take its time: words are few.
func sameWord(a, b override.Taken) bool {
	critical := slices.Equal(a.Critical, b.Critical)
	a.Critical, b.Critical = nil, nil
	return critical && reflect.DeepEqual(a, b)
}

func sameHost(a, b *plan.Host) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Incarnation == b.Incarnation && a.TokenDoc == b.TokenDoc && a.Serial == b.Serial && a.PrevSerial == b.PrevSerial &&
		a.NotAfter == b.NotAfter && a.IssuedAt == b.IssuedAt && a.RevokedBefore == b.RevokedBefore && a.Seq == b.Seq && a.Online == b.Online &&
		a.Clock == b.Clock && a.LastSeen == b.LastSeen && a.SilentSince == b.SilentSince && a.SilentFailure == b.SilentFailure && a.Overdue == b.Overdue && a.Work == b.Work && a.Forked == b.Forked &&
		a.Declines == b.Declines && a.NotBefore == b.NotBefore && a.DeclineCode == b.DeclineCode && a.DeclineWords == b.DeclineWords &&
		bytes.Equal(a.EventKey, b.EventKey) && bytes.Equal(a.ChainHash, b.ChainHash) &&
		same(a.Grant, b.Grant) && same(a.Freeze, b.Freeze) && same(a.Ended, b.Ended) && sameRepair(a.Repair, b.Repair) && reflect.DeepEqual(a.Degraded, b.Degraded) && sameMachine(&a.Machine, &b.Machine)
}

// same compares what two pointers point at.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameRepair(a, b *plan.Repair) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Manifest == b.Manifest && a.Bundle == b.Bundle && a.More == b.More && a.Reason == b.Reason && slices.Equal(a.Resources, b.Resources) &&
		a.Place == b.Place && a.Declines == b.Declines && a.NotBefore == b.NotBefore && a.DeclineCode == b.DeclineCode && a.DeclineWords == b.DeclineWords
}

func sameMachine(a, b *host.State) bool {
	return a.Phase == b.Phase && a.Rollout == b.Rollout && a.Manifest == b.Manifest && a.Grant == b.Grant && a.Wave == b.Wave && a.From == b.From &&
		a.Target == b.Target && a.Current == b.Current && a.BootID == b.BootID && a.ClaimedAt == b.ClaimedAt && a.Deadline == b.Deadline &&
		a.Reboot == b.Reboot && a.Rebooted == b.Rebooted && a.CompletedAt == b.CompletedAt && a.SoakFrom == b.SoakFrom && a.ConfirmBy == b.ConfirmBy &&
		a.ConvergedAt == b.ConvergedAt && a.FailedAt == b.FailedAt && a.Cause == b.Cause && a.Detail == b.Detail && a.Reverting == b.Reverting &&
		a.RevertFailures == b.RevertFailures && a.RevertedAt == b.RevertedAt && a.BlameBy == b.BlameBy && slices.EqualFunc(a.Probes, b.Probes, sameProbe)
}

func sameProbe(a, b host.ProbeState) bool {
	return a.Name == b.Name && a.Mode == b.Mode && a.Seen == b.Seen && a.Passing == b.Passing && a.FailingSince == b.FailingSince && a.LastAt == b.LastAt &&
		a.Reason == b.Reason && a.Evidence == b.Evidence && slices.Equal(a.Failing, b.Failing)
}

func sameChannel(a, b *plan.Channel) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.FreshnessWindow == b.FreshnessWindow && a.ReconcileInterval == b.ReconcileInterval && a.OnNewRef == b.OnNewRef &&
		a.Active == b.Active && a.Latest == b.Latest && a.Converged == b.Converged && a.PendingSince == b.PendingSince && a.Queued == b.Queued && a.Deferral == b.Deferral &&
		slices.Equal(a.Manifests, b.Manifests) && maps.Equal(a.Quarantine, b.Quarantine)
}

// sameRollout compares what is kept, and of what is derived the members with their
// marks and their counts: a state that was read back has them of few rollouts.
func sameRollout(a, b *rollout.Rollout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Channel == b.Channel && a.Ref == b.Ref && a.Manifest == b.Manifest && a.Phase == b.Phase && a.Reason == b.Reason &&
		a.OpenedAt == b.OpenedAt && a.EndedAt == b.EndedAt && a.Cursor == b.Cursor && a.Reverting == b.Reverting && a.Ordered == b.Ordered &&
		a.Paused == b.Paused && a.PauseReason == b.PauseReason && a.Final == b.Final && a.Glass == b.Glass && a.Granted == b.Granted && a.SoakedAt == b.SoakedAt && a.Held == b.Held && a.HeldSince == b.HeldSince &&
		slices.Equal(a.Acknowledged, b.Acknowledged) && slices.EqualFunc(a.Accepted, b.Accepted, sameAccepted) &&
		len(a.Marks) == len(b.Marks) && (a.Plan == nil || b.Plan == nil || slices.EqualFunc(a.Members, b.Members, sameMember) && slices.Equal(a.Waves, b.Waves))
}

// sameMember leaves out which members the planner looks at no more until another has
// arrived: it works that out again, and no event tells of it.
func sameMember(a, b rollout.Member) bool {
	return a.Status == b.Status && a.Online == b.Online && a.Settled == b.Settled && a.Holds == b.Holds && a.Mark == b.Mark
}

func sameAccepted(a, b rollout.Accepted) bool {
	return a.Wave == b.Wave && a.Reason == b.Reason && a.Actor == b.Actor && slices.EqualFunc(a.Failing, b.Failing, sameEvidence)
}

func sameEvidence(a, b event.FailingEvidence) bool {
	return a.Host == b.Host && slices.Equal(a.Controls, b.Controls)
}
