package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Message says what an event means. A type that this version does not know shows
// as it is.
func Message(e Event) string {
	ev, err := event.DecodeBody(e.Type, e.Body)
	for _, rows := range [][]message{messages, nodeMessages} {
		if at := slices.IndexFunc(rows, func(m message) bool { return m.eventType == e.Type }); at >= 0 && err == nil {
			return rows[at].words(ev)
		}
	}
	return e.Type + " " + string(e.Body)
}

// Messages says what each of some events means, and of whom.
func Messages(entries []event.Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s: %s", cmp.Or(e.Host(), "server"), Message(Event{Type: e.Type, Subject: e.Subject, At: e.At, Body: e.Body})))
	}
	return out
}

// message words the events of one type.
type message struct {
	eventType string
	words     func(event.Event) string
}

func row[E event.Event](words func(E) string) message {
	var e E
	return message{e.EventType(), func(ev event.Event) string { return words(ev.(E)) }}
}

var messages = []message{
	row(steppedMessage),
	row(func(v event.GrantDeclined) string {
		return prose.Format("could not prepare what %s offers[: %s]", v.Grant, prose.Reason(strings.Trim(v.Code+": "+v.Detail, ": ")))
	}),
	row(func(v event.TrustRefused) string {
		return prose.Format("refused %s[: %s][: %s]", cmp.Or(v.Rollout, "a document"), v.Check, v.Detail)
	}),
	row(func(v event.BundleQuarantined) string {
		return prose.Format("refuses bundle %s from now on[: %s]", v.Digest.Short(), v.Reason)
	}),
	row(func(v event.FileKept) string { return fmt.Sprintf("kept the changed %s as %s", v.Path, v.KeptAs) }),
	row(func(v event.HostFacts) string { return "has " + strings.Join(FactsMessages(v), "; ") }),
	row(func(v event.WorkloadsRemoved) string {
		if !v.OK {
			return prose.Format("cannot be removed (workloads %s)[: %s]", v.Workloads, v.Detail)
		}
		return fmt.Sprintf("removed from the fleet (workloads %s)", v.Workloads)
	}),
	row(func(v event.HostEnrolled) string {
		return fmt.Sprintf("enrolled, incarnation %d, certificate until %s", v.Incarnation, prose.Date(v.NotAfter))
	}),
	row(func(v event.EnrolRefused) string { return prose.Detailed("enrolment refused", v.Reason) }),
	row(func(v event.CertificateRenewed) string {
		if v.Issued != 0 {
			return fmt.Sprintf("presented a certificate of %s, until %s, that the restored log lacks: it is in use again", prose.Date(v.Issued), prose.Date(v.NotAfter))
		}
		return fmt.Sprintf("renewed its certificate, until %s", prose.Date(v.NotAfter))
	}),
	row(func(v event.HostRevoked) string { return prose.Detailed("revoked", v.Reason) }),
	row(func(v event.HostDecommissioned) string {
		return prose.Format("DECOMMISSIONED[ by %s][: %s]; it counts against budgets until %s", v.Actor, v.Reason, prose.Date(v.SlotUntil))
	}),
	row(func(v event.HostSlotFreed) string {
		return prose.Detailed("counts against no budget any more", v.Reason)
	}),
	row(func(v event.HostHead) string { return fmt.Sprintf("signed its events up to %d", v.Seq) }),
	row(func(v event.HostForked) string {
		if v.Parked != "" {
			return "PARKED until it enrols again: " + host.ParkedMessage(v.Parked)
		}
		return fmt.Sprintf("FORKED: two different events claim place %d; its identity runs twice", v.Seq)
	}),
	row(func(v event.HostSilent) string { return fmt.Sprintf("silent, last seen %s", prose.Date(v.LastSeen)) }),
	row(func(event.HostReturned) string { return "is online" }),
	row(func(v event.HostFailedSilently) string {
		return prose.Format("failed[ in %s]: %s", v.Rollout, cmp.Or(v.Reason, "no contact by "+prose.Date(v.Deadline)))
	}),
	row(func(v event.MirrorDiverged) string {
		if v.Rollout == "" || v.Expected == "" { // a past that the server did not see
			return prose.Format("came back %s, which the log does not explain[ (%s)]", v.Reported, inputMessage(v.Input))
		}
		return prose.Format("is %s[ in %s] where the server expected %s[ (%s)]", v.Reported, v.Rollout, v.Expected, inputMessage(v.Input))
	}),
	row(func(v event.RepairNeeded) string {
		return prose.Format("waits for a grant to repair %s[: %s]", cmp.Or(named(v.Resources, len(v.Resources)+v.More), "what drifted"), v.Reason)
	}),
	row(func(v event.RepairOver) string {
		how := "needs no repair any more"
		switch {
		case v.Grant != "" && v.OK:
			how = "repaired under " + v.Grant
		case v.Grant != "":
			how = "could not repair all under " + v.Grant
		}
		return prose.Detailed(how, v.Detail)
	}),
	row(func(v event.ManagedSet) string {
		whom := ""
		if v.Owner != spec.Operators {
			whom = " for " + v.Owner.String()
		}
		return prose.Format("%s/%s set[ by %s]%s[: %s]", v.Kind, v.Name, v.Actor, whom, v.Reason)
	}),
	row(func(v event.ManagedRemoved) string {
		return prose.Format("%s/%s removed[ by %s][: %s]", v.Kind, v.Name, v.Actor, v.Reason)
	}),
	row(func(v event.ManagedRequested) string {
		return prose.Format("%s of %s/%s asked for[ by %s][: %s]", v.Verb, v.Kind, v.Name, v.Actor, v.Reason)
	}),
	row(func(v event.HostTuned) string {
		if v.Settings.Disabled() {
			return prose.Format("disabled[ by %s][: %s]", v.Actor, v.Reason)
		}
		return prose.Format("tuned[ by %s][: %s]", v.Actor, v.Reason)
	}),
	row(func(v event.HostDegraded) string { return "degraded: " + v.Summary() }),
	row(func(event.HostRecovered) string { return "recovered: everything runs as it should" }),
	row(func(v event.HostRetried) string {
		return prose.Format("retry of %s asked for[ by %s][: %s]", cmp.Or(v.Resource, "everything that failed"), v.Actor, v.Reason)
	}),
	row(func(v event.ResourceRecorded) string { return "session: " + rowsMessage(v.Write) }),
	row(func(v event.StreamOpened) string {
		return prose.Format("%s in %s opened[ by %s][: %s]", v.Kind, v.Resource, v.Actor, strings.Join(v.Argv, " "))
	}),
	row(func(v event.LogRestored) string {
		return fmt.Sprintf("the log was set back: it had its events up to %d, those up to %d are in no record of the server but this host's own", v.From, v.To)
	}),
	row(func(v event.LogCheckpoint) string {
		return fmt.Sprintf("checkpoint of the log up to record %d: when it is old enough, those records are removed", v.Through)
	}),
	row(func(v event.ServerResumed) string {
		return prose.Format("the server serves again[ (%s)]: hosts that act have time to report, and none is blamed for its silence", v.Reason)
	}),
	row(func(v event.SafeModeEnded) string {
		missing := ""
		if v.Acknowledged > v.Logged {
			missing = fmt.Sprintf("; events %d to %d of the log are missing", v.Logged+1, v.Acknowledged)
		}
		if len(v.Hosts) > 0 {
			missing += "; not waited for: " + strings.Join(v.Hosts, ", ")
		}
		return prose.Format("safe mode ended[ by %s][: %s]%s", v.Actor, v.Reason, missing)
	}),
	row(func(v event.ResourceReported) string {
		return fmt.Sprintf("%s is %s", v.Resource, prose.Detailed(v.State, v.Message))
	}),
	row(func(v event.RolloutQueued) string {
		return prose.Format("%s is queued[ in the place of %s, which never opened][: %s]", v.TargetRef, cmp.Or(v.DroppedRollout, string(v.Dropped)), v.Reason)
	}),
	row(func(v event.RolloutDeferred) string {
		return prose.Format("%s waits for %s[: %s]", v.TargetRef, v.BlockedBy, v.Reason)
	}),
	row(func(v event.RolloutOpened) string { return prose.Format("%s opened[: %s]", v.Rollout, v.Reason) }),
	row(func(v event.RolloutMoved) string {
		return prose.Format("%s: %s -> %s[: %s]", v.Rollout, cmp.Or(v.From, "new"), StatusOfPhase(v.To, v.Final), v.Reason) + skippedHosts(v.SkippedHosts, 0)
	}),
	row(func(v event.RolloutReverting) string { return prose.Format("%s goes back[: %s]", v.Rollout, v.Reason) }),
	row(func(v event.WavePromoted) string {
		return prose.Format("%s: wave %s was promoted[ (%s)][: %s]", v.Rollout, waveOf(v.WaveName, v.Wave), waveCounts(v), v.Reason) + skippedHosts(v.SkippedHosts, v.Skipped)
	}),
	row(func(v event.WaveBlocked) string {
		return prose.Format("%s: wave %s is blocked[: %s]", v.Rollout, waveOf(v.WaveName, v.Wave), v.Reason) + waits(v.Waits)
	}),
	row(func(v event.Granted) string {
		return prose.Format("%s grants %s[ (%s)][: %s]", v.Rollout, v.Target.Short(), v.Purpose, v.Reason) + budgets(v.Budgets)
	}),
	row(func(v event.GrantClaimed) string { return "claimed " + v.Grant }),
	row(func(v event.GrantEnded) string { return prose.Format("grant %s ended[: %s]", v.Grant, v.Reason) }),
	row(func(v event.QuarantineAdded) string {
		return prose.Format("bundle %s is quarantined on %s[: %s]", v.Digest.Short(), v.Channel, v.Reason)
	}),
	row(func(v event.QuarantineCleared) string {
		return prose.Format("bundle %s is allowed again on %s[ by %s][: %s]", v.Digest.Short(), v.Channel, v.Actor, v.Reason)
	}),
	row(func(v event.RolloutPaused) string {
		return prose.Format("%s paused[ by %s][: %s]", v.Rollout, v.Actor, v.Reason)
	}),
	row(func(v event.RolloutResumed) string {
		return prose.Format("%s resumed[ by %s][: %s]", v.Rollout, v.Actor, v.Reason)
	}),
	row(func(v event.RolloutCancelled) string {
		return prose.Format("%s cancelled[ by %s][: %s]", v.Rollout, v.Actor, v.Reason)
	}),
	row(func(v event.RolloutRetried) string {
		words := prose.Format("%s is tried again from wave %s[ by %s][: %s]", v.Rollout, waveOf(v.WaveName, v.Wave), v.Actor, v.Reason)
		return prose.Join(words, prose.Some(len(v.Hosts), "host", " may take it again"), prose.Some(len(v.Refusing), "host", prose.Verb(len(v.Refusing), " refuses", " refuse")+" it until a retry is signed"))
	}),
	row(func(v event.WaveForced) string {
		return prose.Format("%s: wave %s was promoted[ by %s][, %s], although it was blocked[: %s]", v.Rollout, waveOf(v.WaveName, v.Wave), v.Actor, v.Reason, strings.Join(v.Blocks, "; "))
	}),
	row(func(v event.BreakGlassUsed) string {
		return prose.Format("BREAK-GLASS: every wave of %s was opened[ by %s][: %s]", v.Rollout, v.Actor, v.Reason)
	}),
	row(func(v event.HostFrozen) string {
		return prose.Format("frozen[ by %s] until %s[: %s]", v.Actor, prose.Date(v.Until), v.Reason)
	}),
	row(func(v event.HostUnfrozen) string {
		return prose.Detailed("unfrozen by "+cmp.Or(v.Actor, "time"), v.Reason)
	}),
	row(func(v event.RolloutPruned) string {
		return prose.Format("%s was pruned to its row in the list[: %s]", v.Rollout, v.Reason)
	}),
	row(overrideMessage),
	row(func(v event.RootTrusted) string {
		return fmt.Sprintf("trusts root %d, key epoch %d", v.Version, v.Epoch)
	}),
	row(func(v event.ReleaseAccepted) string {
		return prose.Format("release %s accepted[ from %s], version %d", v.Ref, v.Actor, v.Version)
	}),
	row(func(v event.ComplianceEvaluated) string {
		if len(v.Failures) == 0 {
			return fmt.Sprintf("%s passes %s", v.Rollout, prose.Count(v.Controls, "control"))
		}
		return prose.Format("%s fails %d of %s, first: %s", v.Rollout, len(v.Failures), prose.Count(v.Controls, "control"), v.Failures[0].Message())
	}),
	row(func(v event.TimestampAccepted) string {
		return fmt.Sprintf("timestamp %d accepted, of %s", v.Version, prose.Date(v.IssuedAt))
	}),
	row(func(v event.VerifyFailed) string {
		return prose.Format("refused %s[ from %s][: %s][: %s]", v.What, v.Actor, v.Check, v.Detail)
	}),
	row(func(v event.AttentionOpened) string {
		return prose.Format("%s %s needs a person[: %s][: %s]", v.Kind, v.Name, v.Word, v.Reason)
	}),
	row(func(v event.AttentionClosed) string {
		return prose.Format("%s %s needs a person no more[: it was %s since "+prose.Date(v.Since)+"]", v.Kind, v.Name, v.Word)
	}),
	row(func(v event.AttentionAcknowledged) string {
		until := ""
		if v.Until != 0 {
			until = prose.Date(v.Until)
		}
		return prose.Format("%s %s acknowledged[ by %s][ until %s][: %s]", v.Kind, v.Name, v.Actor, until, v.Note)
	}),
	row(func(v event.SourceFailed) string {
		return prose.Format("nothing can be fetched from %s[ (%s)][: %s]", v.Source, v.Cause, v.Detail)
	}),
	row(func(v event.SourceRecovered) string {
		return prose.Format("source %s is well again after its %s failed on %s[: %s]", v.Source, v.What, v.Since, v.Reason)
	}),
	row(func(v event.ExpiryWarned) string { return prose.Format("%s[: %s][; %s]", v.Level, v.Message, v.Next) }),
	row(func(v event.ExpiryCleared) string {
		return prose.Format("the warning about[ %s] since %s is over[: %s]", strings.TrimSpace(v.Kind+" "+v.Name), v.Since, v.Reason)
	}),
	row(func(v event.OperatorTokenAdded) string {
		if v.Parent != "" {
			return fmt.Sprintf("%s logged in with a browser: login %s of token %s, %s, good until %s", v.Name, v.ID, v.Parent, v.Role, v.Expires)
		}
		by := ""
		if v.Actor != "" {
			by = ", by " + v.Actor
		}
		if v.Recovered {
			by = ", RECOVERED by the owner of the server's data folder (" + v.Actor + ")"
		}
		return fmt.Sprintf("operator token %s added: %s, %s, good until %s%s", v.ID, v.Name, v.Role, v.Expires, by)
	}),
	row(func(v event.OperatorTokenUsed) string { return fmt.Sprintf("operator token %s was used", v.ID) }),
	row(func(v event.OperatorTokenRevoked) string {
		if v.Forced {
			return prose.Format("operator token %s revoked[ by %s]: the last admin's, by force", v.ID, v.Actor)
		}
		return prose.Format("operator token %s revoked[ by %s]", v.ID, v.Actor)
	}),
}

func steppedMessage(v event.HostStepped) string {
	if v.From != v.To {
		s := fmt.Sprintf("%s -> %s", cmp.Or(v.From, host.Pending), v.To)
		if v.Rollout != "" {
			s += " in " + v.Rollout
		}
		if v.Cause != "" {
			s += ": " + prose.Failure(string(v.Cause), v.Detail)
		}
		return s
	}
	if p, ok := ProbeOf(v); ok {
		if p.Pass {
			return fmt.Sprintf("probe %s passes", p.Name)
		}
		return prose.Format("probe %s fails[: %s]", p.Name, prose.Reason(p.Reason))
	}
	if v.To == "" {
		return inputMessage(v.Input)
	}
	return fmt.Sprintf("%s, while %s", inputMessage(v.Input), v.To)
}

// inputMessage says what happened on a host, by the kind of its machine's input.
func inputMessage(kind string) string {
	switch kind {
	case host.Booted{}.Kind():
		return "the agent started"
	case host.Contact{}.Kind():
		return "the server was reached"
	case host.Elapsed{}.Kind():
		return "time passed"
	}
	return strings.ReplaceAll(kind, "-", " ")
}

// ProbeOf returns the result of a probe that a step is about.
func ProbeOf(v event.HostStepped) (host.ProbeObserved, bool) {
	if v.Input != (host.ProbeObserved{}).Kind() {
		return host.ProbeObserved{}, false
	}
	var p host.ProbeObserved
	return p, json.Unmarshal(v.Data, &p) == nil
}

// overrideMessage words operators' signed words.
func overrideMessage(v event.OverrideAccepted) string {
	what := "channel " + v.Channel
	switch {
	case v.Incarnation != 0:
		what = fmt.Sprintf("host %s, incarnation %d, workloads %s", v.Host, v.Incarnation, v.Workloads)
	case v.Bundle != "" && v.Host != "":
		what = fmt.Sprintf("bundle %s on host %s", v.Bundle.Short(), v.Host)
	case v.Bundle != "":
		what = fmt.Sprintf("bundle %s on channel %s", v.Bundle.Short(), v.Channel)
	case v.Manifest != "":
		what = cmp.Or(v.Rollout, fleet.RolloutName(v.Channel, v.Manifest.Short()))
	}
	return prose.Format("SIGNED %s of %s, override %s sent[ by %s][: %s]", v.Action, what, v.ID, v.Actor, v.Reason)
}

// StatusOfPhase is the status of a rollout that moved to a phase of the log; final is that of its event.
func StatusOfPhase(phase string, final bool) string {
	switch {
	case phase == string(rollout.Terminal):
		return rollout.StatusDone
	case phase == string(rollout.Failed) && final:
		return rollout.StatusCancelled
	case phase == string(rollout.Failed):
		return rollout.StatusHalted
	}
	return phase
}

// waveOf names a wave; events of before have its place alone.
func waveOf(name string, place int) string { return cmp.Or(name, fmt.Sprint(place)) }

func waveCounts(v event.WavePromoted) string {
	return prose.Join(fmt.Sprintf("%d converged", v.Evidence), prose.Any(v.AtTarget, "ran the target already"),
		prose.Any(v.Failed, "failed"), prose.Any(v.Skipped, "away"))
}

// skippedHosts names the hosts that a wave, or a rollout, did not wait for.
func skippedHosts(names []string, total int) string {
	if len(names) == 0 {
		return ""
	}
	return "; skipped: " + named(names, total)
}

// named lists hosts, and how many more there are.
func named(names []string, total int) string {
	words, more := strings.Join(names, ", "), prose.Any(total-len(names), "more")
	if words == "" || more == "" {
		return words + more
	}
	return words + " and " + more
}

// budgets reports how full each is.
func budgets(of map[string]string) (words string) {
	for _, selector := range slices.Sorted(maps.Keys(of)) {
		words += "; " + selector + " " + of[selector]
	}
	return words
}

// waits says what hosts wait for.
func waits(list []event.HostWait) (words string) {
	for _, w := range list {
		words += prose.Format("; %s %s for %s[: %s]", named(w.Hosts, w.Total), prose.Verb(w.Total, "waits", "wait"), w.Gate, w.Reason)
	}
	return words
}
