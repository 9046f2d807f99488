// Package watch shows what happens in a fleet while it happens: events as lines, a
// rollout as a view that moves, and resources until they are as was asked.
package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Printer returns a function that prints events as lines for people. A host's own
// events carry the host's clock, which is not comparable: they show the time of the
// server's event before them, marked with ~.
func Printer(w io.Writer) func(operator.Event) error {
	var last clock.Instant
	return func(e operator.Event) error {
		if e.HostSeq == 0 {
			last = e.At
		}
		_, err := fmt.Fprintln(w, Line(e, last, clock.FromTime(time.Now())))
		return err
	}
}

// Line is one event as a line: sequence, time in UTC, host, what happened.
func Line(e operator.Event, at, now clock.Instant) string {
	when, mark := "", " "
	if at != 0 {
		when = prose.Stamp(at, now)
	}
	if e.HostSeq != 0 && when != "" {
		mark = "~"
	}
	who := e.Subject.Host()
	if who == "" {
		who = "server"
	}
	return term.Printable(fmt.Sprintf("%6d %s%-8s  %-12s  %s", e.Seq, mark, when, who, Message(e)))
}

// Message says what an event means. A type that this version does not know shows
// as it is.
func Message(e operator.Event) string {
	ev, err := decode(e)
	if err != nil {
		return e.Type + " " + string(e.Body)
	}
	for _, say := range []func(event.Event) (string, bool){hostMessage, repairMessage, managedMessage, overrideMessage, rolloutMessage, operatorMessage, serverMessage} {
		if s, ok := say(ev); ok {
			return s
		}
	}
	return e.Type + " " + string(e.Body)
}

func decode(e operator.Event) (event.Event, error) {
	return event.DecodeBody(e.Type, e.Body)
}

func hostMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.HostStepped:
		return steppedMessage(v), true
	case event.GrantDeclined:
		return fmt.Sprintf("could not prepare what %s offers: %s", v.Grant, prose.Reason(v.Code+": "+v.Detail)), true
	case event.TrustRefused:
		return fmt.Sprintf("refused %s: %s: %s", orThe(v.Rollout, "a document"), v.Check, v.Detail), true
	case event.BundleQuarantined:
		return fmt.Sprintf("refuses bundle %s from now on: %s", v.Digest.Short(), v.Reason), true
	case event.FileKept:
		return fmt.Sprintf("kept the changed %s as %s", v.Path, v.KeptAs), true
	case event.HostEnrolled:
		return fmt.Sprintf("enrolled, incarnation %d, certificate until %s", v.Incarnation, prose.Date(v.NotAfter)), true
	case event.EnrolRefused:
		return "enrolment refused: " + v.Reason, true
	case event.CertificateRenewed:
		return fmt.Sprintf("renewed its certificate, until %s", prose.Date(v.NotAfter)), true
	case event.HostRevoked:
		return "revoked: " + v.Reason, true
	case event.HostDecommissioned:
		return fmt.Sprintf("DECOMMISSIONED by %s: %s; it counts against budgets until %s", v.Actor, v.Reason, prose.Date(v.SlotUntil)), true
	case event.HostSlotFreed:
		return "counts against no budget any more: " + v.Reason, true
	case event.HostHead:
		return fmt.Sprintf("signed its events up to %d", v.Seq), true
	case event.HostForked:
		return fmt.Sprintf("FORKED: two different events claim place %d; its identity runs twice", v.Seq), true
	case event.HostSilent:
		return fmt.Sprintf("silent, last seen %s", prose.Date(v.LastSeen)), true
	case event.HostReturned:
		return "is online", true
	case event.HostFailedSilently:
		return fmt.Sprintf("failed in %s: %s", v.Rollout, cmp.Or(v.Reason, "no contact by "+prose.Date(v.Deadline))), true
	case event.MirrorDiverged:
		if v.Rollout == "" || v.Expected == "" { // a past that the server did not see
			return fmt.Sprintf("came back %s, which the log does not explain (%s)", v.Reported, inputMessage(v.Input)), true
		}
		return fmt.Sprintf("is %s in %s where the server expected %s (%s)", v.Reported, v.Rollout, v.Expected, inputMessage(v.Input)), true
	}
	return "", false
}

func steppedMessage(v event.HostStepped) string {
	if v.From != v.To {
		s := fmt.Sprintf("%s -> %s", v.From, v.To)
		if v.Rollout != "" {
			s += " in " + v.Rollout
		}
		if v.Cause != "" {
			s += ": " + prose.Failure(string(v.Cause), v.Detail)
		}
		return s
	}
	if p, ok := probeOf(v); ok {
		if p.Pass {
			return fmt.Sprintf("probe %s passes", p.Name)
		}
		return fmt.Sprintf("probe %s fails: %s", p.Name, prose.Reason(p.Reason))
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

// probeOf returns the result of a probe that a step is about.
func probeOf(v event.HostStepped) (host.ProbeObserved, bool) {
	if v.Input != (host.ProbeObserved{}).Kind() {
		return host.ProbeObserved{}, false
	}
	var p host.ProbeObserved
	return p, json.Unmarshal(v.Data, &p) == nil
}

func rolloutMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.RolloutQueued:
		return fmt.Sprintf("%s is queued: %s", v.TargetRef, v.Reason), true
	case event.RolloutDeferred:
		return fmt.Sprintf("%s waits for %s: %s", v.TargetRef, v.BlockedBy, v.Reason), true
	case event.RolloutOpened:
		return fmt.Sprintf("%s opened: %s", v.Rollout, v.Reason), true
	case event.RolloutMoved:
		return fmt.Sprintf("%s: %s -> %s: %s", v.Rollout, orThe(v.From, "new"), v.To, v.Reason), true
	case event.RolloutReverting:
		return fmt.Sprintf("%s goes back: %s", v.Rollout, v.Reason), true
	case event.WavePromoted:
		return fmt.Sprintf("%s: wave %s was promoted (%s): %s", v.Rollout, waveOf(v.WaveName, v.Wave), waveCounts(v), v.Reason), true
	case event.WaveBlocked:
		return fmt.Sprintf("%s: wave %s is blocked: %s", v.Rollout, waveOf(v.WaveName, v.Wave), v.Reason), true
	case event.Granted:
		return fmt.Sprintf("%s grants %s (%s): %s", v.Rollout, v.Target.Short(), v.Purpose, v.Reason), true
	case event.GrantClaimed:
		return "claimed " + v.Grant, true
	case event.GrantEnded:
		return fmt.Sprintf("grant %s ended: %s", v.Grant, v.Reason), true
	case event.QuarantineAdded:
		return fmt.Sprintf("bundle %s is quarantined on %s: %s", v.Digest.Short(), v.Channel, v.Reason), true
	case event.QuarantineCleared:
		return fmt.Sprintf("bundle %s is allowed again on %s by %s: %s", v.Digest.Short(), v.Channel, v.Actor, v.Reason), true
	case event.RolloutPaused:
		return fmt.Sprintf("%s paused by %s: %s", v.Rollout, v.Actor, v.Reason), true
	case event.RolloutResumed:
		return fmt.Sprintf("%s resumed by %s: %s", v.Rollout, v.Actor, v.Reason), true
	case event.RolloutCancelled:
		return fmt.Sprintf("%s cancelled by %s: %s", v.Rollout, v.Actor, v.Reason), true
	}
	return "", false
}

func serverMessage(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.RootTrusted:
		return fmt.Sprintf("trusts root %d, key epoch %d", v.Version, v.Epoch), true
	case event.ReleaseAccepted:
		return fmt.Sprintf("release %s accepted from %s, version %d", v.Ref, v.Actor, v.Version), true
	case event.ComplianceEvaluated:
		if len(v.Failures) == 0 {
			return fmt.Sprintf("%s passes %s", v.Rollout, prose.Count(v.Controls, "control")), true
		}
		return fmt.Sprintf("%s fails %d of %s, first: %s", v.Rollout, len(v.Failures), prose.Count(v.Controls, "control"), v.Failures[0].Message()), true
	case event.TimestampAccepted:
		return fmt.Sprintf("timestamp %d accepted, of %s", v.Version, prose.Date(v.IssuedAt)), true
	case event.VerifyFailed:
		return fmt.Sprintf("refused %s from %s: %s: %s", v.What, v.Actor, v.Check, v.Detail), true
	case event.SourceFailed:
		return fmt.Sprintf("nothing can be fetched from %s (%s): %s", v.Source, v.Cause, v.Detail), true
	case event.SourceRecovered:
		return fmt.Sprintf("source %s is well again after its %s failed on %s: %s", v.Source, v.What, v.Since, v.Reason), true
	case event.ExpiryWarned:
		return fmt.Sprintf("%s: %s; %s", v.Level, v.Message, v.Next), true
	case event.ExpiryCleared:
		return fmt.Sprintf("the warning about %s since %s is over: %s", strings.TrimSpace(v.Kind+" "+v.Name), v.Since, v.Reason), true
	case event.OperatorTokenAdded:
		by := ""
		if v.Actor != "" {
			by = ", by " + v.Actor
		}
		if v.Recovered {
			by = ", RECOVERED by the owner of the server's data folder (" + v.Actor + ")"
		}
		return fmt.Sprintf("operator token %s added: %s, %s, good until %s%s", v.ID, v.Name, v.Role, v.Expires, by), true
	case event.OperatorTokenUsed:
		return fmt.Sprintf("operator token %s was used", v.ID), true
	case event.OperatorTokenRevoked:
		if v.Forced {
			return fmt.Sprintf("operator token %s revoked by %s: the last admin's, by force", v.ID, v.Actor), true
		}
		return fmt.Sprintf("operator token %s revoked by %s", v.ID, v.Actor), true
	}
	return "", false
}

// waveOf names a wave; events of before have its place alone.
func waveOf(name string, place int) string { return cmp.Or(name, fmt.Sprint(place)) }

// waveCounts sums up the hosts of a wave that was promoted.
func waveCounts(v event.WavePromoted) string {
	return prose.Join(fmt.Sprintf("%d converged", v.Evidence), zeroless(v.AtTarget, "ran the target already"),
		zeroless(v.Failed, "failed"), zeroless(v.Skipped, "away"))
}

func zeroless(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func orThe(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func joined(code, detail string) string {
	if detail == "" {
		return code
	}
	return code + ": " + detail
}
