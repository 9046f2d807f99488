package fleet

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// TypeOverride is the type of an operator's signed override.
const TypeOverride = "steady/override/v1"

// OverrideAction is what a signed override does.
type OverrideAction string

// The actions. Those on a rollout name its manifest, those on a bundle its
// channel and digest, those on a channel its name alone, those on a host its incarnation
// and channel.
const (
	OverridePause        OverrideAction = "pause"        // no new grants of a manifest
	OverrideResume       OverrideAction = "resume"       // ends a pause, or a halt
	OverrideCancel       OverrideAction = "cancel"       // ends a rollout for good; hosts keep what they run
	OverrideRollback     OverrideAction = "rollback"     // sends every host of a manifest back to where it came from
	OverrideQuarantine   OverrideAction = "quarantine"   // a bundle is never granted on a channel
	OverrideUnquarantine OverrideAction = "unquarantine" // it may be again, on hosts that refuse it by themselves too
	OverridePromote      OverrideAction = "promote"      // lets a held wave of a manifest pass
	OverrideBreakGlass   OverrideAction = "break-glass"  // opens every wave of a manifest at once; all other gates stay
	OverrideRetry        OverrideAction = "retry"        // gives a manifest again, to hosts that refuse it by themselves too
	OverrideFreeze       OverrideAction = "freeze"       // no new grants on a channel
	OverrideUnfreeze     OverrideAction = "unfreeze"
	OverrideRemove       OverrideAction = "remove" // takes one incarnation of a host out of the fleet
)

// OverrideActions lists every action.
var OverrideActions = []OverrideAction{OverridePause, OverrideResume, OverrideCancel, OverrideRollback,
	OverrideQuarantine, OverrideUnquarantine, OverridePromote, OverrideBreakGlass, OverrideRetry, OverrideFreeze, OverrideUnfreeze, OverrideRemove}

// Restricts reports whether the action keeps hosts from something new. The others
// loosen what another one holds.
func (a OverrideAction) Restricts() bool {
	switch a {
	case OverridePause, OverrideCancel, OverrideRollback, OverrideQuarantine, OverrideFreeze, OverrideRemove:
		return true
	}
	return false
}

// Life returns for how long after it was signed an override of this action may
// be taken: as a rule and at most.
func (a OverrideAction) Life() (usual, most clock.Duration) {
	if a.Restricts() {
		return 90 * clock.Day, 90 * clock.Day
	}
	if a == OverrideBreakGlass {
		return clock.Hour, clock.Day
	}
	return clock.Day, 7 * clock.Day
}

// Operators returns how many operators must sign it, of so many that the root
// names. To hold takes one, always; to loosen takes two where there are two, and
// to break the glass takes two in any case.
func (a OverrideAction) Operators(named int) int {
	switch {
	case a.Restricts():
		return 1
	case a == OverrideBreakGlass:
		return 2
	}
	return min(2, named)
}

// Operators is that of the action; what deletes data takes two where there are two.
func (o *Override) Operators(named int) int {
	if o.Workloads == Wipe {
		return min(2, named)
	}
	return o.Action.Operators(named)
}

func (a OverrideAction) onManifest() bool {
	return slices.Contains([]OverrideAction{OverridePause, OverrideResume, OverrideCancel, OverrideRollback,
		OverridePromote, OverrideBreakGlass, OverrideRetry}, a)
}

func (a OverrideAction) onBundle() bool { return a == OverrideQuarantine || a == OverrideUnquarantine }

// MaxOverrideReason bounds the reason of an override, in bytes.
const MaxOverrideReason = 1000

// Override is an operator's signed decision, which hosts believe whoever controls the server.
// Its Version is the instant of signing in milliseconds: of two that contradict
// each other the later one counts, and none can be signed ahead of time.
type Override struct {
	Document
	ID     string         `json:"id"`
	Action OverrideAction `json:"action"`
	// Channel is that of the manifest or bundle; what removes a host needs none.
	Channel string `json:"channel"`
	// Rollout is the manifest's name, for people; the digest counts.
	Rollout  string        `json:"rollout,omitempty"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	// Wave is the name of the one to promote.
	Wave   string        `json:"wave,omitempty"`
	Bundle digest.Digest `json:"bundle,omitempty"`
	// Host narrows what is said of a bundle to one host, or is the one to remove.
	Host string `json:"host,omitempty"`
	// Incarnation is that of a host to remove: who enrols as it later stays. Workloads is
	// what becomes of what it runs.
	Incarnation uint64    `json:"incarnation,omitempty"`
	Workloads   Workloads `json:"workloads,omitempty"`
	Reason      string    `json:"reason"`
	// NotAfter is until when the override may be accepted. What was accepted stays until
	// a later override ends it: time alone never loosens.
	NotAfter clock.Instant `json:"notAfter"`
}

// Check refuses an override that contradicts itself or passes a bound.
func (o *Override) Check() error {
	if !slices.Contains(OverrideActions, o.Action) {
		return fmt.Errorf("unknown action %q", o.Action)
	}
	for _, n := range []struct {
		what, name string
		needed     bool
	}{{"id", o.ID, true}, {"channel", o.Channel, o.Action != OverrideRemove}, {"host", o.Host, false}, {"wave", o.Wave, false}} {
		if err := CheckName(n.name); err != nil && (n.needed || n.name != "") {
			return fmt.Errorf("%s %w", n.what, err)
		}
	}
	switch {
	case (o.Action == OverridePromote) != (o.Wave != ""):
		return fmt.Errorf("%s: a wave is named by what promotes it, and by nothing else", o.Action)
	case o.Action.onManifest() != (o.Manifest != ""):
		return fmt.Errorf("%s: a manifest is named by what steers a rollout, and by nothing else", o.Action)
	case o.Action.onBundle() != (o.Bundle != ""):
		return fmt.Errorf("%s: a bundle is named by what quarantines it or ends that, and by nothing else", o.Action)
	case o.Action == OverrideRemove && (o.Host == "" || o.Incarnation == 0 || !o.Workloads.Way()):
		return fmt.Errorf("%s: expected a host, its incarnation, and workloads keep, stop or wipe", o.Action)
	case o.Action != OverrideRemove && (o.Incarnation != 0 || o.Workloads != ""):
		return fmt.Errorf("%s: an incarnation and its workloads are named by what removes a host, and by nothing else", o.Action)
	case o.Host != "" && !o.Action.onBundle() && o.Action != OverrideRemove:
		return fmt.Errorf("%s: it cannot be narrowed to one host", o.Action)
	case o.Rollout != "" && (o.Manifest == "" || len(o.Rollout) > 320 || !strings.HasPrefix(o.Rollout, o.Channel+"@") || !printable(o.Rollout)):
		return fmt.Errorf("%s: rollout %q is no name of a manifest of channel %s", o.Action, o.Rollout, o.Channel)
	case o.Reason == "" || len(o.Reason) > MaxOverrideReason || !printable(o.Reason):
		return fmt.Errorf("%s: the reason has 1 to %d bytes of printable text", o.Action, MaxOverrideReason)
	case o.Version != uint64(o.IssuedAt):
		return fmt.Errorf("%s: its version is %d, expected the instant of signing, %d", o.Action, o.Version, int64(o.IssuedAt))
	}
	if _, most := o.Action.Life(); o.NotAfter <= o.IssuedAt || o.NotAfter > o.IssuedAt.Add(most) {
		return fmt.Errorf("%s: it ends %s after it was signed; expected more than nothing and at most %s", o.Action, o.NotAfter.Sub(o.IssuedAt), most)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
