// Package override is what the signed words of operators add up to. Server and
// agents fold them with the same functions, in whatever order they come: of two
// on one matter the later signed one counts, so that sending an earlier one again
// changes nothing.
package override

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Max bounds how many matters there are words on within a key epoch.
const Max = 1024

// Taken is a verified override that was taken.
type Taken struct {
	fleet.Override
	Digest   digest.Digest `json:"digest"`             // of the signed payload
	Envelope digest.Digest `json:"envelope,omitempty"` // blob, on a server
}

// State holds the newest word on every matter. Its zero value is empty.
type State struct {
	Newest map[string]Taken `json:"newest,omitempty"`
}

// Outcome says what became of an override.
type Outcome int

// The outcomes. Full and Older change nothing.
const (
	Fresh Outcome = iota + 1
	Known         // this very one was taken before
	Older         // a later one on the same matter was taken before
	Full
)

// matter names what an override is about. Cancel and rollback stand beside pause
// and resume: nothing ends them.
func matter(o *fleet.Override) string {
	switch o.Action {
	case fleet.OverridePause, fleet.OverrideResume:
		return "hold/" + string(o.Manifest)
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		return bundle(o.Channel, o.Bundle, o.Host)
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
		return "freeze/" + o.Channel
	case fleet.OverridePromote:
		return "promote/" + string(o.Manifest) + "/" + o.Wave
	}
	return string(o.Action) + "/" + string(o.Manifest)
}

func bundle(channel string, d digest.Digest, host string) string {
	return strings.Join([]string{"bundle", channel, string(d), host}, "/")
}

// later orders two words on one matter. What holds goes before what loosens when
// they were signed at the same instant.
func later(a, b *Taken) bool {
	held := func(t *Taken) int {
		if t.Action.Holds() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Version, b.Version), cmp.Compare(held(a), held(b)), cmp.Compare(a.Digest, b.Digest)) > 0
}

// Look says what Take would do.
func (s *State) Look(t Taken) Outcome {
	old, there := s.Newest[matter(&t.Override)]
	switch {
	case there && old.Digest == t.Digest:
		return Known
	case there && !later(&t, &old):
		return Older
	case !there && len(s.Newest) >= Max:
		return Full
	}
	return Fresh
}

// Take folds an override.
func (s *State) Take(t Taken) Outcome {
	out := s.Look(t)
	if out == Fresh {
		if s.Newest == nil {
			s.Newest = map[string]Taken{}
		}
		s.Newest[matter(&t.Override)] = t
	}
	return out
}

// Successor returns the later override that stands in the place of t.
func (s *State) Successor(t Taken) (Taken, bool) {
	old, there := s.Newest[matter(&t.Override)]
	return old, there && old.Digest != t.Digest
}

// End forgets what was signed in key epochs before one: a new epoch ends what a
// stolen key may have signed. It reports whether there was anything.
func (s *State) End(epoch uint64) bool {
	before := len(s.Newest)
	maps.DeleteFunc(s.Newest, func(_ string, t Taken) bool { return t.Epoch < epoch })
	return len(s.Newest) != before
}

// Clone returns a copy that shares nothing.
func (s *State) Clone() State { return State{Newest: maps.Clone(s.Newest)} }

// List returns the newest word on every matter, in the order of signing.
func (s *State) List() []Taken {
	return slices.SortedFunc(maps.Values(s.Newest), func(a, b Taken) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Digest, b.Digest))
	})
}

// holding returns the word on a matter if it holds.
func (s *State) holding(key ...string) *Taken {
	if t := s.said(key...); t != nil && t.Action.Holds() {
		return t
	}
	return nil
}

// Hold returns what keeps a manifest from giving out grants: a rollback, a
// cancel, a pause or a freeze of its channel; or nil.
func (s *State) Hold(channel string, manifest digest.Digest) *Taken {
	if len(s.Newest) == 0 {
		return nil
	}
	return cmp.Or(s.RolledBack(manifest), s.Cancelled(manifest), s.Paused(manifest), s.Frozen(channel))
}

// Paused returns the pause of a manifest, or nil.
func (s *State) Paused(manifest digest.Digest) *Taken { return s.holding("hold/", string(manifest)) }

// Cancelled returns the cancel of a manifest, or nil.
func (s *State) Cancelled(manifest digest.Digest) *Taken {
	return s.holding("cancel/", string(manifest))
}

// RolledBack returns the rollback of a manifest, or nil.
func (s *State) RolledBack(manifest digest.Digest) *Taken {
	return s.holding("rollback/", string(manifest))
}

// Promoted returns what lets a wave of a manifest pass, or nil.
func (s *State) Promoted(manifest digest.Digest, wave string) *Taken {
	return s.said("promote/", string(manifest), "/", wave)
}

// BrokenGlass returns what opens every wave of a manifest, or nil.
func (s *State) BrokenGlass(manifest digest.Digest) *Taken {
	return s.said(string(fleet.OverrideBreakGlass), "/", string(manifest))
}

// said returns the word on the matter that the parts of key name, or nil. It is asked
// of every host at every tick: a key that is not there costs no memory.
func (s *State) said(key ...string) *Taken {
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
func (s *State) Frozen(channel string) *Taken { return s.holding("freeze/", channel) }

// Quarantined returns what quarantines a bundle on a channel for a host, or nil;
// an empty host asks for what holds for all of them.
func (s *State) Quarantined(channel string, d digest.Digest, host string) *Taken {
	if len(s.Newest) == 0 {
		return nil
	}
	if t := s.holding("bundle/", channel, "/", string(d), "/"); t != nil || host == "" {
		return t
	}
	return s.holding("bundle/", channel, "/", string(d), "/", host)
}

// Forbids returns what keeps a host from taking a bundle of a manifest, or nil.
func (s *State) Forbids(channel string, manifest, target digest.Digest, host string) *Taken {
	if t := s.Hold(channel, manifest); t != nil {
		return t
	}
	return s.Quarantined(channel, target, host)
}

// Words say what an override does and why, for people.
func (t *Taken) Words() string {
	return string(t.Action) + " signed as " + t.ID + ": " + t.Reason
}
