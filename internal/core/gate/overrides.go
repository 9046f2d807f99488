package gate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// MaxOverrides bounds how many subjects there are overrides on within a key epoch.
const MaxOverrides = 1024

// AcceptedOverride is a verified override that was accepted.
type AcceptedOverride struct {
	fleet.Override
	Digest   digest.Digest `json:"digest"`             // of the signed payload
	Envelope digest.Digest `json:"envelope,omitempty"` // blob, on a server
}

// Overrides is what the signed overrides of operators add up to: the newest on every
// subject. Server and agents fold them with the same functions, in whatever order they
// come: the later signed one counts, so that sending an earlier one again changes
// nothing. Its zero value is empty.
type Overrides struct {
	Newest map[string]AcceptedOverride `json:"newest,omitempty"`
}

// OverrideOutcome says what became of an override.
type OverrideOutcome int

// The outcomes. OverrideFull and OverrideOlder change nothing.
const (
	OverrideNew   OverrideOutcome = iota + 1
	OverrideKnown                 // this very one was accepted before
	OverrideOlder                 // a later one on the same subject was accepted before
	OverrideFull
)

// subject names what an override is about. Cancel and rollback have subjects of their own
// beside pause and resume: a retry that was signed later is all that ends them.
func subject(o *fleet.Override) string {
	switch o.Action {
	case fleet.OverridePause, fleet.OverrideResume:
		return "hold/" + string(o.Manifest)
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		return bundle(o.Channel, o.Bundle, o.Host)
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
		return "freeze/" + o.Channel
	case fleet.OverridePromote:
		return "promote/" + string(o.Manifest) + "/" + o.Wave
	case fleet.OverrideRemove:
		return "remove/" + o.Host
	}
	return string(o.Action) + "/" + string(o.Manifest)
}

func bundle(channel string, d digest.Digest, host string) string {
	return strings.Join([]string{"bundle", channel, string(d), host}, "/")
}

// later orders two overrides on one subject. One that restricts goes before one that
// relaxes when they were signed at the same instant.
func later(a, b *AcceptedOverride) bool {
	restricts := func(t *AcceptedOverride) int {
		if t.Action.Restricts() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Version, b.Version), cmp.Compare(restricts(a), restricts(b)), cmp.Compare(a.Digest, b.Digest)) > 0
}

// Check says what Accept would do.
func (s *Overrides) Check(t AcceptedOverride) OverrideOutcome {
	old, there := s.Newest[subject(&t.Override)]
	switch {
	case there && old.Digest == t.Digest:
		return OverrideKnown
	case there && !later(&t, &old):
		return OverrideOlder
	case !there && len(s.Newest) >= MaxOverrides:
		return OverrideFull
	}
	return OverrideNew
}

// Accept folds an override.
func (s *Overrides) Accept(t AcceptedOverride) OverrideOutcome {
	out := s.Check(t)
	if out == OverrideNew {
		if s.Newest == nil {
			s.Newest = map[string]AcceptedOverride{}
		}
		s.Newest[subject(&t.Override)] = t
	}
	return out
}

// Successor returns the later override that stands in the place of t.
func (s *Overrides) Successor(t AcceptedOverride) (AcceptedOverride, bool) {
	old, there := s.Newest[subject(&t.Override)]
	return old, there && old.Digest != t.Digest
}

// End forgets what was signed in key epochs before one: a new epoch ends what a
// stolen key may have signed. It reports whether there was anything.
func (s *Overrides) End(epoch uint64) bool {
	before := len(s.Newest)
	maps.DeleteFunc(s.Newest, func(_ string, t AcceptedOverride) bool { return t.Epoch < epoch })
	return len(s.Newest) != before
}

// Clone returns a copy that shares nothing.
func (s *Overrides) Clone() Overrides { return Overrides{Newest: maps.Clone(s.Newest)} }

// List returns the newest override on every subject, in the order of signing.
func (s *Overrides) List() []AcceptedOverride {
	return slices.SortedFunc(maps.Values(s.Newest), func(a, b AcceptedOverride) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Digest, b.Digest))
	})
}

// restricting returns the override on a subject if it restricts.
func (s *Overrides) restricting(key ...string) *AcceptedOverride {
	if t := s.newest(key...); t != nil && t.Action.Restricts() {
		return t
	}
	return nil
}

// Restrictions returns what keeps a manifest from giving out grants: a rollback, a
// cancel, a pause or a freeze of its channel; or nil.
func (s *Overrides) Restrictions(channel string, manifest digest.Digest) *AcceptedOverride {
	if len(s.Newest) == 0 {
		return nil
	}
	return cmp.Or(s.RolledBack(manifest), s.Cancelled(manifest), s.Paused(manifest), s.Frozen(channel))
}

// Paused returns the pause of a manifest, or nil.
func (s *Overrides) Paused(manifest digest.Digest) *AcceptedOverride {
	return s.stopping("hold/", manifest)
}

// StopsAfter returns what stops the manifest of a retry and was signed later than that, or
// nil.
func (s *Overrides) StopsAfter(t *AcceptedOverride) *AcceptedOverride {
	for _, o := range []*AcceptedOverride{s.RolledBack(t.Manifest), s.Cancelled(t.Manifest), s.Paused(t.Manifest)} {
		if o != nil && later(o, t) {
			return o
		}
	}
	return nil
}

// Cancelled returns the cancel of a manifest, or nil.
func (s *Overrides) Cancelled(manifest digest.Digest) *AcceptedOverride {
	return s.stopping("cancel/", manifest)
}

// RolledBack returns the rollback of a manifest, or nil.
func (s *Overrides) RolledBack(manifest digest.Digest) *AcceptedOverride {
	return s.stopping("rollback/", manifest)
}

// stopping returns the override on a subject if it restricts and no retry of its manifest
// was signed later.
func (s *Overrides) stopping(subject string, manifest digest.Digest) *AcceptedOverride {
	t := s.restricting(subject, string(manifest))
	if t != nil && s.EndedBy(t) != nil {
		return nil
	}
	return t
}

// EndedBy returns the retry of a manifest that was signed later than a pause, a cancel or
// a rollback of it, or nil.
func (s *Overrides) EndedBy(t *AcceptedOverride) *AcceptedOverride {
	switch t.Action {
	case fleet.OverridePause, fleet.OverrideCancel, fleet.OverrideRollback:
		if again := s.newest(string(fleet.OverrideRetry), "/", string(t.Manifest)); again != nil && later(again, t) {
			return again
		}
	}
	return nil
}

// Promoted returns what lets a wave of a manifest pass, or nil.
func (s *Overrides) Promoted(manifest digest.Digest, wave string) *AcceptedOverride {
	return s.newest("promote/", string(manifest), "/", wave)
}

// BreakGlass returns what opens every wave of a manifest, or nil.
func (s *Overrides) BreakGlass(manifest digest.Digest) *AcceptedOverride {
	return s.newest(string(fleet.OverrideBreakGlass), "/", string(manifest))
}

// newest returns the override on the subject that the parts of key name, or nil. It is asked
// of every host at every tick: a key that is not there costs no memory.
func (s *Overrides) newest(key ...string) *AcceptedOverride {
	var room [192]byte
	name := room[:0]
	for _, part := range key {
		name = append(name, part...)
	}
	if t, there := s.Newest[string(name)]; there {
		out := t // what is not there costs nothing
		return &out
	}
	return nil
}

// Frozen returns the freeze of a channel, or nil.
func (s *Overrides) Frozen(channel string) *AcceptedOverride {
	return s.restricting("freeze/", channel)
}

// Quarantined returns what quarantines a bundle on a channel for a host, or nil;
// an empty host asks for what holds for all of them.
func (s *Overrides) Quarantined(channel string, d digest.Digest, host string) *AcceptedOverride {
	if len(s.Newest) == 0 {
		return nil
	}
	if t := s.restricting("bundle/", channel, "/", string(d), "/"); t != nil || host == "" {
		return t
	}
	return s.restricting("bundle/", channel, "/", string(d), "/", host)
}

// Allowed returns the newest word that a bundle is allowed again on a channel, or nil.
func (s *Overrides) Allowed(channel string, d digest.Digest) *AcceptedOverride {
	if t := s.newest("bundle/", channel, "/", string(d), "/"); t != nil && !t.Action.Restricts() {
		return t
	}
	return nil
}

// Forbids returns what keeps a host from taking a bundle of a manifest, or nil.
func (s *Overrides) Forbids(channel string, manifest, target digest.Digest, host string) *AcceptedOverride {
	if t := s.Restrictions(channel, manifest); t != nil {
		return t
	}
	return s.Quarantined(channel, target, host)
}

// Message says what an override does and why, for people.
func (t *AcceptedOverride) Message() string {
	return string(t.Action) + " signed as " + t.ID + ": " + t.Reason
}

// CheckOverride blocks new grants of a rollout that an operator's signed override
// stops; action is empty when none does.
func CheckOverride(rollout, action, message string) *Block {
	if action == "" {
		return nil
	}
	h := block(Overlay, "override").because("rollout %s is stopped: %s", rollout, message)
	switch action {
	case "freeze":
		return h.until("a later signed override", never).by("whoever has the override key: steady override sign --action unfreeze, then steady override push", command("override sign --action unfreeze"), command("override push"))
	case "cancel", "rollback":
		return h.until("a release that replaces it, or a signed retry", never).
			by("a releaser: build, sign and push another release; or whoever has the override key: steady rollout retry "+rollout+" --sign KEYS", release(), command("rollout retry "+rollout+" --sign KEYS"))
	}
	return h.until("a later signed override", never).by("whoever has the override key: steady rollout resume "+rollout+" --sign KEYS", command("rollout resume "+rollout+" --sign KEYS"))
}
