// Package live shows what happens in a fleet while it happens: events as lines,
// and a rollout as a view that moves.
package live

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Printer returns a function that prints events as lines for people.
func Printer(w io.Writer) func(operator.Event) error {
	return func(e operator.Event) error {
		_, err := fmt.Fprintln(w, Line(e))
		return err
	}
}

// Line is one event as a line: sequence, time, host, what happened. A host's own
// events carry the host's clock, which is not comparable; they show none.
func Line(e operator.Event) string {
	at := time.UnixMilli(int64(e.At)).Format("15:04:05.000")
	if e.HostSeq != 0 {
		at = "            "
	}
	who := e.Host
	if who == "" {
		who = "server"
	}
	return term.Printable(fmt.Sprintf("%6d  %s  %-12s  %s", e.Seq, at, who, Words(e)))
}

// Words says what an event means. A type that this version does not know shows
// as it is.
func Words(e operator.Event) string {
	ev, err := decode(e)
	if err != nil {
		return e.Type + " " + string(e.Body)
	}
	for _, say := range []func(event.Event) (string, bool){hostWords, repairWords, managedWords, overrideWords, rolloutWords, operatorWords, serverWords} {
		if s, ok := say(ev); ok {
			return s
		}
	}
	return e.Type + " " + string(e.Body)
}

func decode(e operator.Event) (event.Event, error) {
	return event.Decode(event.Entry{At: e.At, Type: e.Type, Host: e.Host, Incarnation: e.Incarnation, HostSeq: e.HostSeq, Body: e.Body})
}

func hostWords(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.HostStepped:
		return steppedWords(v), true
	case event.GrantDeclined:
		return fmt.Sprintf("declined %s: %s: %s", v.Grant, v.Code, v.Detail), true
	case event.TrustRefused:
		return fmt.Sprintf("refused %s: %s: %s", orThe(v.Rollout, "a document"), v.Check, v.Detail), true
	case event.BundleQuarantined:
		return fmt.Sprintf("refuses bundle %s from now on: %s", v.Digest.Short(), v.Reason), true
	case event.FileKept:
		return fmt.Sprintf("kept the changed %s as %s", v.Path, v.KeptAs), true
	case event.HostEnrolled:
		return fmt.Sprintf("enrolled, incarnation %d, certificate until %s", v.Incarnation, v.NotAfter), true
	case event.EnrolRefused:
		return "enrolment refused: " + v.Reason, true
	case event.CertificateRenewed:
		return fmt.Sprintf("renewed its certificate, until %s", v.NotAfter), true
	case event.HostRevoked:
		return "revoked: " + v.Reason, true
	case event.HostDecommissioned:
		return fmt.Sprintf("DECOMMISSIONED by %s: %s; its slot is kept until %s", v.Actor, v.Reason, v.SlotUntil), true
	case event.HostSlotFreed:
		return "gave its slot back: " + v.Reason, true
	case event.HostHead:
		return fmt.Sprintf("signed its events up to %d", v.Seq), true
	case event.HostForked:
		return fmt.Sprintf("FORKED: two different events claim place %d; its identity runs twice", v.Seq), true
	case event.HostSilent:
		return fmt.Sprintf("silent, last seen %s", v.LastSeen), true
	case event.HostReturned:
		return "is there", true
	case event.HostFailedSilently:
		return fmt.Sprintf("failed in %s: %s", v.Rollout, cmp.Or(v.Reason, "nothing was heard by "+v.Deadline.String())), true
	case event.MirrorDiverged:
		if v.Rollout == "" || v.Expected == "" { // a past that the server did not see
			return fmt.Sprintf("comes as %s, which the log did not lead to (%s)", v.Reported, v.Input), true
		}
		return fmt.Sprintf("went %s in %s where %s was expected (%s)", v.Reported, v.Rollout, v.Expected, v.Input), true
	}
	return "", false
}

func steppedWords(v event.HostStepped) string {
	if v.From != v.To {
		s := fmt.Sprintf("%s -> %s", v.From, v.To)
		if v.Rollout != "" {
			s += " in " + v.Rollout
		}
		if v.Cause != "" {
			s += ": " + joined(string(v.Cause), v.Detail)
		}
		return s
	}
	if p, ok := probeOf(v); ok {
		if p.Pass {
			return fmt.Sprintf("probe %s passes", p.Name)
		}
		return fmt.Sprintf("probe %s fails: %s", p.Name, p.Reason)
	}
	return fmt.Sprintf("%s (%s)", v.Input, v.To)
}

// probeOf returns the result of a probe that a step is about.
func probeOf(v event.HostStepped) (host.ProbeObserved, bool) {
	if v.Input != (host.ProbeObserved{}).Kind() {
		return host.ProbeObserved{}, false
	}
	var p host.ProbeObserved
	return p, json.Unmarshal(v.Data, &p) == nil
}

func rolloutWords(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.RolloutQueued:
		return fmt.Sprintf("%s@%s is queued: %s", v.Channel, v.TargetRef, v.Reason), true
	case event.RolloutDeferred:
		return fmt.Sprintf("%s@%s waits for %s: %s", v.Channel, v.TargetRef, v.BlockedBy, v.Reason), true
	case event.RolloutOpened:
		return fmt.Sprintf("%s opened: %s", v.Rollout, v.Reason), true
	case event.RolloutMoved:
		return fmt.Sprintf("%s: %s -> %s: %s", v.Rollout, orThe(v.From, "new"), v.To, v.Reason), true
	case event.RolloutReverting:
		return fmt.Sprintf("%s goes back: %s", v.Rollout, v.Reason), true
	case event.WavePromoted:
		return fmt.Sprintf("%s: wave %d is done (%d converged, %d at target, %d failed, %d skipped): %s", v.Rollout, v.Wave, v.Evidence, v.AtTarget, v.Failed, v.Skipped, v.Reason), true
	case event.WaveHeld:
		return fmt.Sprintf("%s: wave %d is held: %s", v.Rollout, v.Wave, v.Reason), true
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

func serverWords(ev event.Event) (string, bool) {
	switch v := ev.(type) {
	case event.RootTrusted:
		return fmt.Sprintf("trusts root %d, key epoch %d", v.Version, v.Epoch), true
	case event.ReleaseAccepted:
		return fmt.Sprintf("release %s accepted from %s, version %d", v.Ref, v.Actor, v.Version), true
	case event.ComplianceEvaluated:
		if len(v.Failures) == 0 {
			return fmt.Sprintf("%s passes %d controls", v.Rollout, v.Controls), true
		}
		return fmt.Sprintf("%s fails %d of %d controls, first: %s", v.Rollout, len(v.Failures), v.Controls, v.Failures[0].Words()), true
	case event.TimestampAccepted:
		return fmt.Sprintf("timestamp %d accepted, of %s", v.Version, v.IssuedAt), true
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
